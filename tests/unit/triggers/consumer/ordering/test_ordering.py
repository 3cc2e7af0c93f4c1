"""Only one process receives for an ordered trigger: its right, the lease, and refused settings."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest
from pydantic import ValidationError

from history import ConfigurationError, HistoryUnavailableError, MemoryHistory, Uuid
from history.bridge import drive
from tests.fixtures.waiting import eventually
from tests.unit.helpers.in_memory import Clock, Effects, made
from triggers import Message, trigger
from triggers.consumer.ordering.active import ACTIVE_CONSUMER, ActiveConsumer, Keeping
from triggers.pipeline.leases import LeaseKeeper

NAME = "orders"
LEASE = timedelta(seconds=10)


class Server:
    """A history with a clock that the test moves, and consumers that want to receive."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryHistory(clock=self.clock)
        self._keepers: list[LeaseKeeper] = []

    def consumer(self, lease: timedelta = LEASE) -> ActiveConsumer:
        keeper = LeaseKeeper(NAME, lease, self.store)
        self._keepers.append(keeper)
        return ActiveConsumer(NAME, self.store, Keeping(keeper, None, on_loop=False), lease)

    def passes(self, **duration: float) -> None:
        self.clock.now += timedelta(**duration)

    def is_held(self) -> bool:
        entry = drive(self.store.lookup(NAME, [ACTIVE_CONSUMER]))[0]
        return entry is not None and entry.lease_alive

    def close(self) -> None:
        for keeper in self._keepers:
            keeper.close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def test_the_first_is_active_and_the_second_stands_by(server: Server) -> None:
    first, second = server.consumer(), server.consumer()

    assert drive(first.acquire())
    assert not drive(second.acquire())
    assert (first.active, second.active) == (True, False)


def test_one_that_gives_the_right_back_lets_another_be_active_at_once(server: Server) -> None:
    first, second = server.consumer(), server.consumer()
    drive(first.acquire())

    drive(first.release())

    assert not first.active
    assert drive(second.acquire())


def test_one_that_died_is_succeeded_when_its_lease_is_over_and_not_before(server: Server) -> None:
    dead, second = server.consumer(), server.consumer()
    drive(dead.acquire())
    server.close()

    server.passes(seconds=9.9)
    assert not drive(second.acquire())
    server.passes(seconds=0.2)
    assert drive(second.acquire())


def test_the_entry_outlives_the_longest_time_that_a_history_remembers(server: Server) -> None:
    first, second = server.consumer(), server.consumer()
    drive(first.acquire())
    entry = drive(server.store.lookup(NAME, [ACTIVE_CONSUMER]))[0]
    assert entry is not None

    server.passes(days=365)
    drive(server.store.renew(NAME, ACTIVE_CONSUMER, entry.fence, LEASE))

    assert not drive(second.acquire())


def test_a_lost_right_is_noticed_at_its_renewal(server: Server) -> None:
    first = server.consumer(timedelta(seconds=0.15))
    drive(first.acquire())
    entry = drive(server.store.lookup(NAME, [ACTIVE_CONSUMER]))[0]
    assert entry is not None

    drive(server.store.take_over(NAME, ACTIVE_CONSUMER, "thief", LEASE, entry.fence))

    eventually(lambda: not first.active)
    drive(first.release())
    assert not drive(first.acquire())


@pytest.mark.parametrize("uuid", ["doubtless:active-consumer", " ", "0", NAME])
def test_no_message_takes_the_right(server: Server, uuid: str) -> None:
    book = made(Effects(), history=server.store, name=NAME)
    assert book.handle(Message(body=b"", uuid=Uuid(uuid))).executed
    with pytest.raises(ValidationError, match="an empty identity"):
        Message(body=b"", uuid=Uuid(ACTIVE_CONSUMER))

    assert drive(server.consumer().acquire())


def test_one_that_cannot_renew_stops_before_its_lease_is_over(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = monotonic()
    now = [begun]
    monkeypatch.setattr("triggers.consumer.ordering.active.monotonic", lambda: now[0])
    first = server.consumer(LEASE)
    drive(first.acquire())

    now[0] = begun + 7.9
    assert first.active
    now[0] = begun + 8.1
    assert not first.active
    assert first.longest_wait == timedelta(seconds=1)


def test_a_claim_whose_answer_was_lost_is_found_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = server.consumer()
    with monkeypatch.context() as patch:
        patch.setattr(MemoryHistory, "renew", unavailable)
        with suppress(HistoryUnavailableError):
            drive(first.acquire())
    assert not first.active

    server.passes(seconds=9)
    assert drive(first.acquire())
    server.passes(seconds=9)
    assert not drive(server.consumer().acquire())


def test_the_right_is_kept_while_it_is_renewed(server: Server) -> None:
    first = server.consumer(timedelta(seconds=0.3))
    drive(first.acquire())

    for _ in range(3):
        server.passes(seconds=60)
        eventually(server.is_held)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"history": None}, "^history: "),
        ({"destination": ["orders", "returns"]}, "^destination: "),
        ({"batch": 2}, "^batch: "),
        ({"acknowledge_mode": "auto"}, "^acknowledge_mode: "),
        ({"acknowledge_mode": "dups_ok"}, "^acknowledge_mode: "),
    ],
    ids=["no history", "several destinations", "batches", "auto", "dups_ok"],
)
def test_what_could_not_keep_the_order_is_refused(settings: dict[str, Any], told: str) -> None:
    settings = {"name": NAME, "history": MemoryHistory(), "ordered": True, **settings}
    service: Any = take_many if "batch" in settings else take_one

    with pytest.raises(ConfigurationError, match=told):
        trigger(settings.pop("destination", "orders"), **settings)(service)


def take_one(message: Message) -> None: ...


def take_many(messages: list[Message]) -> None: ...


async def unavailable(*_: Any, **__: Any) -> bool:
    raise HistoryUnavailableError("renewing")
