"""Between the worker that receives and those that run: what is held, what is answered, what waits."""

import threading
from collections.abc import Sequence
from datetime import timedelta

import pytest

from history.bridge import drive
from history.message import Message
from tests.fixtures.waiting import PATIENCE
from triggers.consumer.ordering.groups import Ticket
from triggers.consumer.ordering.handover import Answer, Desk
from triggers.providers.memory import MemoryProvider, MemoryReceiver
from triggers.providers.provider import AT_ONCE, Arrival, ProviderUnavailableError, Received

LATER = timedelta(seconds=9)


class Place:
    """A desk, and a receiver whose messages lie on it."""

    def __init__(self, *names: str, limit: int = 10) -> None:
        provider = MemoryProvider()
        drive(provider.send("orders", [Message(uuid=name, group_id=name[0], body="") for name in names]))
        self.receiver: MemoryReceiver = drive(provider.open_receiver("orders", subscription="s", name="a"))
        self.desk = Desk(lanes=2, limit=limit, semaphore=threading.Semaphore)
        self.desk.put(self.receive())

    def receive(self) -> Sequence[Received]:
        return drive(self.receiver.receive(self.desk.room, AT_ONCE))

    def take(self) -> Ticket:
        ticket = drive(self.desk.take())
        assert ticket is not None
        return ticket


def test_what_is_held_and_not_answered_takes_room() -> None:
    place = Place("a1", "a2", "b1", limit=4)
    assert place.desk.room == 1

    place.desk.finish(place.take(), Answer())
    assert place.desk.room == 1
    drive(place.desk.flush(place.receiver))
    assert place.desk.room == 2


def test_answers_are_sent_as_they_were_given() -> None:
    place = Place("a1", "b1", "c1")
    place.desk.finish(place.take(), Answer())
    place.desk.finish(place.take(), Answer(AT_ONCE))
    place.desk.finish(place.take(), Answer(LATER))

    drive(place.desk.flush(place.receiver))

    assert uuids(place.receive()) == ["b1"]
    assert not place.desk.busy
    assert not place.desk.idle


def test_answers_that_could_not_be_sent_are_sent_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place("a1", "b1")
    place.desk.finish(place.take(), Answer())
    place.desk.finish(place.take(), Answer(AT_ONCE))

    for name in ("acknowledge", "recover"):
        with monkeypatch.context() as patch:
            patch.setattr(MemoryReceiver, name, away)
            with pytest.raises(ProviderUnavailableError):
                drive(place.desk.flush(place.receiver))
    assert place.desk.busy

    drive(place.desk.flush(place.receiver))
    assert not place.desk.busy
    assert len(place.receive()) == 1


def test_nothing_is_begun_between_a_halt_and_the_forgetting() -> None:
    place = Place("a1", "b1")
    drive(place.desk.halt())

    assert drive(place.desk.take()) is None
    place.desk.forget()
    place.desk.put(place.receive())
    assert place.desk.room == 10


def test_a_halt_waits_for_what_runs() -> None:
    place = Place("a1", "a2")
    ticket = place.take()
    halted = threading.Event()

    def halt() -> None:
        drive(place.desk.halt())
        halted.set()

    thread = threading.Thread(target=halt)
    thread.start()
    assert not halted.is_set()
    place.desk.finish(ticket, Answer())
    thread.join(PATIENCE)

    assert halted.is_set()
    place.desk.give_all_back()
    drive(place.desk.flush(place.receiver))
    assert uuids(place.receive()) == ["a2"]


def test_closing_ends_those_that_wait_for_work() -> None:
    place = Place()
    threads = [threading.Thread(target=lambda: drive(place.desk.take())) for _ in range(2)]
    for thread in threads:
        thread.start()

    place.desk.close()

    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_serial_desk_waits_for_the_one_message_that_may_run_next() -> None:
    place = Place()
    place.desk = Desk(lanes=1, limit=10, semaphore=threading.Semaphore)
    drive(place.receiver.take_over_all())
    assert not place.desk.must_wait()
    provider = MemoryProvider()
    drive(provider.send("orders", [Message(uuid="a1", body="")]))
    receiver = drive(provider.open_receiver("orders", subscription="s", name="a"))
    place.desk.put(drive(receiver.receive(10, AT_ONCE)))

    place.desk.finish(place.take(), Answer(LATER))

    assert place.desk.must_wait()


def uuids(received: Sequence[Received]) -> list[str | None]:
    return [one.message.uuid for one in received if isinstance(one, Arrival)]


async def away(*_: object) -> None:
    raise ProviderUnavailableError("the provider", "answering")
