"""One call settles a message and claims the next. If the call fails, the next message is not lost."""

import gc
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from history import HistoryUnavailableError, RedisHistory
from history.bridge import drive
from history.entry import EntryOutcome, State, digest
from history.store.turning import Turned
from tests.fixtures.histories import with_store
from tests.fixtures.network import NetworkBefore
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, Running, entry_in, is_drained, parked_in, send
from triggers import Message, open_provider
from triggers.consumer import worker
from triggers.providers.provider import Provider, Received, Receiver


def noting(ran: list[str | None]) -> Callable[[Message], None]:
    """Return a service that notes the uuids it was given."""
    return lambda message: ran.append(message.uuid)


def calls_of(url: str, command: str) -> int:
    """Return how often a server was given a command, by clients and scripts."""
    with connected(url) as client:
        return int(client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])


class Calls:
    """Counts the calls of every Redis history."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: Counter[str] = Counter()
        for verb in ("turn", "claim", "settle"):
            monkeypatch.setattr(RedisHistory, verb, self._counted(verb, getattr(RedisHistory, verb)))

    def _counted(self, verb: str, usual: Any) -> Any:
        async def counted(*words: Any, **terms: Any) -> Any:
            self.made[verb] += 1
            return await usual(*words, **terms)

        return counted


def test_messages_share_round_trips(lane: Lane, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str | None] = []
    uuids = [f"u{number}" for number in range(30)]
    calls = Calls(monkeypatch)
    send(redis_url, "orders", *uuids)

    with lane.run([lane.trigger("orders", noting(ran))], redis_url, history=redis_url):
        eventually(lambda: is_drained(redis_url, "orders"))

    assert ran == uuids
    # Ten messages are received together, and only the first has its own claim. An answer may be late.
    assert calls.made["claim"] < 10
    # The first completion in a time slice does not use a turn.
    assert calls.made["settle"] < 10
    assert calls.made["turn"] > 20
    assert {entry_in(redis_url, "orders", uuid).outcome for uuid in uuids} == {EntryOutcome.OK}  # type: ignore[union-attr]


class FetchingReceiver:
    """A receiver that fetches up to ``limit`` messages, and returns them one by one."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._fetched: deque[Received] = deque()

    async def receive(self, limit: int, wait: timedelta) -> list[Received]:
        if not self._fetched:
            self._fetched.extend(await self._receiver.receive(limit, wait))
        return self.take_fetched(1)

    def take_fetched(self, limit: int) -> list[Received]:
        assert limit >= 1
        return [self._fetched.popleft()] if self._fetched else []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._receiver, name)


