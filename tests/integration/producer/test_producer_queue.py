"""The client-side queue: messages wait on disk, leave in order, or are given up."""

import logging
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from history import ConfigurationError, Message, NotPermittedError
from history.bridge import drive
from tests.fixtures.servers.postgres import MEMORY
from tests.fixtures.threads import in_threads
from tests.fixtures.waiting import eventually
from tests.unit.triggers.producer.producers import Line, StillShell, arrived, firsts
from triggers import (
    ClientQueue,
    ClientQueueFullError,
    DeliveryFailureEvent,
    Producer,
    Retry,
    on_delivery_failure,
)
from triggers.producer.delivery_failure import DeliveryFailureHandler
from triggers.producer.queue.queue import ClientQueueUnavailableError
from triggers.producer.sender import Sender
from triggers.producer.settings import ProducerSettings
from triggers.providers.memory import MemoryProvider
from triggers.providers.outgoing import compose

ONE_TRY = Retry()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "orders.queue"


def sender(line: Any, file: Path, *, shell: StillShell | None = None, **settings: Any) -> Sender:
    """Return a sender that drains only when the test says so."""
    told: dict[str, Any] = {
        "alias": "shop",
        "queue": file,
        "queue_limit": 100,
        "ordered": True,
        "retry": ONE_TRY,
        "max_redelivery_count": 3,
        **settings,
    }
    queue = ClientQueue(file, alias=told["alias"], limit=told["queue_limit"])
    return Sender(ProducerSettings(**told), line, shell or StillShell(), queue=queue, owned=False)


def queue_of(one: Sender) -> ClientQueue:
    assert one.drainer is not None
    return one.drainer.queue


def send(one: Sender, *uuids: str, destination: str = "orders", **options: Any) -> list[bool]:
    """Send a message for each uuid, and return which of them were queued."""
    sent = [
        drive(one.send(destination, [compose(destination, uuid, uuid=uuid, **options)])) for uuid in uuids
    ]
    return [single.queued for [single] in sent]


def drain(one: Sender) -> tuple[int, int, int]:
    assert one.drainer is not None
    drained = drive(one.drainer.drain())
    return drained.sent, drained.failed, drained.left


@contextmanager
def handling(handler: DeliveryFailureHandler, alias: str = "*") -> Generator[None]:
    """Inside the block, call a handler for each event."""
    subscription = on_delivery_failure(alias)(handler)
    try:
        yield
    finally:
        subscription.cancel()


@pytest.fixture
def told() -> Iterator[list[DeliveryFailureEvent]]:
    events: list[DeliveryFailureEvent] = []
    with handling(events.append):
        yield events


