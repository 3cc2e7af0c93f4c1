"""Commands reach consumers, change the fate of their messages, and wait while the history is away."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from history import MemoryHistory, Verb
from history.beside.control import Control
from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.store import Beat, Counts, Heard, Overview, Report, TriggerState
from tests.fixtures.databases import asked
from tests.fixtures.histories import FragileHistory, with_store
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, is_drained, send
from triggers import Message
from triggers.providers.memory import MemoryProvider

#: The history soon forgets a consumer that left, and another consumer can take a free name immediately.
FAST = "?claim_idle=60&reclaim_interval=0.1"


@pytest.fixture(autouse=True)
def quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let consumers receive a command immediately. No test here checks the delay."""
    monkeypatch.setattr("triggers.consumer.orders.BEAT_INTERVAL", 0.05)


def overview(store: KeepsBeside) -> Overview:
    return drive(store.control.overview())


def beats(store: KeepsBeside) -> Sequence[Beat]:
    return overview(store).beats


def states(store: KeepsBeside) -> list[TriggerState]:
    return [beat.report.state for beat in beats(store)]


def order(store: KeepsBeside, verb: Verb, *names: str) -> None:
    """Give a command, and wait until the consumer reports that it has obeyed."""
    number = drive(store.control.order(verb, names))

    def obeyed() -> bool:
        heard = [one.report.obeyed >= number for one in beats(store) if one.report.trigger in names]
        return bool(heard) and all(heard)

    eventually(obeyed)


class Work:
    """A service that waits with each message until it may go on."""

    def __init__(self) -> None:
        self.begun: list[str | None] = []
        self.may_end = threading.Event()

    def __call__(self, message: Message) -> None:
        self.begun.append(message.uuid)
        self.may_end.wait(PATIENCE)


def is_connected(url: str, stream: str) -> bool:
    """Whether the provider knows a running consumer of a subscription."""
    with connected(url) as client:
        return bool(client.keys(f"{{{stream}}}:doubtless:consumer:{stream}:worker*"))


def held(url: str, stream: str) -> int:
    """Count the messages that the consumer "worker" received and has not acknowledged."""
    with connected(url) as client:
        found = client.xinfo_consumers(stream, stream)
    return sum(one["pending"] for one in found if one["name"].startswith(b"worker"))


class TestSuspending:
    def test_what_runs_ends_and_what_was_fetched_is_given_back(
        self, lane: Lane, redis_url: str, history_url: str, store: KeepsBeside
    ) -> None:
        work = Work()
        send(redis_url, "orders", "a", "b", "c")

        orders = lane.trigger("orders", work)
        with lane.run([orders], redis_url + FAST, history=history_url, name="worker") as running:
            eventually(lambda: work.begun == ["a"])
            order(store, Verb.SUSPEND, "orders")
            (beat,) = beats(store)
            assert (beat.report.state, beat.report.busy) == (TriggerState.SUSPENDED, 1)
            work.may_end.set()
            eventually(lambda: beats(store)[0].report.busy == 0)
            eventually(lambda: held(redis_url, "orders") == 0)
            assert is_connected(redis_url, "orders")
            assert running.counts == {"orders": {"ok": 1}}
            order(store, Verb.RESUME, "orders")
            eventually(lambda: is_drained(redis_url, "orders"))

        assert sorted(str(uuid) for uuid in work.begun) == ["a", "b", "c"]
        assert overview(store).statistics["orders"].new == 3

    def test_only_the_trigger_that_was_named_is_suspended(
        self, lane: Lane, redis_url: str, history_url: str, store: KeepsBeside
    ) -> None:
        triggers = [lane.trigger(name, lambda _: None) for name in ("orders", "returns")]

        with lane.run(triggers, redis_url, history=history_url):
            eventually(lambda: len(beats(store)) == 2)
            order(store, Verb.SUSPEND, "returns")
            send(redis_url, "orders", "a")
            eventually(lambda: is_drained(redis_url, "orders"))

            found = {beat.report.trigger: beat.report.state for beat in beats(store)}
        assert found == {"orders": TriggerState.RUNNING, "returns": TriggerState.SUSPENDED}


