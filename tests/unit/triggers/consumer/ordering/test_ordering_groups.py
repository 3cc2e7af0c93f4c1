"""Each group runs in its order, one message at a time, even if messages are given back."""

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from history.message import Message
from triggers.consumer.ordering.groups import Groups, Ticket
from triggers.providers.provider import Arrival, Received, Unreadable

DELAYS = (5.0, 300.0)


def arrival(name: str, group: str | None = "g") -> Arrival:
    return Arrival(Message(uuid=name, group_id=group, body=""), handle=name)


def groups_with(*names: str, group: str | None = "g", serial: bool = False) -> Groups:
    groups = Groups(serial=serial)
    for name in names:
        groups.arrive(arrival(name, group))
    return groups


def take(groups: Groups) -> Ticket:
    ticket = groups.take()
    assert ticket is not None
    return ticket


def name_of(ticket: Ticket | None) -> str | None:
    return None if ticket is None else str(ticket.received.handle)


def test_different_groups_do_not_wait_for_each_other() -> None:
    groups = groups_with("1", "2")
    groups.arrive(arrival("other", "h"))

    assert [name_of(groups.take()) for _ in range(3)] == ["1", "other", None]


@pytest.mark.parametrize("group", [None, ""], ids=["none", "empty"])
def test_only_a_message_without_any_group_waits_for_nobody(group: str | None) -> None:
    groups = groups_with("1", "2", group=group)
    take(groups)

    assert (groups.take() is None) == (group == "")


def test_serial_puts_everything_into_one_group() -> None:
    groups = groups_with("1", group=None, serial=True)
    groups.arrive(arrival("2", "g"))
    groups.arrive(Unreadable({}, "no message", b"3"))
    first = take(groups)

    assert groups.take() is None
    groups.done(first)
    second = take(groups)
    groups.done(second)
    assert name_of(second) == "2"
    assert isinstance(take(groups).received, Unreadable)


def test_copies_of_one_message_have_each_a_place() -> None:
    groups = groups_with("1", "1", "2")
    groups.give_back(take(groups), due=0.0)

    assert groups.take() is None
    groups.arrive(arrival("1"))
    ran: list[str | None] = []
    while (ticket := groups.take()) is not None:
        ran.append(name_of(ticket))
        groups.done(ticket)
    assert ran == ["1", "1", "2"]


def test_only_what_waits_in_blocked_groups_is_put_off_the_last_first() -> None:
    groups = groups_with("1", "2", "3", "4")
    for name in ("a", "b"):
        groups.arrive(arrival(name, "free"))
    groups.give_back(take(groups), due=0.0)

    put = groups.put_off(1, 0.0, DELAYS)

    assert [(name_of(ticket), delay) for ticket, delay in put] == [("3", 5.0), ("4", 5.0)]
    assert (groups.waiting, groups.outstanding) == (3, 3)


def test_what_is_put_off_again_is_put_off_for_longer_but_not_for_ever() -> None:
    groups = groups_with("1", "2")
    groups.give_back(take(groups), due=0.0)
    delays: list[float] = []
    for _ in range(8):
        [(_, delay)] = groups.put_off(0, 0.0, DELAYS)
        delays.append(delay)
        groups.arrive(arrival("2"))

    assert delays == [5, 10, 20, 40, 80, 160, 300, 300]


def test_what_was_put_off_is_recalled_when_it_is_the_next() -> None:
    groups = groups_with("1", "2")
    groups.give_back(take(groups), due=0.0)
    groups.put_off(0, 0.0, DELAYS)
    groups.arrive(arrival("1"))
    assert not groups.recall

    groups.done(take(groups))

    assert groups.recall


def test_what_was_given_back_by_its_service_is_not_recalled() -> None:
    groups = groups_with("1")
    groups.give_back(take(groups), due=0.0)
    groups.arrive(arrival("1"))
    groups.give_back(take(groups), due=9.0)

    assert not groups.recall
    assert groups.next_due() == 9.0


def test_emptied_groups_return_what_was_not_taken_and_know_nothing() -> None:
    groups = groups_with("1", "2", "3")
    running = take(groups)
    groups.arrive(arrival("a", "h"))

    assert [one.handle for one in groups.empty()] == ["2", "3", "a"]
    groups.done(running)
    assert (groups.waiting, groups.outstanding, groups.take()) == (0, 0, None)
    groups.arrive(arrival("1"))
    assert name_of(groups.take()) == "1"


class Ordering(RuleBasedStateMachine):
    """Messages of two groups arrive, fail, are put off and come again, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = Groups(serial=False)
        self.sent: Counter[str] = Counter()
        self.away: list[Received] = []
        self.running: list[Ticket] = []
        self.ran: list[str] = []

    @rule(group=st.sampled_from("gh"))
    def arrive(self, group: str) -> None:
        self.sent[group] += 1
        self.groups.arrive(arrival(f"{group}{self.sent[group]}", group))

    @precondition(lambda self: self.away)
    @rule(which=st.randoms(use_true_random=False))
    def come_again(self, which: Random) -> None:
        self.groups.arrive(self.away.pop(which.randrange(len(self.away))))

    @rule()
    def take(self) -> None:
        ticket = self.groups.take()
        if ticket is not None:
            assert ticket.key not in {one.key for one in self.running}
            self.running.append(ticket)
            self.ran.append(str(ticket.received.handle))

    @precondition(lambda self: self.running)
    @rule()
    def be_done(self) -> None:
        self.groups.done(self.running.pop())

    @precondition(lambda self: self.running)
    @rule()
    def fail(self) -> None:
        ticket = self.running.pop()
        self.groups.give_back(ticket, due=0.0)
        self.away.append(ticket.received)

    @rule(keep=st.integers(0, 2))
    def put_off(self, keep: int) -> None:
        self.away += [ticket.received for ticket, _ in self.groups.put_off(keep, 0.0, DELAYS)]

    def teardown(self) -> None:
        """Let all work end, and check which messages ran."""
        for one in self.away:
            self.groups.arrive(one)
        while self.running or self.groups.waiting:
            while self.running:
                self.be_done()
            self.take()
        assert self.groups.outstanding == 0
        for group, sent in self.sent.items():
            numbers = [int(name[1:]) for name in self.ran if name[0] == group]
            assert all(after >= before for before, after in pairwise(numbers))
            assert set(numbers) == set(range(1, sent + 1))


TestAnyOrderOfEvents = Ordering.TestCase
TestAnyOrderOfEvents.settings = settings(deadline=None, max_examples=60)


def test_the_next_of_a_group_waits_until_the_one_before_it_is_done() -> None:
    groups = groups_with("1", "2")
    first = take(groups)

    assert groups.take() is None
    groups.done(first)
    assert name_of(groups.take()) == "2"