class TestWaiting:
    def test_a_message_waits_while_the_provider_is_away_and_leaves_when_it_is_back(self, file: Path) -> None:
        line = Line("down")
        one = sender(line, file)

        assert send(one, "a", "b") == [True, True]
        assert drain(one) == (0, 0, 2)
        line.fates = ["up"]

        assert drain(one) == (2, 0, 0)
        assert [message.uuid for message in arrived(line.memory)] == ["a", "b"]

    def test_a_message_waits_whole(self, file: Path) -> None:
        line = Line("down")
        one = sender(line, file)
        message = compose("orders", b"\xff\x00", priority=9, properties={"n": 1.0, "t": True, "s": "ü"})

        [sent] = drive(one.send("orders", [message]))
        line.fates = ["up"]
        drain(one)

        [got] = arrived(line.memory)
        assert sent.message.model_copy(update={"message_id": got.message_id, "delivery_count": 1}) == got

    def test_in_order_new_messages_wait_behind_those_that_wait(self, file: Path) -> None:
        line = Line("down", "up")
        one = sender(line, file)

        assert send(one, "a", "b") == [True, True]
        assert drain(one) == (2, 0, 0)
        assert send(one, "c") == [False]
        assert [message.uuid for message in arrived(line.memory)] == ["a", "b", "c"]

    def test_out_of_order_new_messages_go_directly(self, file: Path) -> None:
        line = Line("down", "up")
        one = sender(line, file, ordered=False)

        assert send(one, "a", "b") == [True, False]
        drain(one)

        assert [message.uuid for message in arrived(line.memory)] == ["b", "a"]

    def test_while_something_waits_a_direct_send_is_tried_once(self, file: Path) -> None:
        line, shell = Line("down"), StillShell()
        one = sender(line, file, shell=shell, ordered=False, retry=Retry(max_attempts=2))

        send(one, "a")
        assert line.sends == 3
        send(one, "b")

        assert line.sends == 4

    def test_a_full_queue_refuses_and_drops_nothing(self, file: Path) -> None:
        line = Line("down")
        one = sender(line, file, queue_limit=2)
        send(one, "a", "b")

        with pytest.raises(ClientQueueFullError, match=r"2 of at most 2.*raise queue_limit"):
            send(one, "c")
        line.fates = ["up"]
        drain(one)

        assert [message.uuid for message in arrived(line.memory)] == ["a", "b"]
        assert send(one, "c") == [False]

    def test_a_batch_is_queued_whole_or_not_at_all(self, file: Path) -> None:
        one = sender(Line("down"), file, queue_limit=3)
        send(one, "a")

        with pytest.raises(ClientQueueFullError, match="no room for 3 more"):
            drive(one.send("orders", [compose("orders", number) for number in range(3)]))

        assert queue_of(one).size() == 1

    def test_a_limit_of_0_is_no_queue_and_minus_1_no_limit(self, file: Path) -> None:
        with pytest.raises(ConnectionError, match="the line is unavailable"):
            send(sender(Line("down"), file, queue_limit=0), "a")

        assert send(sender(Line("down"), file, queue_limit=-1), *map(str, range(200))) == [True] * 200


