"""Run a trigger through everything that can go wrong, and count its effects."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import Any, TypeVar

from history.errors import ConfigurationError
from history.message import Message
from triggers.service.checking import check_messages, check_whole
from triggers.testing.simulator.course import BEGINNING, REST, Course, FaultChoice, Rules
from triggers.testing.simulator.effects import UNNAMED, Effects, EffectsBeginning
from triggers.testing.simulator.process_memory import memory_of
from triggers.testing.simulator.real import Life, check_real, run_for_real
from triggers.testing.simulator.report import Finding, Report, Search, remember, steps_of
from triggers.testing.simulator.script import Counts, Fault, FaultScript, Memory, Point, check_counts
from triggers.testing.simulator.store import named
from triggers.testing.simulator.subject import StuckError, Subject
from triggers.testing.simulator.surroundings import StandIns, patched, quiet

T = TypeVar("T")

#: How many scripts of two and more faults are run at most; the seed draws them.
MOST_SCRIPTS = 700

#: How many random runs follow, and how many faults they have at most.
RANDOM_RUNS = 60
RANDOM_FAULTS = 5

#: The note for a dropped script that goes wrong only with a simulated death.
ONLY_SIMULATED = (
    "a script doubled or lost an effect by simulated deaths and not by real ones: a finally or except "
    "BaseException of the service ran there, which a real death would not let happen"
)

#: The default seed of a simulation; the pytest plugin sets it.
default_seed = 0


def exactly_once(  # noqa: PLR0913  (the options of a test, each by its name)
    trigger: Any,
    messages: Sequence[Message],
    *,
    effects: Any,
    call: Callable[[Message], Any] | None = None,
    reset: Callable[[], object] | None = None,
    crashes: int = 2,
    deliveries: int = 4,
    counts: Counts | None = None,
    pauses: bool = False,
    keep: Sequence[object] = (),
    seed: int | None = None,
    script: str | None = None,
    real: bool = False,
) -> Report:
    """Run a trigger through every script of few faults, then through random ones, and count its effects.

    The trigger runs as it is, with its settings, resolver and retries, over a provider, a document history
    and a clock in memory; an atomic trigger over its own database. In each script the process dies before or
    after a step, replies and acknowledgements are lost, copies come early, late and in another order. No real
    time passes: ``time.sleep`` and ``asyncio.sleep`` in the service return immediately.

    Args:
        trigger: made by ``@trigger``; or a guarded task of Celery, Dramatiq or Taskiq, with messages of the
            body ``{"args": [...], "kwargs": {...}}``; or a guard of ``protect()``.
        messages: the messages to send, in this order. Two with one uuid are copies of one message, and so are
            two without a uuid and with equal bodies.
        effects: counts the effects: ``simulator.effects()``, a list or mapping that the service fills, or a
            function that returns how many there are, how often each, or all of them.
        call: the callable that a guard of ``protect()`` calls for each message.
        reset: brings everything outside of the trigger back to where it was before the first message.
            Counters of effects in the process, such as a list, are reset without it.
        crashes: how many faults are tried in every combination, up to a limit from which the seed draws.
        deliveries: how often a message is delivered before nothing goes wrong with it any more.
        counts: the provider's delivery counts: "exact", "undefined" (-1), or both.
        pauses: whether a process may also be paused until its lease is over, and then go on. Only a target
            that checks the fence is safe from that.
        keep: containers that represent something which outlives the process, such as a database.
        seed: the seed of random choices.
        script: run only this script, in the form that a report shows.
        real: whether some scripts also run in real processes: every script of one death, and every other
            script with a finding. The processes are forked, and killed by SIGKILL at each death of the
            script: no ``finally`` and no ``except BaseException`` of the service runs there. Their results
            are reported. Then effects must be outside of the process, or in ``simulator.effects()``.

    Raises:
        ConfigurationError: the trigger cannot be simulated, or an argument makes no sense.
    """
    check_whole("crashes", crashes, 0)
    check_whole("deliveries", deliveries, 1)
    messages = check_messages(messages)
    if not messages:
        raise ConfigurationError("messages", "there are none", "give at least one Message")
    check_counts(counts)

    def run(wanted: str | None) -> Report:
        chance = default_seed if seed is None else seed
        subject = Subject.of(trigger, call)
        simulation: _Simulation | None = None
        beginning = EffectsBeginning(effects, reset)
        instead = StandIns(lambda: _ahead(simulation))
        try:
            if real:
                check_real()
            rest = (deliveries, pauses, keep)
            simulation = _simulation(subject, messages, effects, beginning, rest, chance)
            simulation.real = real
            reference = simulation
            instead.put(subject.services)
            simulation.instead = instead
            with patched(lambda: reference.current), quiet():
                simulation.learn()
                if wanted is None:
                    simulation.try_all(crashes, ("exact", "undefined") if counts is None else (counts,))
                else:
                    simulation.try_script(FaultScript.parse(wanted))
                return simulation.report(lambda script: _outside_of_loops(lambda: run(script)))
        except StuckError:
            raise ConfigurationError(
                "trigger",
                "its service waits for another thread or copy, which does not come here",
                "test it with handle(), or give the service something else while it is simulated",
            ) from None
        finally:
            instead.take_away()
            subject.close()
            if simulation is not None:
                simulation.rules.memory.begin()
            if isinstance(effects, Effects):
                effects.run = None
            beginning.leave()

    return remember(_outside_of_loops(lambda: run(script)))


def _ahead(simulation: "_Simulation | None") -> float:
    """How many seconds the time of the run is ahead of the real time."""
    run = None if simulation is None else simulation.current
    return 0.0 if run is None else (run.now() - BEGINNING).total_seconds()


def _simulation(
    subject: Subject,
    messages: Sequence[Message],
    effects: Any,
    beginning: EffectsBeginning,
    rest: tuple[int, bool, Sequence[object]],
    seed: int,
) -> "_Simulation":
    deliveries, pauses, keep = rest
    beginning.reach()
    destinations = named(messages, subject.trigger.destination)
    groups = [_group(message) for message in messages]
    resolver = subject.trigger.resolver
    durable = [effects, None if resolver is None else resolver.function, *keep]
    memory = memory_of(subject.services, durable=durable, reset=beginning.reset)
    rules = Rules(
        subject, destinations, beginning.count, memory, deliveries, pauses, not isinstance(effects, Effects)
    )
    ledger = effects if isinstance(effects, Effects) else None
    return _Simulation(subject.trigger.name, beginning, ledger, seed, rules=rules, groups=groups)


def _group(message: Message) -> str:
    """Return the common identity of two copies of one message."""
    if message.uuid not in {None, message.message_id}:
        return f"uuid {message.uuid}"
    body = message.body
    return repr(body) if isinstance(body, bytes) else json.dumps(body, sort_keys=True, default=repr)


class _Done(str):
    """The effect of a message that is done, and has no counted effect."""

    __slots__ = ()


@dataclass(slots=True, kw_only=True)
class _Simulation(Search):
    rules: Rules
    groups: Sequence[str]
    current: Course | None = None
    due: dict[str, Counter[Hashable]] = field(default_factory=dict[str, Counter[Hashable]])
    #: The effects before the first message.
    base: Counter[Hashable] = field(default_factory=Counter[Hashable])
    real: bool = False
    instead: StandIns | None = None

    def run(
        self, choice: FaultChoice, chosen: Sequence[int] | None = None, *, later: timedelta = timedelta(0)
    ) -> Course:
        """Run a script from the beginning."""
        with self._beginning(choice, range(len(self.groups)) if chosen is None else chosen) as course:
            course.run(later)
        return course

    @contextmanager
    def _beginning(self, choice: FaultChoice, chosen: Sequence[int]) -> Generator[Course]:
        """Put everything back to the beginning, for one run."""
        self.rules.memory.begin()
        self.beginning.reach()
        course = Course(self.rules, choice, chosen)
        if self.ledger is not None:
            self.ledger.run = course
        self.current = course
        try:
            yield course
        finally:
            self.current = None
            course.clean()

    def learn(self) -> None:
        """Learn the effects of each message if nothing goes wrong: these are due.

        Raises:
            ConfigurationError: no message has an effect, so that no script could show anything.
        """
        verdicts: list[str] = []
        had_effect = False
        for again in (False, True):
            for index, group in enumerate(self.groups):
                if again and self.groups.index(group) != index:
                    continue
                later = REST if again and self._asks_clocks else timedelta(0)
                course = self.run(FaultChoice(FaultScript()), [index], later=later)
                due = _most(course.samples)
                self.base = course.samples[0]
                had_effect = had_effect or bool(due)
                if not due:
                    verdicts += [step.happened for step in steps_of(course, self.rules.messages)]
                if again and set(due) != set(self.due.get(group, due)):
                    self.unnamed = True  # its keys differ in each run: only their number can be compared
                if not due and course.kinds.get(index, set()) & {"ok"}:
                    due = Counter[Hashable]([_Done(f"of {self.rules.messages[index].uuid}")])
                self.due[group] = due
        if not any(self._has_effect(group) for group in self.groups):
            raise _without_effect(verdicts, had_effect=had_effect)
        if self.real:
            self._run_for_real(FaultScript())
        if self.unnamed:
            self.base = Counter[Hashable]({UNNAMED: self.base.total()})
            self.due = {group: Counter[Hashable]({UNNAMED: due.total()}) for group, due in self.due.items()}

    @property
    def _asks_clocks(self) -> bool:
        """Whether the service has asked a clock, so that a long time makes a difference."""
        return self.instead is not None and self.instead.asked

    def _has_effect(self, group: str) -> bool:
        return any(not isinstance(key, _Done) for key in self.due.get(group, ()))

    def try_all(self, crashes: int, counts: Sequence[Counts]) -> None:
        """Run every script of few faults, the shortest first, until something is found; then by chance."""
        kinds: list[Memory] = ["dies"]
        if self.rules.memory.ambiguous:
            kinds.append("stays")
        self._search(kinds, counts, crashes)
        if self._asks_clocks:
            kinds.append("rests")
            self._search(["rests"], counts, crashes)
        if crashes and not self.has_found:
            self._by_chance(kinds, counts)

    def _search(self, kinds: Sequence[Memory], counts: Sequence[Counts], crashes: int) -> None:
        if not self.has_found:
            scripts = [FaultScript(count, memory) for memory in kinds for count in counts]
            self.search(scripts, crashes, MOST_SCRIPTS)

    def points_of(self, script: FaultScript) -> Sequence[Point]:
        """Run a script, and the same with an interrupt."""
        course = self.try_script(script)
        for interrupted in _interrupts(script, course):
            self.try_script(interrupted)
        return course.points

    def _by_chance(self, kinds: Sequence[Memory], counts: Sequence[Counts]) -> None:
        for _ in range(RANDOM_RUNS):
            script = FaultScript(self.chance.choice(counts), self.chance.choice(kinds))
            self._judge(self.run(FaultChoice(script, self.chance, RANDOM_FAULTS)))
            if self.has_found:
                return

    def try_script(self, script: FaultScript) -> Course:
        """Run one script, and judge its result."""
        course = self.run(FaultChoice(script))
        self._judge(course)
        return course

    def _judge(self, course: Course) -> None:
        self.count(course.parked, course.unfinished, course.warnings)
        script, had = course.choice.script, self.rules.count()
        steps = steps_of(course, self.rules.messages)
        finding = None
        if not course.warnings:  # the work of a handler after the death is not evidence
            run = Life(steps=steps, had=had, parked=course.parked, unfinished=course.unfinished)
            finding = self._finding(script, run)
        if self.real and (finding is not None or course.warnings or _is_one_death(script)):
            confirmed = self._finding(script, self._run_for_real(script))
            if finding is not None and confirmed is None:
                self.warnings[ONLY_SIMULATED] = None
            finding = confirmed
        self.keep(finding)

    def _run_for_real(self, script: FaultScript) -> Life:
        with self._beginning(FaultChoice(script), range(len(self.groups))) as course:
            life = run_for_real(course, self.ledger)
            if not script.faults and self.ledger is None and self.rules.count() != life.had:
                raise ConfigurationError(
                    "effects",
                    "they are in the memory of the service's process, and die with it when that is killed",
                    "count what is outside of it, such as a table or files, or use simulator.effects()",
                )
        return life

    def _finding(self, script: FaultScript, run: Life) -> Finding | None:
        """Return the effects that a run has lost or doubled; None if all are as they are due."""
        had = Counter[Hashable]({UNNAMED: run.had.total()}) if self.unnamed else run.had
        excused = {self.groups[index] for index in run.parked | run.unfinished}
        allowed = Counter[Hashable]()
        owed = Counter[Hashable]()
        for group, due in self.due.items():
            allowed += due
            if group not in excused:
                owed += due
        doubled = {key: (had[key], allowed[key]) for key in had if had[key] > allowed[key] > 0}
        lost = {key: (had[key], owed[key]) for key in owed if had[key] < owed[key]}
        unexpected = {key: (count, 0) for key, count in (had - self.base).items() if not allowed[key]}
        surplus = sum(had[key] for key in unexpected) - sum(due - count for count, due in lost.values())
        if unexpected and surplus >= 0:
            lost = {}  # it exists, under a key of this run
        if surplus > 0:
            doubled |= unexpected
        return Finding(script, run.steps, lost, doubled) if doubled or lost else None


def _without_effect(verdicts: Sequence[str], *, had_effect: bool) -> ConfigurationError:
    if had_effect:
        return ConfigurationError(
            "reset",
            "the second run has no effect: the service has kept something from the first",
            "reset that, such as the attributes of an object",
        )
    return ConfigurationError(
        "messages",
        f"no message has an effect although nothing goes wrong: {'; '.join(dict.fromkeys(verdicts))}",
        "correct the messages, the service or what counts its effects",
    )


def _is_one_death(script: FaultScript) -> bool:
    """Whether the script is only one death, and a handler may have hidden its result."""
    return [fault for _, fault in script.faults] in ([Fault.DIE], [Fault.DIE_AFTER])


def _interrupts(script: FaultScript, course: Course) -> Sequence[FaultScript]:
    """Return the same script with an interrupt, which handlers do see, if a handler saw a death."""
    if course.noisy is None or not script.faults or script.faults[-1][1] is not Fault.DIE:
        return []
    number, _ = script.faults[-1]
    return [FaultScript(script.counts, script.memory, (*script.faults[:-1], (number, Fault.INTERRUPT)))]


def _most(samples: Sequence[Counter[Hashable]]) -> Counter[Hashable]:
    """Return the most of each effect between two calls of the service: the work of one call."""
    most = Counter[Hashable]()
    for before, after in pairwise(samples):
        most |= after - before
    return most


def _outside_of_loops(work: Callable[[], T]) -> T:
    """Do it in a separate thread if an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    results: list[T] = []
    errors: list[BaseException] = []

    def keep() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001  (raised again below)
            errors.append(error)

    thread = threading.Thread(target=keep)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
