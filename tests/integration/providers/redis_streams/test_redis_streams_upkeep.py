"""From time to time a consumer removes old entries of the stream, and the names of dead consumers."""

import logging
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from history.bridge import drive
from history.errors import ConfigurationError
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.streams import receiver_of
from triggers.providers.contract.common import NO_WAIT
from triggers.providers.redis_streams import RedisStreams, StreamSettings
from triggers.providers.redis_streams.link import RedisLink
from triggers.providers.redis_streams.receiver import TRIM_INTERVAL, StreamReceiver
from triggers.providers.redis_streams.settings import StreamKeys

DAY = 86_400_000

Open = Callable[..., StreamReceiver]


@pytest.fixture
def open_receiver(redis_url: str) -> Iterator[Open]:
    providers: list[RedisStreams] = []
    receivers: list[StreamReceiver] = []

    def open_receiver(name: str = "a", subscription: str = "s", query: str = "") -> StreamReceiver:
        providers.append(RedisStreams.from_url(f"{redis_url}?reclaim_interval=0.05&{query}"))
        receivers.append(receiver_of(providers[-1], name, subscription))
        return receivers[-1]

    yield open_receiver
    for receiver in receivers:
        drive(receiver.close())
    for provider in providers:
        drive(provider.close())


def add(client: Any, count: int, *, days_ago: int) -> None:
    seconds, microseconds = client.time()
    then = seconds * 1000 + microseconds // 1000 - days_ago * DAY
    for number in range(count):
        client.xadd("orders", {"body": "x"}, id=f"{then}-{number}")


def acknowledge_all(receiver: StreamReceiver) -> None:
    while received := drive(receiver.receive(500, NO_WAIT)):
        drive(receiver.acknowledge(received))


# Trimming -----------------------------------------------------------------------------------------------


def test_what_all_have_acknowledged_is_dropped_after_a_week_unless_told_otherwise(
    open_receiver: Open, client: Any
) -> None:
    add(client, 300, days_ago=8)
    add(client, 100, days_ago=6)
    receiver = open_receiver()
    acknowledge_all(receiver)

    drive(receiver.keep_alive())

    assert 100 <= client.xlen("orders") <= 200


@pytest.mark.parametrize("behind", ["has read nothing", "holds the first"])
def test_what_one_subscription_has_not_acknowledged_is_kept_at_any_age(
    open_receiver: Open, client: Any, behind: str
) -> None:
    add(client, 300, days_ago=30)
    client.xgroup_create("orders", "other", "0")
    if behind == "holds the first":
        client.xreadgroup("other", "somebody", {"orders": ">"})
        client.xack("orders", "other", *[entry_id for entry_id, _ in client.xrange("orders")[1:]])
    receiver = open_receiver()
    acknowledge_all(receiver)

    drive(receiver.keep_alive())

    assert client.xlen("orders") == 300


@pytest.mark.parametrize(
    ("query", "left"), [("trim=never", 300), ("trim=86400", 0), ("trim=acknowledged", 0)]
)
def test_the_age_stands_in_the_url(open_receiver: Open, client: Any, query: str, left: int) -> None:
    add(client, 300, days_ago=2)
    receiver = open_receiver(query=query)
    acknowledge_all(receiver)

    drive(receiver.keep_alive())

    assert left <= client.xlen("orders") <= left + 100


@pytest.mark.parametrize(("query", "warned"), [("trim=never", 1), ("trim=never&maxlen=100", 0), ("", 0)])
def test_a_stream_that_keeps_everything_is_named_at_the_start_with_the_setting(
    open_receiver: Open, caplog: pytest.LogCaptureFixture, query: str, warned: int
) -> None:
    caplog.set_level(logging.WARNING)

    open_receiver(query=query)

    assert [line for line in caplog.messages if "stream orders" in line and "trim=never" in line] == (
        caplog.messages
    )
    assert len(caplog.messages) == warned


@pytest.mark.parametrize("trim", [1, "acknowledged", None, timedelta(days=-1)])
def test_an_age_that_is_none_is_refused(trim: Any) -> None:
    with pytest.raises(ConfigurationError, match="trim: must be an age"):
        StreamSettings(trim=trim)


@pytest.mark.parametrize("name", ["gone", "g:o%ne"])
def test_a_subscription_that_nobody_consumes_and_that_keeps_old_entries_is_named_once(
    open_receiver: Open, client: Any, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.WARNING)
    add(client, 300, days_ago=9)
    client.xgroup_create("orders", name, "0")
    client.xgroup_createconsumer("orders", name, "killed")
    receiver = open_receiver()
    acknowledge_all(receiver)

    drive(receiver.keep_alive())

    assert [line for line in caplog.messages if f"subscription {name} is consumed by nobody" in line]

    caplog.clear()
    open_receiver(subscription=name)
    again = open_receiver("b")
    drive(again.keep_alive())

    assert caplog.messages == []


# Burying ------------------------------------------------------------------------------------------------


def names(client: Any) -> set[bytes]:
    return {one["name"] for one in client.xinfo_consumers("orders", "s")}


def test_names_of_dead_consumers_that_hold_nothing_are_freed_and_no_others(
    open_receiver: Open, client: Any
) -> None:
    open_receiver()
    open_receiver("idle")
    for name in ("killed", "killed too"):
        client.xgroup_createconsumer("orders", "s", name)
    client.xgroup_createconsumer("orders", "s", "idle")
    client.xadd("orders", {"body": "x"})
    client.xreadgroup("s", "holding", {"orders": ">"})
    eventually(lambda: all(one["idle"] > 100 for one in client.xinfo_consumers("orders", "s")))

    bury(client, claim_idle=100)

    assert names(client) >= {b"idle", b"holding"}
    assert not names(client) & {b"killed", b"killed too"}


def bury(client: Any, *, claim_idle: int) -> None:
    """Remove the names of consumers that were silent for longer than ``claim_idle`` milliseconds."""
    keys = StreamKeys("orders", "s", "a")
    words = (keys.group, keys.consumer, "token", claim_idle)
    drive(RedisLink(client).run("bury", keys.scripted, words))


def test_one_that_was_buried_while_it_waited_holds_what_it_reads(
    open_receiver: Open, client: Any, redis_url: str
) -> None:
    open_receiver()
    client.xgroup_createconsumer("orders", "s", "sleeper")
    read: list[Any] = []
    sleeper = threading.Thread(
        target=lambda: read.append(
            client.xreadgroup("s", "sleeper", {"orders": ">"}, block=round(PATIENCE * 1000))
        )
    )
    sleeper.start()
    with connected(redis_url) as other:
        eventually(lambda: other.info("clients")["blocked_clients"] == 1)
        eventually(lambda: all(one["idle"] > 20 for one in other.xinfo_consumers("orders", "s")))
        bury(other, claim_idle=20)
        assert b"sleeper" not in names(other)

        other.xadd("orders", {"body": "x"})
        sleeper.join(PATIENCE)

        assert read
        [pending] = other.xpending_range("orders", "s", "-", "+", 10)
        assert pending["consumer"] == b"sleeper"


def test_one_that_dies_later_is_buried_soon_after_claim_idle(open_receiver: Open, client: Any) -> None:
    receiver = open_receiver(query="claim_idle=0.05")
    drive(receiver.keep_alive())
    client.xgroup_createconsumer("orders", "s", "killed")

    def is_buried() -> bool:
        drive(receiver.keep_alive())
        return b"killed" not in names(client)

    eventually(is_buried, TRIM_INTERVAL / 2)
