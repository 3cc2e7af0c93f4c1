"""One chaos soak on one ground: send, consume, make trouble, and account for every message."""

import random
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmarks.chaos.account import Account, Report
from benchmarks.chaos.ground import EVERYWHERE, Ground, Trouble
from benchmarks.chaos.remembering import Losses, Memory, parked_uuids
from benchmarks.soak import FAST, FAST_SQLJMS, Progressing, drained_at, send, shuffled_uuids
from benchmarks.soak_effects import TableEffects, waiting
from benchmarks.soak_fleet import Fleet
from history.bridge import drive
from history.opening import open_history

T = TypeVar("T")

#: A consumer logs this if its history has forgotten something.
ANNOUNCEMENT = "are NEW again"

#: The longest pause on either side of an effect, in seconds. Some troubles take seconds, and they must hit
#: working consumers.
LONGEST_MOMENT = 0.02

#: How many messages are sent after a loss, so that every consumer claims something.
MORE = 200

#: How long the consumers may take to say so, in seconds.
SOON = 30.0


@dataclass(frozen=True, slots=True)
class GroundEffects:
    """The table of effects, on the server that has it now."""

    ground: Ground

    def count(self) -> int:
        """Count the effects."""
        return self._ask(TableEffects.count)

    def lines(self) -> Sequence[tuple[str, ...]]:
        """Return the effects."""
        return self._ask(TableEffects.lines)

    def _ask(self, question: Callable[[TableEffects], T]) -> T:
        effects = TableEffects(self.ground.direct)
        try:
            return question(effects)
        finally:
            effects.close()


@dataclass(slots=True, kw_only=True)
class ChaosSoak:
    """So many messages at ``provider``, which has no trouble, with their history on a ground that has.

    If the ground is atomic, it also holds the messages, and nobody uses ``provider``.
    """

    folder: Path
    provider: str
    name: str
    ground: Ground
    messages: int
    troubles: int
    processes: int = 4
    seed: int = 0
    chance: random.Random = field(init=False)
    sent: dict[str, str] = field(init=False, default_factory=dict[str, str])
    lost: Losses = field(init=False, default_factory=Losses)
    happened: Counter[str] = field(init=False, default_factory=Counter[str])
    failed: list[str] = field(init=False, default_factory=list[str])

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311  (to be repeated by its seed)

    def run(self, show: Callable[[int, str], None] = lambda _effects, _trouble: None) -> Report:
        """Do it.

        Raises:
            RuntimeError: nothing happened for a minute, or a process failed that nobody had killed.
        """
        begun = time.monotonic()
        self._send(shuffled_uuids(self.chance, self.seed, self.messages))
        atomic = self.ground.rules.atomic
        fleet = Fleet(
            folder=self.folder,
            provider=f"{self.ground.history}?{FAST_SQLJMS}" if atomic else self.provider + FAST,
            history=self.ground.history,
            processes=self.processes,
            atomic=GroundEffects(self.ground) if atomic else None,
            moment=LONGEST_MOMENT,
        )
        with fleet:
            self._make_trouble(fleet, show)
            self.failed += fleet.drain()
        return Report(
            ground=self.name,
            rules=self.ground.rules,
            seed=self.seed,
            seconds=time.monotonic() - begun,
            troubles=self.happened,
            fates=self._account(fleet).fates(self.sent),
            lost=self.lost,
            announced=fleet.log().count(ANNOUNCEMENT),
            failed=self.failed,
        )

    @property
    def uuids(self) -> Sequence[str]:
        """All that were sent."""
        return sorted(set(self.sent.values()))

    def _send(self, uuids: Sequence[str]) -> None:
        self.sent |= send(self.ground.history if self.ground.rules.atomic else self.provider, uuids)

    def _make_trouble(self, fleet: Fleet, show: Callable[[int, str], None]) -> None:
        """Spread the troubles over the remaining effects, and wait until all messages are consumed."""
        coming, left = self._in_turn(), self.troubles
        due, progress = 0.0, Progressing(fleet)
        with self._watching() as has_all_consumed:
            while self._goes_on(left, is_drained=has_all_consumed()):
                progress.look()
                if left and progress.effects and progress.effects >= due:
                    name, trouble = next(coming)
                    show(progress.effects, name)
                    self._strike(name, trouble, fleet)
                    left -= 1
                    progress = Progressing(fleet, fleet.effects.count())
                    share = max(0, len(self.sent) - progress.effects) / (left + 1)
                    due = progress.effects + self.chance.uniform(0.5, 1.5) * share
                fleet.look_after()
                show(progress.effects, "")
                time.sleep(0.02)

    def _goes_on(self, left: int, *, is_drained: bool) -> bool:
        """Return whether messages remain. A fast run gets more messages until each trouble has happened."""
        if is_drained and left and len(self.happened) < len(self._known()):
            self._send_more()
            return True
        return not is_drained

    @contextmanager
    def _watching(self) -> Generator[Callable[[], bool]]:
        """Yield a function that says whether all messages were read and acknowledged."""
        if self.ground.rules.atomic:
            yield lambda: not waiting(self.ground.direct)  # the URL changes with each failover
            return
        with drained_at(self.provider) as is_drained:
            yield is_drained

    def _in_turn(self) -> Iterator[tuple[str, Trouble]]:
        """Yield all troubles again and again, in a new order each time."""
        while True:
            troubles = self._known()
            self.chance.shuffle(troubles)
            yield from troubles

    def _known(self) -> list[tuple[str, Trouble]]:
        return [*EVERYWHERE.items(), *self.ground.troubles.items()]

    def _send_more(self) -> None:
        more = range(len(self.sent), len(self.sent) + MORE)
        self._send([f"{self.seed:x}-{number}" for number in more])

    def _strike(self, name: str, trouble: Trouble, fleet: Fleet) -> None:
        """Make one trouble. If a server forgot entries, check that a consumer reports it at a claim."""
        said = fleet.log().count(ANNOUNCEMENT)
        losses = trouble(fleet, self.chance, self.uuids)
        self.happened[name] += 1
        self.lost.add(losses)
        if losses.forgotten and (self.ground.rules.loses or self.ground.rules.announces_all):
            self._send_more()
            if not _within(SOON, lambda: fleet.log().count(ANNOUNCEMENT) > said):
                self.failed.append(f"{name}: {losses.forgotten} entries are gone, and no consumer said so")

    def _account(self, fleet: Fleet) -> Account:
        lines = fleet.effects.lines()
        memory = Memory.of(self.ground.direct, self.uuids)
        return Account(
            effects=Counter(uuid for uuid, _, _ in lines),
            executed={message_id for _, message_id, _ in lines},
            parked=memory.parked | self._parked_locally(),
            completed={uuid for uuid, entry in memory.entries.items() if entry.outcome is not None},
            lost=self.lost if self.ground.rules.loses else Losses(),
        )

    def _parked_locally(self) -> frozenset[str]:
        """Return the uuids of messages that consumers parked in a file while no server accepted them."""
        file = self.folder / "state" / "doubtless" / "parked.sqlite3"
        if not file.exists():
            return frozenset()
        store = open_history(f"sqlite:///{file}")
        try:
            return parked_uuids(store, self.messages)
        finally:
            drive(store.close())


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
