"""Ordered triggers in one process and in several consumers: each group keeps its order.

Different groups run in parallel.
"""

import asyncio
import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

import pytest

from history import ConfigurationError
from history.bridge import drive
from tests.fixtures.histories import with_store
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, Running, entry_in, is_drained, parked_in
from tests.integration.helpers.ordering import Diary, Failing, numbered
from triggers import AsyncConsumer, Consumer, FatalError, Message, Redelivery, TransientError, trigger
from triggers.consumer.ordering.active import ACTIVE_CONSUMER, ActiveConsumer
from triggers.consumer.receivers import LazyReceiver
from triggers.providers import Provider, Receiver, open_provider
from triggers.providers.memory import MemoryProvider
from triggers.testing.redis_server import RedisServer

GROUPS, LENGTH = 50, 40

#: A message that failed transiently comes again after this time.
QUICKLY = Redelivery(interval=timedelta(milliseconds=5), backoff=1.0)

#: For each effect of a failure: the groups, their length, the failures of a message, and the settings.
FAILING: dict[str, tuple[int, int, float, dict[str, Any]]] = {
    "rolls back": (GROUPS, LENGTH, 0.1, {"transacted": True, "redelivery": QUICKLY}),
    "suspends": (
        *(20, 20, 0.01),
        {"on_retry_failure": "suspend", "monitor": lambda: True, "monitor_interval": QUICKLY.interval},
    ),
}

#: Consumers often look for messages that were given back.
FAST = "?claim_idle=60&reclaim_interval=0.1"


@pytest.fixture
def chance() -> random.Random:
    """Return a source of randomness; it starts from the seed that pytest prints."""
    return random.Random(random.randrange(2**32))  # noqa: S311  (no secret)


def send(to: str | Provider, messages: Sequence[Message]) -> None:
    provider = open_provider(to) if isinstance(to, str) else to
    drive(provider.send("orders", messages))
    if isinstance(to, str):
        drive(provider.close())


def in_group(group: str | None, *names: str) -> list[Message]:
    return [Message(uuid=name, group_id=group, body="") for name in names]


def fence_in(url: str) -> int:
    entry = entry_in(url, "orders", ACTIVE_CONSUMER)
    return 0 if entry is None else entry.fence


