"""Triggers with several destinations in real consumers, blocking and asyncio, on each kind of history."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from history import Message, Uuid
from history.bridge import drive
from tests.fixtures.histories import with_store
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, Running, is_drained, parked_in
from triggers import Cause, Joined, RetrievalFailureEvent, on_retrieval_failure, open_provider, trigger
from triggers.consumer import crew as sweeper
from triggers.consumer.options import AnyTrigger
from triggers.pipeline.joining import joins
from triggers.testing.redis_server import RedisServer

NAME = "ship"
DESTINATIONS = ["orders", "payments"]

#: The uuids that the service received: one list for each join, in the order of the destinations.
Seen = list[list[str | None]]


@pytest.fixture
def short_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a worker dies, let others find its join soon."""
    monkeypatch.setattr(joins, "HOLD", timedelta(seconds=0.5))
    monkeypatch.setattr(sweeper, "KEEP_INTERVAL", timedelta(seconds=0.1))
    monkeypatch.setattr(sweeper, "INTERVAL", timedelta(seconds=0.1))


def joined_by(lane: Lane, work: Callable[[Joined], object], **settings: Any) -> AnyTrigger:
    """Make a trigger that joins all; under asyncio its service is a coroutine function."""

    def service(joined: Joined) -> None:
        work(joined)

    async def async_service(joined: Joined) -> None:
        await asyncio.to_thread(work, joined)

    given: dict[str, Any] = {
        "name": NAME,
        "join": "all",
        "local_parking_file": lane.folder / "parked.sqlite3",
        **settings,
    }
    return trigger(DESTINATIONS, **given)(async_service if lane.asyncio else service)


def uuids_of(joined: Joined) -> list[str | None]:
    return [message.uuid for message in joined.values()]


def send(url: str, destination: str, *names: str) -> None:
    """Send messages named by activation, or "activation/uuid"."""
    provider = open_provider(url)
    for name in names:
        activation, _, uuid = name.partition("/")
        body = Message(
            body="{}", uuid=Uuid(uuid or f"{destination}-{activation}"), properties={"activation": activation}
        )
        drive(provider.send(destination, [body]))
    drive(provider.close())


def waits(history: str) -> int:
    """Count the joins that are not finished."""
    return len(with_store(history, lambda store: store.joining.waiting(NAME)))


def are_drained(url: str) -> bool:
    return all(is_drained(url, destination) for destination in DESTINATIONS)


@contextmanager
def running(lane: Lane, made: AnyTrigger, url: str, history: str) -> Generator[Running]:
    """Run a consumer until the block has ended."""
    with lane.run([made], url, history=history) as one:
        yield one


