"""Random histories of a link in both directions: an end always applies a prefix of its peer's work.

``DOUBTLESS_FULL=1`` makes it 20,000 histories. A failure is shrunk to the shortest script that
Hypothesis finds, and can be run again by handing that script to :func:`live_through`.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain, repeat
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from history.store import Offset, Outgoing, watermark
from tests.fixtures.scale import sized
from tests.unit.helpers.lossy import Fate, LossyCarrier, always_arrives, seeded_fates
from tests.unit.triggers.providers.sqlremote.site import Site, pair
from triggers.providers.sqlremote.protocol import publisher, subscriber, verdicts
from triggers.providers.sqlremote.protocol.header import PacketKind
from triggers.providers.sqlremote.protocol.inbox import Apply, SubscriberSettings
from triggers.providers.sqlremote.protocol.packet import Packet
from triggers.providers.sqlremote.protocol.parts import Transaction
from triggers.providers.sqlremote.protocol.publisher import PublisherSettings, PublisherState
from triggers.providers.sqlremote.protocol.verdicts import Verdict

pytestmark = pytest.mark.slow

HISTORIES = sized(300, full=20_000)

#: Bytes of a transaction: many small ones fit into a message, and a large one needs several messages.
SIZES = (0, 30, 150, 400, 900)

#: So small that transactions of some hundred bytes are cut.
SMALL, SMALLER = 600, 520

PUBLISHING = PublisherSettings(message_size=SMALL, probe_after=timedelta(minutes=3))
HURRIED = PublisherSettings(
    message_size=SMALL, probe_after=timedelta(minutes=3), resend_urgency=timedelta(minutes=2)
)
RECEIVING = SubscriberSettings(group=2, max_gap_messages=6, max_gap_age=timedelta(minutes=20))
PATIENT = SubscriberSettings(group=20, patience=3, max_gap_age=timedelta(minutes=20))


class Commit(NamedTuple):
    site: int
    size: int


class Run(NamedTuple):
    """The agent of one end runs; ``fates`` are the fates of its messages; it dies after ``fuse`` effects."""

    site: int
    steps: tuple[str, ...]
    fates: tuple[Fate, ...] = ()
    fuse: int | None = None


class Wait(NamedTuple):
    minutes: int


class Resize(NamedTuple):
    """One end is started again with another message size."""

    site: int
    size: int


Move = Commit | Run | Wait | Resize

sites = some.integers(0, 1)
commits = some.builds(Commit, sites, some.sampled_from(SIZES))
runs = some.builds(
    Run,
    sites,
    some.sampled_from([("send",), ("poll",), ("poll", "send"), ("tick", "send"), ("tick", "poll", "send")]),
    some.lists(some.sampled_from(Fate), max_size=5).map(tuple),
    some.none() | some.integers(1, 25),
)
waits = some.builds(Wait, some.sampled_from([1, 4, 30]))
resizes = some.builds(Resize, sites, some.sampled_from([SMALL, SMALLER]))
moves: some.SearchStrategy[Move] = some.one_of(commits, runs, runs, runs, waits, resizes)
scripts = some.lists(moves, min_size=8, max_size=40)


class World:
    """Two ends and the carrier between them."""

    def __init__(
        self, publishing: PublisherSettings = PUBLISHING, receiving: SubscriberSettings = RECEIVING
    ) -> None:
        self.carrier = LossyCarrier()
        self.ends = pair(self.carrier, publishing=publishing, receiving=receiving)
        self.resized = False
        self.written = 0

    def make(self, move: Move) -> None:
        match move:
            case Commit(site, size):
                self.written += 1
                self.ends[site].commit(b"%d:" % self.written + bytes(size), step=1 + size % 7)
            case Run(site, steps, fates, fuse):
                following = chain(fates, repeat(Fate.ARRIVES))
                self.carrier.fate = lambda: next(following)
                self.ends[site].run(steps, fuse)
            case Wait(minutes):
                self.ends[0].clock.pass_by(minutes)
            case Resize(site, size):
                self.resized = self.resized or size != self.ends[site].publishing.message_size
                self.ends[site].resize(size)
        self.check()

    def check(self) -> None:
        one, other = self.ends
        one.check(other)
        other.check(one)

    def drain(self, rounds: int = 60) -> None:
        """Let both ends run without faults until neither has anything to send."""
        self.carrier.fate = always_arrives
        quiet = 0
        for _ in range(rounds):
            before = sum(end.messages for end in self.ends)
            self.ends[0].clock.pass_by(5)
            for end in self.ends:
                end.run(("tick", "send", "poll"))
                self.check()
            # After one quiet round a timer may still run out; after two there is none.
            quiet = quiet + 1 if sum(end.messages for end in self.ends) == before else 0
            if quiet > 1 and self.is_drained:
                return
        raise AssertionError("the link does not come to rest")

    def exchange(self, transactions: int) -> None:
        """Let both ends commit in turn without faults, until all has arrived."""
        for number in range(transactions):
            self.make(Commit(number % 2, SIZES[number % len(SIZES)]))
            self.make(Run(number % 2, ("tick", "poll", "send")))
            self.make(Wait(1))
        self.drain()
        self.check_rest()

    @property
    def is_drained(self) -> bool:
        one, other = self.ends
        equal = one.applied == other.committed and other.applied == one.committed
        return equal and not self.carrier.under_way

    @property
    def progress(self) -> list[int]:
        """The numbers that may only grow."""
        rows = [end.row for end in self.ends]
        return [
            *(row.incoming.log_received for row in rows),
            *(row.incoming.confirm_received or 0 for row in rows),
            *(row.incoming.rereceive_count for row in rows),
            *(row.outgoing.confirm_sent for row in rows),
            *(row.outgoing.resend_count for row in rows),
        ]

    def check_rest(self) -> None:
        """Check that both ends agree when no message is under way."""
        for end, other in (self.ends, self.ends[::-1]):
            out, into = end.row.outgoing, other.row.incoming
            assert out.log_sent == out.confirm_sent == into.log_received == (into.confirm_received or 0)
            # An end that starts with another size adds one to its count, and may have nothing to send then.
            assert out.resend_count == into.rereceive_count or self.resized
            assert not other.subscriber.cache


def live_through(
    script: Sequence[Move],
    publishing: PublisherSettings = PUBLISHING,
    receiving: SubscriberSettings = RECEIVING,
) -> World:
    """Make the moves of a script, then stop the faults."""
    world = World(publishing, receiving)
    before = world.progress
    for move in script:
        world.make(move)
        now = world.progress
        assert all(earlier <= later for earlier, later in zip(before, now, strict=True)), "a row went back"
        before = now
    world.drain()
    world.check_rest()
    return world


@pytest.mark.timeout(120 + HISTORIES // 5)
@settings(
    max_examples=HISTORIES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(script=scripts, hurried=some.booleans(), patient=some.booleans())
def test_what_is_applied_is_a_prefix_of_what_was_committed_and_everything_drains(
    script: list[Move], *, hurried: bool, patient: bool
) -> None:
    live_through(script, HURRIED if hurried else PUBLISHING, PATIENT if patient else RECEIVING)


def seeded(seed: int, fault_rate: float = 0.35) -> World:
    """Return a world after a longer history from a seed; half of its runs die."""
    fates = seeded_fates(seed, fault_rate=fault_rate)
    world = World()
    for turn in range(40):
        site = (turn + seed) % 2
        world.make(Commit(site, SIZES[(turn * 7 + seed) % len(SIZES)]))
        fuse = None if (turn + seed) % 4 < 2 else 1 + (turn * 5 + seed) % 30
        world.make(Run(site, ("tick", "poll", "send"), tuple(fates() for _ in range(12)), fuse))
        world.make(Wait(1 + turn % 4))
    world.drain()
    world.check_rest()
    return world


def seeds(number: int) -> list[World]:
    return [seeded(seed) for seed in range(number)]


def test_a_long_history_with_every_fault_drains() -> None:
    worlds = seeds(20)

    ends = [end for world in worlds for end in world.ends]
    assert sum(end.deaths for end in ends) > 20
    assert sum(end.row.outgoing.resend_count for end in ends) > 20
    assert all(end.row.incoming.receive_count > 0 for end in ends)


def test_a_link_without_faults_asks_for_nothing_twice() -> None:
    world = World()
    world.exchange(30)

    assert [end.row.outgoing.resend_count for end in world.ends] == [0, 0]
    sent = [end.row.outgoing.send_count for end in world.ends]
    assert sent == [end.row.incoming.receive_count for end in world.ends[::-1]]


def lose_the_last_message() -> World:
    world = World()
    world.drain()
    world.make(Commit(0, 30))
    world.make(Run(0, ("send",), (Fate.IS_LOST,)))
    return world


def test_a_last_message_that_is_lost_is_sent_again() -> None:
    world = lose_the_last_message()
    world.drain()
    world.check_rest()

    assert world.ends[0].row.outgoing.resend_count == 1


def test_a_last_message_that_is_lost_stays_lost_without_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    world = lose_the_last_message()
    monkeypatch.setattr(publisher, "tick", tick_without_probe)

    with pytest.raises(AssertionError, match="does not come to rest"):
        world.drain()


def test_a_link_without_work_is_silent() -> None:
    world = World()
    world.drain()
    before = [end.messages for end in world.ends]

    for _ in range(20):
        world.make(Wait(30))
        world.make(Run(0, ("tick", "poll", "send")))
        world.make(Run(1, ("tick", "poll", "send")))

    assert [end.messages for end in world.ends] == before


def early_is_ready(packet: Packet, received: Offset) -> Verdict:
    verdict = verdicts.classify(packet, received)
    whole = packet.header.kind is PacketKind.SINGLE
    return Verdict.READY if verdict is Verdict.EARLY and whole else verdict


def work_without_its_offset(site: Site, action: Apply) -> None:
    site.applied += [one.data for one in action.transactions]
    for one in action.transactions:
        site.commit(one.data, origin=site.peer)
    site.burn()
    site.row = replace(site.row, incoming=action.columns)


def rewind_without_going_back(row: Outgoing, resend_count: int) -> Outgoing:
    return replace(row, resend_count=resend_count)


def confirm_whatever_was_sent(row: Outgoing, offset: Offset, _: bytes | None = None) -> Outgoing:
    return replace(row, confirm_sent=max(row.log_sent, offset), log_sent=max(row.log_sent, offset))


def tick_without_probe(state: PublisherState, **_: object) -> publisher.PublisherStep:
    return publisher.PublisherStep(state)


def never_loses_patience(*_: object, **__: object) -> bool:
    return False


def everything_is_eligible(site: Site) -> list[Transaction]:
    return site.log


#: Planted bugs: the function to replace, and its replacement.
BREACHES: dict[str, tuple[object, str, object]] = {
    "what is beyond a gap is applied": (subscriber, "classify", early_is_ready),
    "work and offset are stored one after the other": (Site, "commit_applied", work_without_its_offset),
    "nothing is asked for again": (subscriber, "loses_patience", never_loses_patience),
    "nothing is sent again": (watermark, "rewind", rewind_without_going_back),
    "what was sent counts as confirmed": (watermark, "confirm", confirm_whatever_was_sent),
    "what comes from the peer is echoed": (Site, "eligible", property(everything_is_eligible)),
}


@pytest.mark.parametrize("name", BREACHES)
def test_the_simulation_finds_out_when(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BREACHES[name])

    with pytest.raises(AssertionError):
        seeds(30)
