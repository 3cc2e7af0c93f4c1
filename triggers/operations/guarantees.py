"""The three guarantee levels of the design, and which of them a given trigger reaches."""

import dis
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, cast

from history.bridge import drive
from history.errors import ConfigurationError, DoubtlessError, UnavailableError
from history.support.rendering import text_of
from triggers.declaration.decorator import Trigger
from triggers.guards.guard import Guard


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One level: its condition, and its guarantee."""

    level: str
    when: str
    promise: str


ATOMIC = Guarantee(
    "atomic", "history entry and effects share one SQL transaction", "exactly once, no In Doubt window"
)
FENCED = Guarantee(
    "fenced", "the effects are elsewhere, and their target checks the uuid and the fence", "exactly once"
)
IN_DOUBT = Guarantee(
    "in doubt",
    "the effects are elsewhere, and nothing checks them",
    "doubtless never runs a message twice on its own; after a crash, the resolver or a person decides, "
    "and nothing is lost",
)

#: The levels, strongest first.
GUARANTEES = (ATOMIC, FENCED, IN_DOUBT)


@dataclass(frozen=True, slots=True)
class Reached:
    """The result for one trigger: a level, or the reason why there is none, and details."""

    promise: str
    why: str

    def satisfies(self, required: str) -> bool:
        """Whether its level is at least as strong as the required one."""
        levels = [guarantee.level for guarantee in GUARANTEES]
        return self.promise in levels[: levels.index(required) + 1]


def guarantee_of(trigger: Trigger[..., Any]) -> Reached:
    """Return the guarantee of a trigger; never more than its settings and its service prove."""
    if trigger.settings.shadow:
        return Reached(
            "none", "shadow: no guarantee: messages that would be stopped run, and are only reported"
        )
    reached = next(_reached(trigger))
    if reached.promise not in {guarantee.level for guarantee in GUARANTEES} or not _is_in_memory(trigger):
        return reached
    return Reached(
        f"{IN_DOUBT.level} until the process ends",
        "its history is in memory: a restart forgets it, and what is delivered again is NEW; otherwise: "
        + reached.why,
    )


def checked_guarantee_of(trigger: Trigger[..., Any]) -> Reached:
    """Return the guarantee of a trigger after a check whether its history may forget.

    If one history does not answer, the other triggers are still reported.
    """
    reached = guarantee_of(trigger)
    if not trigger.has_history or trigger.needs_history:
        return reached
    store = trigger.open_store()
    if store is None:
        return reached
    try:
        warnings = list(drive(store.check()))
    except (ConfigurationError, UnavailableError) as error:
        warnings = [text_of(error)]
    finally:
        if trigger.opens_its_history:
            drive(store.close())
    if not warnings or _is_in_memory(trigger):
        return reached
    return Reached(
        f"{reached.promise} unless its history forgets", f"{'; '.join(warnings)}; else: {reached.why}"
    )


def _is_in_memory(trigger: Trigger[..., Any]) -> bool:
    """Whether the history dies with its process, by its URL or store; nothing is connected."""
    if not trigger.has_history or trigger.needs_history:
        return False
    try:
        store = trigger.open_store()
    except DoubtlessError:  # its driver is missing here: it is not in memory
        return False
    try:
        # The engine of a SQL history names its database; SQLite's in memory has none, or says so.
        engine = getattr(store, "_engine", None)
        if engine is not None:
            return engine.url.get_backend_name() == "sqlite" and engine.url.database in {None, "", ":memory:"}
        return type(store).__module__.startswith("history.memory")
    finally:
        if trigger.opens_its_history and store is not None:
            drive(store.close())


def answer_without_looking(resolver: Callable[..., Any] | None) -> str | None:
    """Return the only answer of a resolver that ignores its parameters; None if it reads one.

    If it never reads a parameter, nothing in the message can change its answer.
    """
    function = inspect.unwrap(resolver) if resolver is not None else None
    if isinstance(function, MethodType) or not isinstance(function, FunctionType):
        return None
    code = function.__code__
    if code.co_freevars or code.co_cellvars:
        return None
    gathered = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    parameters = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + gathered])
    for step in dis.get_instructions(code):
        # From Python 3.13 on one instruction may load two.
        argument: Any = step.argval
        read: set[str] = parameters if argument in parameters else _loaded_two(argument) & parameters
        if step.opname.startswith(("LOAD_FAST", "STORE_FAST_LOAD_FAST")) and read:
            return None
    verdicts = {"NEW", "DUPLICATE", "IN_DOUBT"} & {*code.co_names, *_texts(code.co_consts)}
    return verdicts.pop() if len(verdicts) == 1 else None


def _loaded_two(argument: Any) -> set[str]:
    """Return the two names that an instruction loads together; none if it loads only one."""
    return set(map(str, cast("tuple[object, ...]", argument))) if isinstance(argument, tuple) else set()


def _texts(constants: tuple[object, ...]) -> set[str]:
    return {constant for constant in constants if isinstance(constant, str)}


def _reached(trigger: Trigger[..., Any]) -> Iterator[Reached]:
    settings, binding = trigger.settings, trigger.binding
    if settings.acknowledge_mode == "auto":
        yield Reached("at most once", "acknowledge_mode='auto': a crash loses what was received")
    if not settings.policy.detect_duplicates:
        yield Reached("at least once", "duplicates are not detected: the service runs on every delivery")
    if not trigger.has_history:
        yield Reached("none", "no document history: only the delivery count and the resolver decide")
    if binding.resources:
        taken = " and ".join(sorted(binding.resources))
        yield Reached(ATOMIC.level, f"the service takes the {taken} of its history's transaction")
    word = None if trigger.resolver is None else answer_without_looking(trigger.resolver.function)
    if word == "NEW":
        yield Reached(
            "at least once", "its resolver answers NEW without looking: what may have run runs again"
        )
    if word == "DUPLICATE":
        yield Reached(
            "at most once", "its resolver answers DUPLICATE without looking: what may not have run is lost"
        )
    if settings.policy.in_doubt == "execute":
        yield Reached("at least once", "in_doubt='execute': a message In Doubt runs again")
    if settings.policy.in_doubt == "acknowledge":
        yield Reached("at most once", "in_doubt='acknowledge': a message In Doubt is dropped")
    if binding.takes_delivery and trigger.service.__module__ != Guard.__module__:  # which always takes one
        yield Reached(
            FENCED.level, "the service takes a Delivery: if its target checks delivery.fence; else in doubt"
        )
    yield Reached(IN_DOUBT.level, f"{IN_DOUBT.promise}; {_meeting_copies(trigger)}")


def _meeting_copies(trigger: Trigger[..., Any]) -> str:
    """Say what happens to a copy that arrives while its original runs."""
    lease = trigger.settings.lease
    if lease is not None:
        return f"a copy waits while its original runs, and {lease.total_seconds():g} s after it has died"
    if trigger.resolver is None:
        return "lease=None: a copy that arrives while its original runs is In Doubt at once"
    return "lease=None: the resolver runs while the original runs, and where it says NEW, both run"