class TestDisabling:
    def test_the_consumer_leaves_and_comes_back(
        self, lane: Lane, redis_url: str, history_url: str, store: KeepsBeside
    ) -> None:
        work = Work()
        send(redis_url, "orders", "a", "b")

        orders = lane.trigger("orders", work)
        with lane.run([orders], redis_url + FAST, history=history_url, name="worker"):
            eventually(lambda: work.begun == ["a"])
            order(store, Verb.DISABLE, "orders")
            work.may_end.set()
            eventually(lambda: not is_connected(redis_url, "orders"))
            assert (work.begun, held(redis_url, "orders")) == (["a"], 0)
            order(store, Verb.ENABLE, "orders")
            eventually(lambda: is_drained(redis_url, "orders"))

        assert sorted(str(uuid) for uuid in work.begun) == ["a", "b"]


class TestHistoryAway:
    def test_messages_do_not_wait_for_beats_and_nothing_that_was_counted_is_lost(
        self, lane: Lane, redis_url: str, fragile_history: FragileHistory, store: KeepsBeside
    ) -> None:
        orders = lane.trigger("orders", lambda _: None, history=None)
        with lane.run([orders], redis_url, history=fragile_history.url) as running:
            eventually(lambda: states(store) == [TriggerState.RUNNING])
            fragile_history.take_away()
            send(redis_url, "orders", *"abc")
            eventually(lambda: is_drained(redis_url, "orders"))
            eventually(lambda: running.counts == {"orders": {"ok": 3}})  # counted after it is acknowledged
            fragile_history.give_back()
            eventually(lambda: overview(store).statistics.get("orders", Counts()).new == 3)

    def test_a_consumer_starts_and_ends_without_it(
        self, lane: Lane, redis_url: str, fragile_history: FragileHistory
    ) -> None:
        with_store(fragile_history.url, lambda store: store.check())
        orders = lane.trigger("orders", lambda _: None, history=None)
        send(redis_url, "orders", "a")

        fragile_history.take_away()
        with lane.run([orders], redis_url, history=fragile_history.url, until_idle=0.2) as running:
            running.join()

        assert running.counts == {"orders": {"ok": 1}}
        fragile_history.give_back()


class TestSlowHistory:
    """In this history a heartbeat takes as long as the test wants."""

    @pytest.fixture
    def waits_for(
        self, lane: Lane, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[threading.Event, float], None]:
        beat = Control.beat

        def until(event: threading.Event, seconds: float) -> None:
            async def slow(self: Control, token: str, reports: Sequence[Report]) -> Heard:
                deadline = time.monotonic() + seconds
                while not event.is_set() and time.monotonic() < deadline:
                    if lane.asyncio:
                        await asyncio.sleep(0.01)
                    else:
                        time.sleep(0.01)  # noqa: ASYNC251  (the blocking consumer has no event loop)
                return await beat(self, token, reports)

            monkeypatch.setattr(Control, "beat", slow)

        return until

    def test_nothing_is_received_before_the_first_orders(
        self, lane: Lane, waits_for: Callable[[threading.Event, float], None]
    ) -> None:
        history, provider, begun = MemoryHistory(), MemoryProvider(), threading.Event()
        drive(history.control.order(Verb.DISABLE, ["orders"]))
        drive(provider.send("orders", [Message(body="", uuid="a")]))
        waits_for(begun, 0.5)

        orders = lane.trigger("orders", lambda _: begun.set())
        with lane.run([orders], provider, history=history, until_idle=0.2) as running:
            running.join()

        assert running.counts == {"orders": {}}

    def test_it_does_not_keep_a_consumer_from_starting_or_ending(
        self, lane: Lane, waits_for: Callable[[threading.Event, float], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("triggers.consumer.orders.FIRST_ORDERS_PATIENCE", 0.1)
        monkeypatch.setattr("triggers.consumer.core.HOUSEKEEPING_PATIENCE", 0.1)
        provider, may_answer, begun = MemoryProvider(), threading.Event(), threading.Event()
        drive(provider.send("orders", [Message(body="", uuid="a")]))
        waits_for(may_answer, 30)

        orders = lane.trigger("orders", lambda _: begun.set(), history=MemoryHistory())
        with lane.run([orders], provider) as running:
            eventually(begun.is_set)
            running.stop()
            running.join()
        may_answer.set()

        assert running.counts == {"orders": {"ok": 1}}


def test_a_database_of_the_first_version_gets_the_tables_it_lacks(sql_database: str) -> None:
    with_store(sql_database, lambda store: store.claim("orders", ["a"], "worker"))
    for table in ("records", "log"):
        asked(sql_database, f"DROP TABLE doubtless_{table}")

    with_store(sql_database, lambda store: store.control.order(Verb.DISABLE, ["orders"]))

    assert with_store(sql_database, lambda store: store.control.overview()).disabled("orders") is not None
    assert with_store(sql_database, lambda store: store.stats("orders")).started == 1
