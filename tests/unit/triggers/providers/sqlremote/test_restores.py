"""An end is restored from a backup at every point of an exchange, and goes on with other work.

Each time, the link must stop with an alarm, or both ends must have the same data.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from tests.fixtures.scale import sized
from tests.unit.helpers.lossy import Fate
from tests.unit.triggers.providers.sqlremote.test_simulation import (
    SIZES,
    Commit,
    Move,
    Run,
    Wait,
    World,
    commits,
    runs,
    waits,
)
from triggers.providers.sqlremote.protocol import publisher as pub
from triggers.providers.sqlremote.protocol import subscriber as sub

pytestmark = pytest.mark.slow

HISTORIES = sized(300, full=20_000)

#: One in so many points of the exchange is tried; with more time, every point.
SKIP = sized(3, full=1)

#: How often both ends run at the end: more than a request, a probe and their answers need.
ROUNDS = 12

#: Transactions that fit into one message, that need several, and of both kinds.
KINDS = {"single": (30,), "multi-part": (900,), "mixed": (30, 900, 150)}


class Restored(World):
    """Two ends; one end may be restored. They are checked only after both have come to rest."""

    def check(self) -> None:
        """Expect nothing yet."""

    @property
    def is_alarmed(self) -> bool:
        return any(end.is_alarmed for end in self.ends)

    def settle(self) -> None:
        """Let both ends run without faults."""
        self.carrier.fate = lambda: Fate.ARRIVES
        for _ in range(ROUNDS):
            self.ends[0].clock.pass_by(5)
            for end in self.ends:
                if not end.is_alarmed:
                    end.run(("tick", "send", "poll"))

    def check_outcome(self) -> None:
        one, other = self.ends
        equal = one.applied == other.committed and other.applied == one.committed
        assert self.is_alarmed or equal, (one.committed, other.applied, other.committed, one.applied)


class Case(NamedTuple):
    """The moves after which the backup was made and restored, and the commits after that."""

    backup: int
    restored: int
    others: int
    same_end: bool


def exchange(sizes: tuple[int, ...]) -> list[Move]:
    """Return the moves of six transactions, some sent together and some alone, and their confirmations."""
    moves: list[Move] = []
    for number in range(6):
        moves.append(Commit(0, sizes[number % len(sizes)]))
        if number % 3 != 1:
            moves += [Run(0, ("send",)), Run(1, ("poll",)), Wait(1)]
        if number % 2:
            moves.append(Run(0, ("poll",)))
    return moves


def cases(length: int) -> Iterator[Case]:
    for backup in range(0, length, SKIP):
        for restored in range(backup + 1, length + 1, SKIP):
            for others in (0, 1, 4):
                yield Case(backup, restored, others, same_end=False)
                if others:
                    yield Case(backup, restored, others, same_end=True)


def lived(kind: str, case: Case, *, first: tuple[str, ...]) -> Restored:
    """Make an exchange, restore the publisher in the middle of it, and let it do other work."""
    moves, world = exchange(KINDS[kind]), Restored()
    publisher = world.ends[0]
    backup = publisher.back_up()
    for number, move in enumerate(moves[: case.restored]):
        if number == case.backup:
            backup = publisher.back_up()
        world.make(move)
    gone = publisher.committed
    publisher.restore(backup)
    for number in range(case.others):
        size = KINDS[kind][number % len(KINDS[kind])]
        last = case.same_end and number == case.others - 1
        offset = publisher.log_end + 1 + size % 7
        data = _same(world, gone) if last else b"other %d:%d" % (number, offset) + bytes(size)
        publisher.commit(data, step=1 + size % 7)
    publisher.run(first)
    return world


def _same(world: Restored, gone: list[bytes]) -> bytes:
    """Return the last data of the log before the restore, so that the logs of both ends look alike."""
    return gone[-1] if gone else b"%d" % len(world.ends)


@pytest.mark.parametrize("first", [("send",), ("poll",), ("poll", "send"), ("send", "poll")], ids="-".join)
@pytest.mark.parametrize("kind", KINDS)
def test_a_publisher_that_was_restored_stops_its_link_or_both_have_the_same(
    kind: str, first: tuple[str, ...]
) -> None:
    alarmed = 0
    for case in cases(len(exchange(KINDS[kind]))):
        world = lived(kind, case, first=first)
        world.settle()
        world.check_outcome()
        alarmed += world.is_alarmed
    assert alarmed > 20


def lost_and_late(loss: int, *, tail: bytes | None) -> Restored:
    """Apply four, restore the publisher to the third, and send three others; the message ``loss`` is lost."""
    world = Restored()
    x, y = world.ends
    for number in range(4):
        world.make(Commit(0, 30))
        if number < 3:
            world.make(Run(0, ("send",)))
            world.make(Run(1, ("poll",)))
            world.make(Run(0, ("poll",)))
    backup = x.row, len(x.log) - 1, len(x.applied)
    world.make(Run(0, ("send",)))
    x.restore(backup)
    for number in range(3):
        x.commit(tail if tail is not None and number == 2 else b"other %d" % number, step=3)
        fates = [Fate.IS_LOST if number == loss else Fate.ARRIVES]
        world.carrier.fate = lambda fates=fates: fates[0]  # type: ignore[misc]
        x.run(("send",))
    y.run(("poll",))
    return world


@pytest.mark.parametrize("loss", range(4))
def test_other_work_whose_first_message_is_lost_is_not_applied_behind_the_old(loss: int) -> None:
    world = lost_and_late(loss, tail=None)

    world.settle()

    world.check_outcome()
    assert world.is_alarmed


moves: some.SearchStrategy[Move] = some.one_of(commits, runs, runs, runs, waits)
scripts = some.lists(moves, min_size=4, max_size=25)


@pytest.mark.timeout(120 + HISTORIES // 5)
@settings(
    max_examples=HISTORIES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    before=scripts,
    between=scripts,
    after=scripts,
    site=some.integers(0, 1),
    one_way=some.sampled_from([0, 1, None]),
)
def test_whatever_happens_around_a_restore_nothing_differs_in_silence(
    before: list[Move], between: list[Move], after: list[Move], site: int, one_way: int | None
) -> None:
    world = Restored()
    end = world.ends[site]

    def make(script: list[Move]) -> None:
        for move in script:
            if isinstance(move, Commit) and one_way is not None and move.site != one_way:
                continue
            if not (isinstance(move, Run) and world.ends[move.site].is_alarmed):
                world.make(move)

    make(before)
    backup = end.back_up()
    make(between)
    end.restore(backup)
    make(after)
    world.settle()
    world.check_outcome()


def test_a_greeting_of_a_restored_publisher_that_is_lost_is_sent_again() -> None:
    world = Restored()
    x, y = world.ends
    backup = x.back_up()
    world.make(Commit(0, 0))
    world.make(Run(0, ("send",)))
    world.carrier.fate = lambda: Fate.IS_LOST  # the confirmation, and all until the settling
    y.run(("poll",))
    x.restore(backup)
    x.run(("tick", "send"))

    world.settle()

    assert y.applied != x.committed
    assert world.is_alarmed


def test_what_was_said_before_a_restore_answers_no_greeting_after_it() -> None:
    world = Restored()
    x, y = world.ends
    y.run(("poll",))  # its report is still on its way when the other end has been restored
    backup = x.back_up()
    world.make(Commit(0, 0))
    world.make(Run(0, ("send",)))
    world.carrier.fate = lambda: Fate.IS_LOST  # the confirmation
    y.run(("poll",))
    x.restore(backup)
    x.run(("poll",))

    world.settle()

    assert y.applied != x.committed
    assert world.is_alarmed


class TestOlderVersions:
    """A peer that does not know chains goes on as before."""

    @pytest.mark.parametrize("old", [0, 1])
    def test_an_old_and_a_new_end_understand_each_other(self, old: int) -> None:
        world = World()
        world.ends[old].chains = False

        world.exchange(20)

    @pytest.mark.parametrize("old", [(0,), (1,), (0, 1)])
    def test_ends_that_are_upgraded_while_work_is_under_way_compare_from_then_on(
        self, old: tuple[int, ...]
    ) -> None:
        world = Restored()
        for end in old:
            world.ends[end].forget_chains()
            world.ends[end].chains = False
        for number in range(7):
            world.make(Commit(0, SIZES[number % len(SIZES)]))
            world.make(Run(0, ("send",)))
            if number % 3 == 0:
                world.make(Run(1, ("poll",)))
        for end in old:
            world.ends[end].forget_chains()
            world.ends[end].chains = True
        for number in range(6):
            world.make(Commit(0, SIZES[number % len(SIZES)]))
            world.settle()
        assert not world.is_alarmed
        world.check_outcome()

        x = world.ends[0]
        backup = x.back_up()
        world.make(Commit(0, 30))
        world.settle()
        x.restore(backup)
        x.commit(b"other", step=1 + 30 % 7)
        world.settle()
        assert world.is_alarmed


def never(*_: object) -> bool:
    return False


def nobody(*_: object) -> None:
    return None


def test_the_restores_find_out_when_nobody_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sub, "differs", never)
    monkeypatch.setattr(pub, "questioned", nobody)

    worlds = [lost_and_late(loss, tail=None) for loss in range(4)]
    for world in worlds:
        world.settle()

    assert not all(world.is_alarmed for world in worlds)
    with pytest.raises(AssertionError):
        worlds[0].check_outcome()