class TestDraining:
    def test_a_drainer_waits_for_its_turn(self, file: Path) -> None:
        line = Line("down")
        one = sender(line, file)
        send(one, "a")
        line.fates = ["up"]
        results: list[tuple[int, int, int]] = []

        with ClientQueue(file, alias="shop").draining():
            thread = threading.Thread(target=lambda: results.append(drain(one)))
            thread.start()
            thread.join(0.2)
            assert thread.is_alive()
        thread.join()

        assert results == [(1, 0, 0)]

    def test_the_background_begins_at_once_when_the_provider_goes_away_again(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("triggers.producer.queue.drain.LOOK_AROUND", 1000.0)
        line = Line("down", "up")

        with Producer(line, queue=file, retry=ONE_TRY) as producer:
            for uuid in ("a", "b"):
                line.fates = ["down", "up"]
                assert producer.send("orders", "x", uuid=uuid).queued
                eventually(lambda: producer.queue and not producer.queue.size())

        assert [message.uuid for message in arrived(line.memory)] == ["a", "b"]

    def test_the_background_goes_on_after_an_error_that_nobody_foresaw(
        self, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        line, errors = Line("down", "up"), [OSError("odd"), OSError("odd")]
        draining = ClientQueue.draining

        def odd(self: ClientQueue) -> AbstractContextManager[bool]:
            if errors:
                raise errors.pop()
            return draining(self)

        monkeypatch.setattr(ClientQueue, "draining", odd)

        with Producer(line, queue=file, retry=ONE_TRY) as producer:
            assert producer.send("orders", "x", uuid="a").queued
            eventually(lambda: producer.queue and not producer.queue.size())
            eventually(lambda: "its queue is drained again" in caplog.text)

        assert caplog.text.count("its queue is not drained") == 1

    async def test_the_background_drains_under_asyncio_as_well(self, file: Path) -> None:
        line = Line("down", "up")

        async with Producer(line, queue=file, retry=ONE_TRY) as producer:
            assert producer.queue is not None
            assert (await producer.asend("orders", "x", uuid="a")).queued
            assert (await producer.adrain()).left == 0

        assert [message.uuid for message in arrived(line.memory)] == ["a"]

    def test_a_new_producer_drains_what_an_earlier_one_has_left(self, file: Path) -> None:
        with Producer(Line("down"), queue=file, retry=ONE_TRY) as producer:
            producer.send("orders", "x", uuid="a")
        line = Line()

        with Producer(line, queue=file) as producer:
            assert producer.queue is not None
            eventually(lambda: producer.queue and not producer.queue.size())

        assert [message.uuid for message in arrived(line.memory)] == ["a"]

    def test_threads_lose_nothing_and_keep_their_order(self, file: Path) -> None:
        line = Line("up", "down", "reply lost", "down", "up", "reply lost", "down", "up")

        with Producer(line, queue=file, retry=ONE_TRY) as producer:

            def work(name: str) -> None:
                for number in range(50):
                    producer.send("orders", "x", uuid=f"{name}-{number:02}")

            in_threads(work, "abcd")
            assert producer.drain().left == 0

        got = firsts(arrived(line.memory))
        assert len(got) == 200
        for name in "abcd":
            own = [uuid for uuid in got if uuid and uuid.startswith(name)]
            assert own == sorted(own)


class Refusing(MemoryProvider):
    """Refuses some bodies, finally or each time, like a broker with limits."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error
        self.refuses: Exception | None = None
        self.down = False

    async def send(self, destination: str, messages: Any) -> Any:
        if self.refuses is not None:
            raise self.refuses
        if self.down or any(message.body == "poison" for message in messages):
            raise self.error if not self.down else ConnectionError("away")
        return await super().send(destination, messages)

    async def ping(self) -> None:
        if self.refuses is not None:
            raise self.refuses


class Unasked(MemoryProvider):
    """Has no ping, and refuses every message."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: Exception | None = None

    async def send(self, destination: str, messages: Any) -> Any:
        if self.refuses is not None:
            raise self.refuses
        return await super().send(destination, messages)


def poisoned(error: Exception, file: Path, **settings: Any) -> tuple[Refusing, Sender]:
    """Return a queue with a message that the provider refuses."""
    provider = Refusing(error)
    one = sender(provider, file, **settings)
    messages = [
        compose("orders", body, uuid=uuid) for uuid, body in (("a", "x"), ("b", "poison"), ("c", "y"))
    ]
    queue_of(one).put("orders", messages)
    return provider, one


REFUSED = ConfigurationError("body", "is too large", "send less")


class TestGivingUp:
    def test_a_refused_message_is_given_up_at_once_and_the_others_arrive(
        self, file: Path, told: list[DeliveryFailureEvent]
    ) -> None:
        provider, one = poisoned(REFUSED, file)

        assert drain(one) == (2, 1, 0)

        assert [message.uuid for message in arrived(provider)] == ["a", "c"]
        [event] = told
        assert (event.alias, event.destination, event.attempts) == ("shop", "orders", 1)
        assert (event.exception_class, event.message.uuid) == ("ConfigurationError", "b")
        assert "is too large" in event.exception_message
        assert list(queue_of(one).failed()) == [event]

    def test_where_the_provider_refuses_everything_nothing_is_given_up(
        self, file: Path, told: list[DeliveryFailureEvent]
    ) -> None:
        provider, one = poisoned(REFUSED, file)
        provider.refuses = ConfigurationError("provider", "refuses the login", "correct the password")

        assert [drain(one) for _ in range(4)] == [(0, 0, 3)] * 4
        assert one.drainer is not None
        assert drive(one.drainer.drain()).refused is provider.refuses
        provider.refuses = None

        assert drain(one) == (2, 1, 0)
        assert [(event.message.uuid, event.attempts) for event in told] == [("b", 1)]

    @pytest.mark.parametrize(
        "error",
        [
            NotPermittedError("destination", "is not ours", "ask for it"),
            ConfigurationError("destination", "there is no such queue", "make it"),
        ],
        ids=["not permitted", "not there"],
    )
    def test_what_cannot_be_sent_now_waits_and_holds_only_its_own_destination_up(
        self, file: Path, told: list[DeliveryFailureEvent], error: Exception
    ) -> None:
        provider, one = poisoned(error, file)
        queue_of(one).put("returns", [compose("returns", "x", uuid="d")])

        assert [drain(one) for _ in range(4)] == [(1, 0, 3), (0, 0, 3), (0, 0, 3), (0, 0, 3)]
        assert one.drainer is not None
        assert drive(one.drainer.drain()).refused is error
        provider.error = REFUSED

        assert drain(one) == (2, 1, 0)
        assert [(event.message.uuid, event.attempts) for event in told] == [("b", 1)]

    def test_a_provider_that_cannot_be_asked_whether_it_takes_us_gives_nothing_up(
        self, file: Path, told: list[DeliveryFailureEvent]
    ) -> None:
        provider = Unasked()
        provider.refuses = ConfigurationError("password", "is wrong", "correct it")
        one = sender(provider, file)
        queue_of(one).put("orders", [compose("orders", "x", uuid=uuid) for uuid in "ab"])
        queue_of(one).put("returns", [compose("returns", "x", uuid="c")])

        assert [drain(one) for _ in range(3)] == [(0, 0, 3)] * 3
        assert one.drainer is not None
        assert drive(one.drainer.drain()).refused is provider.refuses
        provider.refuses = None

        assert drain(one) == (3, 0, 0)
        assert told == []

    def test_a_message_that_keeps_failing_is_given_up_after_max_redelivery_count(
        self, file: Path, told: list[DeliveryFailureEvent]
    ) -> None:
        provider, one = poisoned(RuntimeError("no"), file)

        assert [drain(one) for _ in range(3)] == [(1, 0, 2), (0, 0, 2), (1, 1, 0)]

        assert [message.uuid for message in arrived(provider)] == ["a", "c"]
        assert [(event.attempts, event.exception_class) for event in told] == [(3, "RuntimeError")]

    def test_attempts_survive_a_restart(self, file: Path, told: list[DeliveryFailureEvent]) -> None:
        poisoned(RuntimeError("no"), file)

        for _ in range(3):
            assert not told
            drain(sender(Refusing(RuntimeError("no")), file))

        assert [event.message.uuid for event in told] == ["b"]

    def test_a_destination_that_is_held_up_holds_no_other_up(self, file: Path) -> None:
        provider, one = poisoned(RuntimeError("no"), file)
        assert send(one, "before", destination="others") == [True]  # the provider may be away
        drain(one)

        assert send(one, "behind") == [True]
        assert send(one, "new", destination="others") == [False]

        assert [message.uuid for message in arrived(provider, "others")] == ["before", "new"]

    def test_a_provider_that_goes_away_again_is_asked_once(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        provider, one = poisoned(RuntimeError("no"), file)
        drain(one)
        line = Line("down")
        monkeypatch.setattr(provider, "send", line.send)

        assert send(one, "x", destination="others") == [True]
        assert send(one, "y", destination="more") == [True]

        assert line.sends == 1

    def test_a_provider_that_is_away_counts_against_no_message(
        self, file: Path, told: list[DeliveryFailureEvent]
    ) -> None:
        line = Line("down")
        one = sender(line, file, max_redelivery_count=1)
        send(one, "a")

        assert [drain(one) for _ in range(5)] == [(0, 0, 1)] * 5
        assert told == []

    def test_a_message_that_expires_while_it_waits_is_given_up_with_an_event(
        self, file: Path, told: list[DeliveryFailureEvent]
    ) -> None:
        line = Line("down")
        one = sender(line, file)
        send(one, "short", time_to_live=timedelta(milliseconds=1))
        send(one, "long", time_to_live=timedelta(hours=1))
        eventually(lambda: _over(one, "short"))
        line.fates = ["up"]

        assert drain(one) == (1, 1, 0)

        assert [message.uuid for message in arrived(line.memory)] == ["long"]
        assert [(event.message.uuid, event.exception_class) for event in told] == [
            ("short", "MessageExpiredError")
        ]

    def test_an_event_that_was_not_told_is_told_by_the_next_drainer(self, file: Path) -> None:
        noted: list[DeliveryFailureEvent] = []

        def dies(_event: DeliveryFailureEvent) -> None:
            raise SystemExit

        _, one = poisoned(REFUSED, file)
        with handling(dies), pytest.raises(SystemExit):
            drain(one)
        with handling(noted.append):
            drain(sender(MemoryProvider(), file))
            drain(sender(MemoryProvider(), file))

        assert [event.message.uuid for event in noted] == ["b"]

    def test_a_handler_that_fails_changes_nothing(self, file: Path, told: list[DeliveryFailureEvent]) -> None:
        def fails(_event: DeliveryFailureEvent) -> None:
            raise RuntimeError("handler")

        _, one = poisoned(REFUSED, file)
        with handling(fails):
            assert drain(one) == (2, 1, 0)

        assert len(told) == 1

    def test_handlers_hear_of_the_aliases_that_match_and_may_be_coroutine_functions(self, file: Path) -> None:
        heard: list[str] = []

        def hearing(pattern: str) -> DeliveryFailureHandler:
            async def handler(event: DeliveryFailureEvent) -> None:
                heard.append(f"{pattern} {event.alias}")

            return handler

        with ExitStack() as stack:
            for pattern in ("*", "sh*", "shop", "SHOP", "s?op"):
                stack.enter_context(handling(hearing(pattern), pattern))
            drain(poisoned(REFUSED, file)[1])

        assert heard == ["* shop", "sh* shop", "shop shop"]

    def test_an_event_is_a_cloud_event_and_comes_back_from_its_json(
        self, file: Path, told: list[DeliveryFailureEvent]
    ) -> None:
        drain(poisoned(REFUSED, file)[1])
        [event] = told

        again = DeliveryFailureEvent.model_validate_json(event.model_dump_json())

        assert again == event
        cloud = event.to_cloudevent()
        assert (cloud["specversion"], cloud["type"]) == ("1.0", "doubtless.delivery_failure.v1")
        assert (cloud["source"], cloud["id"]) == ("/doubtless/producers/shop", again.id)
        assert cloud["data"]["attempts"] == 1


class TestFailedMessages:
    def test_a_failed_message_is_queued_again_under_its_uuid(self, file: Path) -> None:
        _, one = poisoned(REFUSED, file)
        drain(one)
        provider = MemoryProvider()
        mended = sender(provider, file)

        assert queue_of(mended).requeue() == 1
        assert drain(mended) == (1, 0, 0)

        assert [message.uuid for message in arrived(provider)] == ["b"]
        assert list(queue_of(one).failed()) == []

    @pytest.mark.parametrize("time_to_live", [None, timedelta(hours=1)], ids=["for ever", "for an hour"])
    def test_an_expired_message_that_is_queued_again_lives(
        self, file: Path, time_to_live: timedelta | None
    ) -> None:
        line = Line("down")
        one = sender(line, file)
        send(one, "a", time_to_live=timedelta(milliseconds=1))
        eventually(lambda: _over(one, "a"))
        line.fates = ["up"]
        drain(one)

        queue_of(one).requeue(time_to_live=time_to_live)

        assert drain(one) == (1, 0, 0)
        assert (arrived(line.memory)[0].expiration is None) == (time_to_live is None)

    def test_only_the_named_ones_are_queued_again_or_discarded(self, file: Path) -> None:
        provider = Refusing(REFUSED)
        one = sender(provider, file)
        queue_of(one).put("orders", [compose("orders", "poison", uuid=uuid) for uuid in "abc"])
        drain(one)
        numbers = {event.message.uuid: event.number for event in queue_of(one).failed()}

        assert queue_of(one).discard([numbers["a"], 999]) == 1
        assert queue_of(one).requeue([numbers["c"], 999]) == 1

        assert [event.message.uuid for event in queue_of(one).failed()] == ["b"]
        assert queue_of(one).size() == 1


def _over(one: Sender, uuid: str) -> bool:
    waiting = queue_of(one).next_run(limit=100, size=10**6)
    [expires] = [row.message.expiration for row in waiting if row.message.uuid == uuid]
    return expires is not None and expires <= datetime.now(UTC)


class TestFile:
    def test_a_file_belongs_to_one_alias(self, file: Path) -> None:
        send(sender(Line("down"), file), "a")

        with pytest.raises(ConfigurationError, match="the queue of the alias 'shop'"):
            send(sender(Line("down"), file, alias="other"), "b")

    @pytest.mark.parametrize("make", ["text", "foreign", "newer"])
    def test_a_file_that_is_something_else_is_refused(self, file: Path, make: str) -> None:
        if make == "text":
            file.write_text("this is no database, and long enough to be read as one" * 100)
        elif make == "foreign":
            _write(file, "CREATE TABLE orders (id)")
        else:
            send(sender(Line("down"), file), "a")
            _write(file, "PRAGMA user_version = 2")

        with pytest.raises(ConfigurationError, match=r"orders\.queue"):
            send(sender(Line("down"), file), "a")

    def test_a_disk_that_is_full_is_told_and_nothing_is_stored(self, file: Path) -> None:
        one = sender(Line("down"), file)
        send(one, "a")
        queue = queue_of(one)
        with queue._using("testing") as connection:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            connection.execute("PRAGMA max_page_count = 1")

        with pytest.raises(ClientQueueUnavailableError, match="full"):
            drive(one.send("orders", [compose("orders", "x" * 100_000)]))

        assert queue.size() == 1

    def test_a_lock_that_is_something_else_is_named(self, file: Path) -> None:
        file.with_name(f"{file.name}-drain").write_bytes(b"no database" * 500)
        one = sender(Line(), file)

        with pytest.raises(ClientQueueUnavailableError, match="locking it"):
            drain(one)

        assert send(one, "a") == [False]

    def test_writes_are_on_disk_before_they_return(self, file: Path) -> None:
        queue = ClientQueue(file, alias="shop")
        queue.put("orders", [Message(body="x", uuid="a")])

        with queue._using("testing") as connection:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)

    def test_a_file_that_is_deleted_is_made_anew_for_all_processes(
        self, file: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        queue, another = ClientQueue(file, alias="shop"), ClientQueue(file, alias="shop")
        queue.put("orders", [Message(body="x", uuid="lost")])
        file.with_name("kept").hardlink_to(file)  # so that the new file gets a different inode number
        file.unlink()
        queue.put("orders", [Message(body="x", uuid="a")])

        another.put("orders", [Message(body="x", uuid="b")])

        assert [queue.size(), another.size()] == [2, 2]
        (alarm,) = (one.getMessage() for one in caplog.records if one.levelno == logging.CRITICAL)
        assert alarm.startswith(f"{file} was deleted while it was open")
        assert "messages that waited in the other one are not sent" in alarm

    def test_a_queue_that_was_closed_may_find_another_file(
        self, file: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        queue = ClientQueue(file, alias="shop")
        queue.put("orders", [Message(body="x", uuid="a")])
        queue.close()
        file.unlink()

        assert queue.size() == 0
        assert caplog.records == []


def _write(file: Path, statement: str) -> None:
    connection = sqlite3.connect(file)
    connection.execute(statement)
    connection.commit()
    connection.close()


#: Steps of a producer's life: a send to one of two destinations, fates of the line, a drain, or a restart.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.sampled_from(["orders", "others"]), st.integers(1, 3)),
        st.tuples(
            st.just("line"), st.lists(st.sampled_from(["up", "down", "reply lost"]), min_size=1, max_size=4)
        ),
        st.tuples(st.just("drain")),
        st.tuples(st.just("restart")),
    ),
    max_size=30,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_whatever_happens_nothing_is_lost_and_each_destination_keeps_its_order(steps: list[Any]) -> None:
    line = Line()
    wanted: dict[str, list[str]] = {"orders": [], "others": []}
    # In memory, because some thousands of writes would be slow on a busy disk.
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        file = Path(folder, "queue")
        # If a line loses every reply, the provider counts as reachable, and the message is given up one day.
        one = sender(line, file, max_redelivery_count=1000)
        for step in steps:
            match step:
                case ("send", str(destination), int(count)):
                    uuids = [f"{destination}-{len(wanted[destination]) + number}" for number in range(count)]
                    drive(one.send(destination, [compose(destination, "x", uuid=uuid) for uuid in uuids]))
                    wanted[destination] += uuids
                case ("line", fates):
                    line.fates = [*fates]
                case ("drain",):
                    drain(one)
                case _:
                    queue_of(one).close()
                    one = sender(line, file, max_redelivery_count=1000)
        line.fates = ["up"]

        assert drain(one)[2] == 0
        assert list(queue_of(one).failed()) == []
        queue_of(one).close()
    for destination, uuids in wanted.items():
        assert firsts(arrived(line.memory, destination)) == uuids


def test_a_handler_that_queues_its_message_again_does_not_keep_the_drainer_for_ever(file: Path) -> None:
    looked: list[int] = []
    provider, one = poisoned(REFUSED, file)

    def look(event: DeliveryFailureEvent) -> None:
        looked.append(queue_of(one).requeue([event.number]))

    with handling(look, "shop"):
        assert [drain(one) for _ in range(2)] == [(2, 1, 1), (0, 1, 1)]

    assert looked == [1, 1]
    assert [message.uuid for message in arrived(provider)] == ["a", "c"]


def _drains(one: Sender) -> DeliveryFailureHandler:
    def handle(event: DeliveryFailureEvent) -> None:
        queue_of(one).requeue([event.number])
        assert drain(one)[2] == 2

    return handle


def _drains_as_a_coroutine(one: Sender) -> DeliveryFailureHandler:
    async def handle(event: DeliveryFailureEvent) -> None:
        _drains(one)(event)

    return handle


@pytest.mark.parametrize("make", [_drains, _drains_as_a_coroutine])
def test_a_handler_that_drains_does_not_wait_for_itself(
    file: Path, make: Callable[[Sender], DeliveryFailureHandler], caplog: pytest.LogCaptureFixture
) -> None:
    provider, one = poisoned(REFUSED, file)
    with handling(make(one), "shop"):
        assert drain(one) == (2, 1, 1)

    assert "a handler of delivery failure events failed" not in caplog.text
    assert [message.uuid for message in arrived(provider)] == ["a", "c"]


class TestSpoiltRows:
    def test_a_row_that_cannot_be_read_does_not_block_what_is_behind_it(
        self, file: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        line = Line("down")
        one = sender(line, file)
        send(one, "a", "b", "c", "d")
        spoil(file, "UPDATE queued SET message = '{' WHERE number = 1")
        spoil(file, "UPDATE queued SET message = '[]' WHERE number = 3")
        line.fates = ["up"]

        assert drain(one) == (2, 0, 0)
        assert [message.uuid for message in arrived(line.memory)] == ["b", "d"]
        queue = queue_of(one)
        assert [(row.number, row.destination, row.text) for row in queue.unreadable()] == [
            (1, "orders", "{"),
            (3, "orders", "[]"),
        ]
        assert queue.size() == 0
        assert f"message 1 of the queue {file} cannot be read" in caplog.text

    def test_a_queue_with_nothing_but_spoilt_rows_is_empty_afterwards(self, file: Path) -> None:
        line = Line("down")
        one = sender(line, file)
        send(one, "a", "b")
        spoil(file, "UPDATE queued SET message = x'ff00'")
        line.fates = ["up"]

        assert drain(one) == (0, 0, 0)
        assert len(queue_of(one).unreadable()) == 2

    def test_a_failed_message_that_cannot_be_read_hides_no_other(self, file: Path) -> None:
        one = sender(Line("down"), file)
        send(one, "a", "b")
        queue = queue_of(one)
        for queued in queue.next_run(limit=10, size=10_000):
            queue.give_up(queued, ConnectionError("away"), attempts=1)
        spoil(file, "UPDATE failed SET event = '{' WHERE number = 1")

        assert [event.number for event in queue.failed()] == [2]
        assert [event.number for event in queue.unreported()] == [2]

    def test_a_file_of_an_earlier_version_gets_the_place_for_them(self, file: Path) -> None:
        ClientQueue(file, alias="shop").size()
        spoil(file, "DROP TABLE unreadable")

        assert ClientQueue(file, alias="shop").unreadable() == []


def spoil(file: Path, statement: str) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute(statement)
    connection.close()