class TestAll:
    def test_each_activation_runs_once_with_one_message_of_each_destination(
        self, lane: Lane, redis_url: str, history_url: str
    ) -> None:
        seen: Seen = []
        ship = joined_by(lane, lambda joined: seen.append(uuids_of(joined)), concurrency=2)
        names = [f"a{n}" for n in range(30)]
        send(redis_url, "orders", *names, "a3", "alone")
        send(redis_url, "payments", *reversed(names), "a7")

        with running(lane, ship, redis_url, history_url) as one:
            eventually(lambda: are_drained(redis_url) and len(seen) == 30)
            eventually(lambda: waits(history_url) == 1)

        assert sorted(seen) == sorted([f"orders-{name}", f"payments-{name}"] for name in names)
        # Two workers may meet over a message and its copy. The later worker gives its copy back once.
        counts = {kind: count for kind, count in one.counts[NAME].items() if kind != "recovered"}
        assert counts == {"waiting": 61, "ok": 30, "duplicate": 2}
        assert parked_in(history_url, NAME) == []

    def test_parts_wait_while_no_consumer_runs(self, lane: Lane, redis_url: str, history_url: str) -> None:
        seen: Seen = []
        send(redis_url, "orders", "a")
        with running(lane, joined_by(lane, print), redis_url, history_url):
            eventually(lambda: is_drained(redis_url, "orders"))
        send(redis_url, "payments", "a")

        ship = joined_by(lane, lambda joined: seen.append(uuids_of(joined)))
        with running(lane, ship, redis_url, history_url):
            eventually(lambda: seen)
            eventually(lambda: waits(history_url) == 0)

        assert seen == [["orders-a", "payments-a"]]

    @pytest.mark.usefixtures("short_hold")
    def test_parts_outlive_the_death_of_the_server(
        self, lane: Lane, redis_url: str, private_redis: RedisServer
    ) -> None:
        history, seen = private_redis.url, Seen()
        ship = joined_by(lane, lambda joined: seen.append(uuids_of(joined)))
        send(redis_url, "orders", "a", "b")

        with running(lane, ship, redis_url, history):
            eventually(lambda: is_drained(redis_url, "orders"))
            private_redis.kill()
            send(redis_url, "payments", "a", "b")
            private_redis.start()
            eventually(lambda: len(seen) == 2)
            eventually(lambda: waits(history) == 0)

        assert sorted(seen) == sorted([f"orders-{name}", f"payments-{name}"] for name in "ab")
        assert parked_in(history, NAME) == []

    @pytest.mark.usefixtures("short_hold")
    def test_a_join_that_runs_for_longer_than_a_hold_is_not_run_by_another(
        self, lane: Lane, redis_url: str, history_url: str
    ) -> None:
        seen: Seen = []
        may_end = threading.Event()

        def slow(joined: Joined) -> None:
            seen.append(uuids_of(joined))
            may_end.wait(PATIENCE)

        send(redis_url, "orders", "a")
        send(redis_url, "payments", "a")

        with (
            running(lane, joined_by(lane, slow), redis_url, history_url),
            running(lane, joined_by(lane, slow), redis_url, history_url),
        ):
            eventually(lambda: seen)
            time.sleep(1.2)  # more than two holds: the test is that nothing happens
            may_end.set()
            eventually(lambda: waits(history_url) == 0)

        assert seen == [["orders-a", "payments-a"]]
        assert parked_in(history_url, NAME) == []

    def test_one_join_runs_at_a_time_unless_told_otherwise(self, lane: Lane, redis_url: str) -> None:
        inside, most = [0], [0]
        lock = threading.Lock()

        def ship_it(_: Joined) -> None:
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0.02)
            with lock:
                inside[0] -= 1

        names = [f"a{n}" for n in range(10)]
        send(redis_url, "orders", *names)
        send(redis_url, "payments", *names)

        with running(lane, joined_by(lane, ship_it), redis_url, redis_url) as one:
            eventually(lambda: one.counts[NAME].get("ok") == 10)

        assert most == [1]


class TestOne:
    def test_the_first_of_each_activation_runs_and_the_others_are_discarded(
        self, lane: Lane, redis_url: str, history_url: str
    ) -> None:
        ran: list[str | None] = []
        book = lane.trigger(
            "orders", lambda message: ran.append(str(message.properties["activation"])), name="unused"
        )
        settings: dict[str, Any] = {
            "name": NAME,
            "join": "one",
            "local_parking_file": lane.folder / "parked.sqlite3",
        }
        book = trigger(DESTINATIONS, **settings)(book.service)
        names = [f"a{n}" for n in range(10)]
        send(redis_url, "orders", *names)
        send(redis_url, "payments", *names, *(f"{name}/again-{name}" for name in names))

        with running(lane, book, redis_url, history_url) as one:
            eventually(lambda: are_drained(redis_url))

        assert sorted(ran, key=str) == names
        assert one.counts == {NAME: {"ok": 10, "discarded": 20}}
        assert parked_in(history_url, NAME) == []


class TestAny:
    def test_every_message_of_every_destination_runs_and_failures_say_where_it_came_from(
        self, lane: Lane, redis_url: str, tmp_path: Path
    ) -> None:
        events: list[RetrievalFailureEvent] = []
        heard = on_retrieval_failure(NAME)(events.append)

        def book(message: Message) -> None:
            if message.uuid == "payments-a":
                raise ValueError("no")

        made = lane.trigger("orders", book, name="unused")
        made = trigger(DESTINATIONS, name=NAME, local_parking_file=tmp_path / "p.sqlite3")(made.service)
        with connected(redis_url) as client:
            client.xadd("payments", {"no": "body"})
        send(redis_url, "orders", "a")
        send(redis_url, "payments", "a", "b")

        with running(lane, made, redis_url, redis_url) as one:
            eventually(lambda: are_drained(redis_url))
        heard.cancel()

        assert one.counts == {NAME: {"ok": 2, "failed": 1, "unreadable": 1}}
        assert sorted((one.cause, one.destination, one.destination_index) for one in events) == [
            (Cause.UNREADABLE, "payments", 1),
            (Cause.SERVICE_FAILED, "payments", 1),
        ]