class TestOrder:
    @pytest.mark.parametrize("provided", ["memory", "redis"])
    @pytest.mark.parametrize("failure", ["rolls back", "suspends"])
    def test_groups_keep_their_order_whatever_a_failure_does(
        self, lane: Lane, provided: str, redis_url: str, chance: random.Random, failure: str
    ) -> None:
        groups, length, often, settings = FAILING[failure]
        diary, failing = Diary(), Failing(groups, length, often, chance)

        def work(message: Message) -> None:
            diary.write(message, fails=failing.fails(message))

        orders = lane.trigger("orders", work, ordered=True, concurrency=8, **settings)
        provider = MemoryProvider() if provided == "memory" else redis_url + FAST
        send(provider, numbered(groups, length, chance))

        with lane.run([orders], provider, history=redis_url) as running:
            eventually(lambda: running.counts["orders"].get("ok") == groups * length)

        diary.check(groups, length)
        # Messages that waited behind a failed message were not given back, unless all messages were.
        assert failure == "suspends" or running.counts["orders"]["recovered"] == failing.total
        assert parked_in(redis_url, "orders") == []

    def test_a_serial_trigger_runs_everything_in_the_order_of_the_destination(
        self, lane: Lane, redis_url: str, chance: random.Random
    ) -> None:
        ran: list[tuple[str, bool]] = []
        failing = Failing(5, 20, 0.2, chance)

        def work(message: Message) -> None:
            fails = failing.fails(message)
            ran.append((message.uuid or "", not fails))
            if fails:
                raise TransientError("for now")

        orders = lane.trigger("orders", work, ordered=True, transacted=True, redelivery=QUICKLY)
        messages = numbered(5, 20, chance)
        messages[3::7] = [one.model_copy(update={"group_id": None}) for one in messages[3::7]]
        send(redis_url, messages)

        with lane.run([orders], redis_url + FAST, history=redis_url):
            eventually(lambda: is_drained(redis_url, "orders"))

        sent = [one.uuid for one in messages]
        assert [uuid for uuid, ok in ran if ok] == sent
        assert [uuid for uuid, _ in ran] == sorted((uuid for uuid, _ in ran), key=sent.index)

    def test_a_message_that_is_given_up_does_not_hold_its_group_up(self, lane: Lane, redis_url: str) -> None:
        ran: list[str | None] = []

        def work(message: Message) -> None:
            if message.uuid == "b":
                raise FatalError("no such customer")
            ran.append(message.uuid)

        orders = lane.trigger("orders", work, ordered=True, concurrency=4)
        send(redis_url, in_group("g", *"abcd"))

        with lane.run([orders], redis_url, history=redis_url):
            eventually(lambda: is_drained(redis_url, "orders"))

        assert ran == ["a", "c", "d"]
        assert [one.uuid for one in parked_in(redis_url, "orders")] == ["b"]

    def test_a_poisonous_message_does_not_use_up_the_deliveries_of_those_behind_it(
        self, lane: Lane, redis_url: str
    ) -> None:
        ran: list[str | None] = []

        def work(message: Message) -> None:
            if message.uuid == "0":
                raise TransientError("always")
            ran.append(message.uuid)

        # With a limit of four messages the consumer cannot hold all the messages that wait behind "0".
        limit = {"concurrency": 2, "prefetch": 2, "max_delivery_count": 20}
        orders = lane.trigger("orders", work, ordered=True, transacted=True, redelivery=QUICKLY, **limit)
        send(redis_url, in_group("g", *map(str, range(12))))

        with lane.run([orders], redis_url + FAST, history=redis_url):
            eventually(lambda: is_drained(redis_url, "orders"))

        assert ran == [str(number) for number in range(1, 12)]
        assert [one.uuid for one in parked_in(redis_url, "orders")] == ["0"]

    def test_the_order_holds_when_the_provider_goes_away_and_comes_back(
        self, lane: Lane, redis_url: str, private_redis: RedisServer, chance: random.Random
    ) -> None:
        diary, failing = Diary(), Failing(20, 30, 0.1, chance)
        half = threading.Event()

        def work(message: Message) -> None:
            if message.uuid == "g7-15":
                half.set()
            time.sleep(0.002)
            diary.write(message, fails=failing.fails(message))

        orders = lane.trigger(
            "orders", work, ordered=True, concurrency=8, transacted=True, redelivery=QUICKLY
        )
        send(private_redis.url, numbered(20, 30, chance))

        with lane.run([orders], private_redis.url + FAST, history=redis_url) as running:
            assert half.wait(PATIENCE)
            private_redis.kill()
            private_redis.start()
            eventually(lambda: running.counts["orders"].get("ok") == 600)
            eventually(lambda: is_drained(private_redis.url, "orders"))

        diary.check(20, 30)

    def test_the_order_holds_when_the_history_goes_away_and_comes_back(
        self, lane: Lane, redis_url: str, private_redis: RedisServer, chance: random.Random
    ) -> None:
        diary, half = Diary(), threading.Event()

        def work(message: Message) -> None:
            if message.uuid == "g7-15":
                half.set()
            time.sleep(0.002)
            diary.write(message)

        lease = timedelta(seconds=2)
        orders = lane.trigger("orders", work, ordered=True, concurrency=8, lease=lease)
        send(redis_url, numbered(20, 30, chance))

        with lane.run([orders], redis_url + FAST, history=private_redis.url) as running:
            assert half.wait(PATIENCE)
            private_redis.kill()
            eventually(lambda: running.gates[0].suspended)
            private_redis.start()
            eventually(lambda: is_drained(redis_url, "orders"))

        doubtful = {one.uuid for one in parked_in(private_redis.url, "orders")}
        # Each worker may have had one claim or one completion in progress.
        assert len(doubtful) <= 16
        assert diary.overlapping == []
        for group, runs in diary.runs.items():
            numbers = [number for number, _ in runs]
            assert all(after > before for before, after in pairwise(numbers)), group
            assert {f"{group}-{number}" for number in set(range(30)) - set(numbers)} <= doubtful

    def test_a_message_that_vanishes_does_not_hold_its_group_up_for_ever(
        self, lane: Lane, redis_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("triggers.pipeline.run.LONGEST_RECOVER_DELAY", timedelta(seconds=1))
        monkeypatch.setattr("triggers.consumer.ordering.handover.OVERDUE", 0.1)
        lease = timedelta(minutes=5)
        orders, ran = lane.noting("orders", ordered=True, concurrency=2, lease=lease)
        with_store(redis_url, lambda store: store.claim("orders", ["a"], "somebody", lease))
        send(redis_url, in_group("g", *"abc"))

        with (
            lane.run([orders], redis_url + FAST, history=redis_url) as running,
            connected(redis_url) as client,
        ):
            eventually(lambda: running.counts["orders"].get("recovered"))
            [(first, _)] = client.xrange("orders", count=1)
            eventually(
                lambda: client.xpending_range("orders", "orders", first, first, 1, "doubtless:waiting")
            )
            client.xack("orders", "orders", first)
            eventually(lambda: is_drained(redis_url, "orders"))

        assert ran == ["b", "c"]


class TestConcurrency:
    def test_no_more_run_than_concurrency_says(
        self, lane: Lane, redis_url: str, chance: random.Random
    ) -> None:
        diary = Diary()

        def work(message: Message) -> None:
            diary.begin(message)
            time.sleep(0.001)
            diary.end(message, ok=True)

        orders = lane.trigger("orders", work, ordered=True, concurrency=3)
        send(redis_url, numbered(10, 10, chance))

        with lane.run([orders], redis_url, history=redis_url) as running:
            eventually(lambda: running.counts["orders"].get("ok") == 100)

        assert diary.at_once == 3

    def test_a_group_that_waits_does_not_hold_others_up(
        self, lane: Lane, redis_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("triggers.pipeline.run.LONGEST_RECOVER_DELAY", timedelta(seconds=0.3))
        ran: list[str] = []
        lease = timedelta(minutes=5)
        orders = lane.trigger(
            "orders",
            lambda message: ran.append(message.uuid or ""),
            ordered=True,
            concurrency=2,
            prefetch=2,
            lease=lease,
        )
        [claim] = with_store(redis_url, lambda store: store.claim("orders", ["a0"], "somebody", lease))
        send(redis_url, in_group("a", *(f"a{number}" for number in range(20))))
        send(redis_url, in_group("b", *(f"b{number}" for number in range(20))))

        with lane.run([orders], redis_url + FAST, history=redis_url):
            eventually(lambda: len(ran) == 20)
            others = list(ran)
            with_store(redis_url, lambda store: store.complete("orders", "a0", claim.fence))
            eventually(lambda: is_drained(redis_url, "orders"))

        assert others == [f"b{number}" for number in range(20)]
        assert ran[20:] == [f"a{number}" for number in range(1, 20)]


class TestActiveConsumer:
    def test_one_consumer_receives_and_another_goes_on_when_it_ends(
        self, lane: Lane, redis_url: str, chance: random.Random
    ) -> None:
        diary, began = Diary(), threading.Event()
        ran_in: list[str] = []

        def trigger_of(name: str) -> Any:
            def work(message: Message) -> None:
                ran_in.append(name)
                time.sleep(0.001)
                diary.write(message)
                if len(ran_in) > 200:
                    began.set()

            return lane.trigger("orders", work, ordered=True, concurrency=8)

        send(redis_url, numbered(20, 40, chance))
        with lane.run([trigger_of("first")], redis_url, history=redis_url) as first:
            eventually(lambda: ran_in)
            with lane.run([trigger_of("second")], redis_url, history=redis_url) as second:
                assert began.wait(PATIENCE)
                first.stop()
                first.join()
                eventually(lambda: is_drained(redis_url, "orders"))
                assert second.counts["orders"]["ok"] > 0

        diary.check(20, 40)
        changes = [(before, after) for before, after in pairwise(ran_in) if before != after]
        assert changes == [("first", "second")]
        assert entry_in(redis_url, "orders", ACTIVE_CONSUMER) is None

    def test_a_disabled_trigger_lets_another_consumer_go_on(self, lane: Lane, redis_url: str) -> None:
        ran_in: list[str] = []

        def trigger_of(name: str) -> Any:
            return lane.trigger("orders", lambda _: ran_in.append(name), ordered=True)

        first = lane.consumer([trigger_of("first")], redis_url, history=redis_url)
        with Running(first):
            send(redis_url, in_group("g", "a"))
            eventually(lambda: ran_in == ["first"])
            with lane.run([trigger_of("second")], redis_url, history=redis_url):
                first.disable("orders")
                send(redis_url, in_group("g", "b"))
                eventually(lambda: ran_in == ["first", "second"])

    def test_a_consumer_whose_right_was_taken_waits_until_it_is_free(
        self, lane: Lane, redis_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("triggers.consumer.ordering.active.LEASE", timedelta(seconds=1))
        ran: list[int] = []
        orders = lane.trigger("orders", lambda _: ran.append(fence_in(redis_url)), ordered=True)
        short = timedelta(seconds=2)

        with lane.run([orders], redis_url, history=redis_url):
            send(redis_url, in_group("g", "a"))
            eventually(lambda: ran)
            entry = entry_in(redis_url, "orders", ACTIVE_CONSUMER)
            assert entry is not None
            taken = with_store(
                redis_url,
                lambda store: store.take_over("orders", ACTIVE_CONSUMER, "thief", short, entry.fence),
            )
            eventually(lambda: "is lost" in caplog.text)
            send(redis_url, in_group("g", "b"))
            eventually(lambda: len(ran) == 2)

        assert taken is not None
        assert ran[0] < taken.fence < ran[1]

    def test_a_service_that_ends_the_process_leaves_its_message_and_the_right_to_others(
        self, lane: Lane, redis_url: str
    ) -> None:
        def dies(message: Message) -> None:
            raise SystemExit(3)

        orders = lane.trigger("orders", dies, ordered=True, concurrency=4, lease=timedelta(seconds=0.5))
        send(redis_url, in_group("g", "a", "b"))

        with lane.run([orders], redis_url, history=redis_url) as running, pytest.raises(SystemExit):
            running.join()
        orders, ran = lane.noting("orders", ordered=True, concurrency=4)
        with lane.run([orders], redis_url, history=redis_url):
            eventually(lambda: is_drained(redis_url, "orders"))

        assert ran == ["b"]
        assert [one.uuid for one in parked_in(redis_url, "orders")] == ["a"]

    def test_an_ordered_trigger_ends_when_idle(self, lane: Lane, redis_url: str) -> None:
        orders, ran = lane.noting("orders", ordered=True)
        send(redis_url, in_group("g", *"abc"))

        with lane.run([orders], redis_url, history=redis_url, until_idle=0.3) as running:
            running.join()

        assert ran == ["a", "b", "c"]

    def test_a_provider_that_cannot_take_over_is_refused(self, lane: Lane, redis_url: str) -> None:
        orders = lane.trigger("orders", lambda _: None, ordered=True)
        provider = PlainProvider()

        with (
            lane.run([orders], provider, history=redis_url) as running,
            pytest.raises(ConfigurationError, match="cannot take over the messages"),
        ):
            running.join()

    def test_a_suspended_trigger_keeps_the_right_and_one_that_stands_by_does_not_take_it(
        self, lane: Lane, redis_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ran_in: list[str] = []
        asked: list[ActiveConsumer] = []
        acquire = ActiveConsumer.acquire

        async def count(self: ActiveConsumer) -> bool:
            asked.append(self)
            return await acquire(self)

        monkeypatch.setattr(ActiveConsumer, "acquire", count)
        monkeypatch.setattr("triggers.consumer.ordering.workers.STANDBY_PAUSE", 0.05)

        def consumer_of(name: str) -> Consumer | AsyncConsumer:
            orders = lane.trigger("orders", lambda _: ran_in.append(name), ordered=True)
            return lane.consumer([orders], redis_url, history=redis_url)

        first, second = consumer_of("first"), consumer_of("second")
        second.suspend("orders")
        with Running(second), Running(first):
            send(redis_url, in_group("g", "a"))
            eventually(lambda: ran_in == ["first"])
            first.suspend("orders")
            second.resume("orders")
            send(redis_url, in_group("g", "b"))
            before = len(asked)
            eventually(lambda: len(asked) > before + 10)
            assert ran_in == ["first"]
            first.resume("orders")
            eventually(lambda: ran_in == ["first", "first"])
            first.disable("orders")
            send(redis_url, in_group("g", "c"))
            eventually(lambda: ran_in == ["first", "first", "second"])


class PlainProvider(MemoryProvider):
    """A provider with receivers that have only the required methods."""

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> Any:
        receiver = await super().open_receiver(destination, subscription=subscription, name=name)
        return LazyReceiver(cast("Receiver", receiver))

    def for_asyncio(self) -> "PlainProvider":
        return self


async def test_cancelling_leaves_what_runs_in_doubt_and_gives_the_rest_back_in_order(redis_url: str) -> None:
    begun = asyncio.Event()

    @trigger("orders", name="orders", ordered=True, concurrency=2, lease=None)
    async def work(message: Message) -> None:
        begun.set()
        await asyncio.Event().wait()

    await asyncio.to_thread(send, redis_url, in_group("g", *"abcd"))
    running = asyncio.create_task(AsyncConsumer([work], redis_url, history=redis_url).run())
    await asyncio.wait_for(begun.wait(), PATIENCE)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    ran: list[str | None] = []

    @trigger("orders", name="orders", ordered=True)
    def plain(message: Message) -> None:
        ran.append(message.uuid)

    consumer = AsyncConsumer([plain], redis_url, history=redis_url)
    await asyncio.wait_for(consumer.run(until_idle=0.3), PATIENCE)

    assert (ran, consumer.counts["orders"]) == (["b", "c", "d"], {"ok": 3, "in doubt": 1})