class FetchingProvider:
    """A provider with such receivers."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> Any:
        return FetchingReceiver(
            await self._provider.open_receiver(destination, subscription=subscription, name=name)
        )

    def for_asyncio(self) -> "FetchingProvider":
        return FetchingProvider(self._provider.for_asyncio())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)


def test_messages_that_were_fetched_meanwhile_share_round_trips_too(
    lane: Lane, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str | None] = []
    uuids = [f"u{number}" for number in range(10)]
    monkeypatch.setattr(worker, "ROUND", PATIENCE)
    calls = Calls(monkeypatch)
    send(redis_url, "orders", *uuids)

    provider = FetchingProvider(open_provider(redis_url))
    with lane.run([lane.trigger("orders", noting(ran))], cast("Provider", provider), history=redis_url):
        eventually(lambda: is_drained(redis_url, "orders"))

    assert (ran, calls.made["claim"]) == (uuids, 1)
    drive(provider.close())


def test_a_round_keeps_no_message_that_has_run(
    lane: Lane, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[weakref.ref[Message]] = []
    kept: list[int] = []

    def work(message: Message) -> None:
        gc.collect()
        kept.append(sum(earlier() is not None for earlier in ran))
        ran.append(weakref.ref(message))

    monkeypatch.setattr(worker, "ROUND", PATIENCE)
    send(redis_url, "orders", *(f"u{number}" for number in range(10)))

    provider = FetchingProvider(open_provider(redis_url))
    with lane.run([lane.trigger("orders", work)], cast("Provider", provider), history=redis_url):
        eventually(lambda: is_drained(redis_url, "orders"))

    # The first one is still in the answer of the provider.
    assert (len(kept), max(kept) <= 2) == (10, True), kept
    drive(provider.close())


def test_a_round_ends_although_more_was_fetched(
    lane: Lane, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str | None] = []
    monkeypatch.setattr(worker, "ROUND", 0.0)
    calls = Calls(monkeypatch)
    send(redis_url, "orders", *"abc")

    provider = FetchingProvider(open_provider(redis_url))
    with lane.run([lane.trigger("orders", noting(ran))], cast("Provider", provider), history=redis_url):
        eventually(lambda: is_drained(redis_url, "orders"))

    assert (ran, calls.made["claim"]) == (list("abc"), 3)
    drive(provider.close())


@pytest.mark.parametrize("lease", [timedelta(seconds=30), None], ids=["leased", "not leased"])
def test_a_copy_right_behind_its_original_is_a_duplicate_at_once(
    lane: Lane, redis_url: str, lease: timedelta | None
) -> None:
    ran: list[str | None] = []
    send(redis_url, "orders", *"aabba")

    with lane.run(
        [lane.trigger("orders", noting(ran), lease=lease)], redis_url, history=redis_url
    ) as running:
        eventually(lambda: is_drained(redis_url, "orders"))
        eventually(lambda: sum(running.counts["orders"].values()) == 5)

    assert (ran, running.counts) == (["a", "b"], {"orders": {"ok": 2, "duplicate": 3}})


def test_one_at_a_time_has_no_turns(lane: Lane, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str | None] = []
    calls = Calls(monkeypatch)
    send(redis_url, "orders", *"abc")

    with lane.run([lane.trigger("orders", noting(ran), prefetch=1)], redis_url, history=redis_url):
        eventually(lambda: is_drained(redis_url, "orders"))

    assert (ran, calls.made) == (list("abc"), {"claim": 3, "settle": 3})


def test_a_message_that_is_fetched_and_not_next_is_not_started(lane: Lane, redis_url: str) -> None:
    found: list[list[State | None]] = []

    def look(message: Message) -> None:
        if message.uuid == "b":
            entries = [entry_in(redis_url, "orders", uuid) for uuid in "abcd"]
            found.append([None if entry is None else entry.state for entry in entries])

    send(redis_url, "orders", *"abcd")
    with lane.run([lane.trigger("orders", look)], redis_url, history=redis_url):
        eventually(lambda: is_drained(redis_url, "orders"))

    assert found == [[State.COMPLETED, State.STARTED, None, None]]


def test_the_claim_of_a_message_that_is_not_begun_is_released(
    lane: Lane, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str | None] = []
    send(redis_url, "orders", *"abc")
    consumer = lane.consumer([lane.trigger("orders", noting(ran))], redis_url, history=redis_url)
    usual, claimed = RedisHistory.turn, list[bool]()

    async def turn(*words: Any) -> Turned:
        turned = await usual(*words)
        claimed.append(turned.claim is not None and turned.claim.found is None)
        consumer.stop()
        return turned

    monkeypatch.setattr(RedisHistory, "turn", turn)
    with Running(consumer) as running:
        running.join()

    assert (ran, claimed) == (["a"], [True])
    assert entry_in(redis_url, "orders", "b") is None


def test_the_lost_reply_to_a_turn_makes_nothing_run_twice_and_nobody_in_doubt(
    lane: Lane, redis_url: str, network_before: NetworkBefore
) -> None:
    ran: list[str | None] = []
    network = network_before(redis_url)
    lost: list[threading.Event] = []

    def work(message: Message) -> None:
        ran.append(message.uuid)
        if message.uuid == "b":
            # The call with the next uuid is the turn after this message.
            lost.append(network.lose_reply_to(digest("c")))

    send(redis_url, "orders", *"abcde")
    with lane.run([lane.trigger("orders", work)], redis_url, history=network.url(redis_url)):
        eventually(lambda: is_drained(redis_url, "orders"))

    assert ran == list("abcde")
    assert parked_in(redis_url, "orders") == []
    assert [event.is_set() for event in lost] == [True]


@pytest.mark.parametrize("done", [True, False], ids=["that was done", "that was not"])
def test_a_turn_without_an_answer_is_done_again_call_by_call(
    lane: Lane,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    done: bool,  # noqa: FBT001
) -> None:
    ran: list[str | None] = []
    usual = RedisHistory.turn

    async def turn(*words: Any) -> Turned:
        if done:
            await usual(*words)
        raise HistoryUnavailableError("waiting for the answer to a turn")

    monkeypatch.setattr(RedisHistory, "turn", turn)
    send(redis_url, "orders", *"abcde")
    with lane.run([lane.trigger("orders", noting(ran))], redis_url, history=redis_url) as running:
        eventually(lambda: is_drained(redis_url, "orders"))
        # A turn may acknowledge the last message before it is counted.
        eventually(lambda: running.counts["orders"].get("ok") == 5)

    assert ran == list("abcde")
    assert parked_in(redis_url, "orders") == []
    assert {entry_in(redis_url, "orders", uuid).outcome for uuid in "abcde"} == {EntryOutcome.OK}  # type: ignore[union-attr]


def test_a_run_that_lost_its_fence_is_not_acknowledged_by_its_turn(
    lane: Lane, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str | None] = []

    def work(message: Message) -> None:
        ran.append(message.uuid)
        if message.uuid == "a":
            entry = entry_in(redis_url, "orders", "a")
            assert entry is not None
            with_store(
                redis_url,
                lambda store: store.take_over("orders", "a", "another", timedelta(minutes=5), entry.fence),
            )

    send(redis_url, "orders", *"ab")
    with lane.run([lane.trigger("orders", work)], redis_url, history=redis_url):
        eventually(lambda: "b" in ran)

    entry = entry_in(redis_url, "orders", "a")
    assert entry is not None
    assert (entry.owner, entry.state) == ("another", State.STARTED)
    assert "lost the fence" in caplog.text
    assert not is_drained(redis_url, "orders")


def test_a_turn_that_the_server_refuses_leaves_the_usual_calls(
    lane: Lane, redis_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str | None] = []

    async def refuse(*_: object) -> None:
        raise ValueError("no turns here")

    monkeypatch.setattr(RedisHistory, "turn", refuse)
    send(redis_url, "orders", *"abc")
    with lane.run([lane.trigger("orders", noting(ran))], redis_url, history=redis_url):
        eventually(lambda: is_drained(redis_url, "orders"))

    assert ran == list("abc")
    assert parked_in(redis_url, "orders") == []
    assert caplog.text.count("slower from now on") == 1


@pytest.mark.parametrize("other", [True, False], ids=["another database", "the same"])
def test_only_a_history_in_the_same_database_acknowledges(lane: Lane, redis_url: str, other: bool) -> None:  # noqa: FBT001
    ran: list[str | None] = []
    history = f"{redis_url.rsplit('/', 1)[0]}/{9 if other else 0}"
    if other:
        with connected(history) as client:
            client.flushdb()
    send(redis_url, "orders", *"abc")
    before = calls_of(redis_url, "xack")

    with lane.run([lane.trigger("orders", noting(ran))], redis_url, history=history):
        eventually(lambda: is_drained(redis_url, "orders"))

    assert ran == list("abc")
    assert calls_of(redis_url, "xack") - before == 3
