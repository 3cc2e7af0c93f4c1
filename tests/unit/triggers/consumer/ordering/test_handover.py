"""The handover between the receiving worker and the running workers: messages, answers and waits."""

import threading
from collections.abc import Sequence
from datetime import timedelta

import pytest

from history.bridge import drive
from history.message import Message
from history.shell import ThreadShell
from tests.fixtures.waiting import PATIENCE
from triggers.consumer.ordering.groups import Ticket
from triggers.consumer.ordering.handover import Handover, NotedAnswer
from triggers.providers.memory import MemoryProvider, MemoryReceiver
from triggers.providers.provider import AT_ONCE, Arrival, ProviderUnavailableError, Received

LATER = timedelta(seconds=9)


class Sides:
    """A handover, and the receiver of its messages."""

    def __init__(self, *names: str, limit: int = 10) -> None:
        provider = MemoryProvider()
        drive(provider.send("orders", [Message(uuid=name, group_id=name[0], body="") for name in names]))
        self.receiver: MemoryReceiver = drive(provider.open_receiver("orders", subscription="s", name="a"))
        self.handover = Handover(takers=2, limit=limit, shell=ThreadShell())
        self.handover.put(self.receive())

    def receive(self) -> Sequence[Received]:
        return drive(self.receiver.receive(self.handover.room, AT_ONCE))

    def take(self) -> Ticket:
        ticket = drive(self.handover.take())
        assert ticket is not None
        return ticket


def test_what_is_held_and_not_answered_takes_room() -> None:
    sides = Sides("a1", "a2", "b1", limit=4)
    assert sides.handover.room == 1

    sides.handover.finish(sides.take(), NotedAnswer())
    assert sides.handover.room == 1
    drive(sides.handover.flush(sides.receiver))
    assert sides.handover.room == 2


def test_answers_are_sent_as_they_were_given() -> None:
    sides = Sides("a1", "b1", "c1")
    sides.handover.finish(sides.take(), NotedAnswer())
    sides.handover.finish(sides.take(), NotedAnswer(AT_ONCE))
    sides.handover.finish(sides.take(), NotedAnswer(LATER))

    drive(sides.handover.flush(sides.receiver))

    assert uuids(sides.receive()) == ["b1"]
    assert not sides.handover.busy
    assert not sides.handover.idle


def test_answers_that_could_not_be_sent_are_sent_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = Sides("a1", "b1")
    sides.handover.finish(sides.take(), NotedAnswer())
    sides.handover.finish(sides.take(), NotedAnswer(AT_ONCE))

    for name in ("acknowledge", "recover"):
        with monkeypatch.context() as patch:
            patch.setattr(MemoryReceiver, name, away)
            with pytest.raises(ProviderUnavailableError):
                drive(sides.handover.flush(sides.receiver))
    assert sides.handover.busy

    drive(sides.handover.flush(sides.receiver))
    assert not sides.handover.busy
    assert len(sides.receive()) == 1


def test_nothing_is_begun_between_a_halt_and_the_forgetting() -> None:
    sides = Sides("a1", "b1")
    drive(sides.handover.halt())

    assert drive(sides.handover.take()) is None
    sides.handover.forget()
    sides.handover.put(sides.receive())
    assert sides.handover.room == 10


def test_a_halt_waits_for_what_runs() -> None:
    sides = Sides("a1", "a2")
    ticket = sides.take()
    halted = threading.Event()

    def halt() -> None:
        drive(sides.handover.halt())
        halted.set()

    thread = threading.Thread(target=halt)
    thread.start()
    assert not halted.is_set()
    sides.handover.finish(ticket, NotedAnswer())
    thread.join(PATIENCE)

    assert halted.is_set()
    sides.handover.give_all_back()
    drive(sides.handover.flush(sides.receiver))
    assert uuids(sides.receive()) == ["a2"]


def test_closing_ends_those_that_wait_for_work() -> None:
    sides = Sides()
    threads = [threading.Thread(target=lambda: drive(sides.handover.take())) for _ in range(2)]
    for thread in threads:
        thread.start()

    sides.handover.close()

    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_serial_handover_waits_for_the_one_message_that_may_run_next() -> None:
    sides = Sides()
    sides.handover = Handover(takers=1, limit=10, shell=ThreadShell())
    drive(sides.receiver.take_over_all())
    assert not sides.handover.must_wait()
    provider = MemoryProvider()
    drive(provider.send("orders", [Message(uuid="a1", body="")]))
    receiver = drive(provider.open_receiver("orders", subscription="s", name="a"))
    sides.handover.put(drive(receiver.receive(10, AT_ONCE)))

    sides.handover.finish(sides.take(), NotedAnswer(LATER))

    assert sides.handover.must_wait()


def uuids(received: Sequence[Received]) -> list[str | None]:
    return [arrival.message.uuid for arrival in received if isinstance(arrival, Arrival)]


async def away(*_: object) -> None:
    raise ProviderUnavailableError("the provider", "answering")
