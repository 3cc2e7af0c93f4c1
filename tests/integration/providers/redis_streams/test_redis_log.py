"""A Redis stream as a log: a query reads its entries, and notices entries that were dropped unread."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from history import Message, UnavailableError
from history.bridge import drive
from tests.fixtures.network import Network
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE
from tests.integration.helpers.logs import read_uuids
from tests.integration.helpers.orders import Send, orders
from triggers.providers.redis_streams import RedisStreams
from triggers.spark.sources.log import EntriesLostError, LogPosition
from triggers.spark.sources.redis_stream import ORIGIN, RedisLog, RedisLogSettings
from triggers.testing.redis_server import RedisServer

Open = Callable[..., RedisLog]


@pytest.fixture
def opened(redis_url: str) -> Iterator[Open]:
    logs: list[RedisLog] = []

    def make(**settings: Any) -> RedisLog:
        told: dict[str, Any] = {"url": redis_url, "rows_of_a_span": 10, "patience": 0.0}
        logs.append(RedisLog(RedisLogSettings(stream="orders", **(told | settings))))
        return logs[-1]

    yield make
    for log in logs:
        log.close()


def test_spans_are_the_stream_in_order_and_read_the_same_each_time(send: Send, opened: Open) -> None:
    send(orders(25))
    log = opened()

    positions = log.walk(log.begin(), until=None, rows=None)

    assert [position.count for position in positions] == [10, 20, 25]
    first, again = read(log, positions), read(opened(), positions)
    assert first == again == [f"order-{number}" for number in range(25)]


def test_a_walk_stops_at_its_limit_and_at_its_target(send: Send, opened: Open) -> None:
    send(orders(25))
    log = opened()
    target = log.end()
    send(orders(5, first=25))

    limited = log.walk(log.begin(), until=target, rows=14)
    rest = log.walk(limited[-1], until=target, rows=14)

    assert [position.count for position in (*limited, *rest)] == [10, 14, 24, 25]
    assert rest[-1] == target
    assert log.walk(target, until=target, rows=14) == []


def test_a_batch_that_is_planned_again_is_the_same(send: Send, opened: Open) -> None:
    send(orders(25))
    log = opened()
    begin = log.begin()
    positions = log.walk(begin, until=None, rows=17)
    send(orders(30, first=25))

    assert opened().plan(begin, positions[-1]) == positions


def test_a_stream_that_is_not_there_yet_is_empty(send: Send, opened: Open) -> None:
    log = opened()

    begin = log.begin()
    before = log.walk(begin, until=None, rows=None)
    send(orders(3))

    assert (begin, before) == (ORIGIN, [])
    assert read(log, log.walk(begin, until=None, rows=None)) == ["order-0", "order-1", "order-2"]


def test_latest_begins_behind_what_is_there(send: Send, opened: Open) -> None:
    send(orders(3))
    log = opened(from_the_end=True)
    begin = log.begin()
    send(orders(2, first=3))

    assert read(log, log.walk(begin, until=None, rows=None), begin) == ["order-3", "order-4"]


def test_what_was_trimmed_before_the_query_began_is_not_lost(
    redis_url: str, send: Send, opened: Open
) -> None:
    send(orders(9))
    with connected(redis_url) as client:
        client.xtrim("orders", maxlen=4, approximate=False)
    log = opened()
    begin = log.begin()

    assert (begin.count, log.walk(begin, until=None, rows=None)[-1].count) == (5, 9)


def test_a_trim_of_what_was_read_is_no_loss(redis_url: str, send: Send, opened: Open) -> None:
    send(orders(5))
    log = opened()
    position = log.walk(log.begin(), until=None, rows=None)[-1]
    send(orders(3, first=5))
    with connected(redis_url) as client:
        client.xtrim("orders", maxlen=3, approximate=False)

    assert read(log, log.walk(position, until=None, rows=None), position) == ["order-5", "order-6", "order-7"]


@pytest.mark.parametrize("left", [2, 0], ids=["some left", "none left"])
def test_a_trim_of_what_was_not_read_is_an_error_and_says_how_much(
    redis_url: str, send: Send, opened: Open, left: int
) -> None:
    send(orders(5))
    log = opened()
    position = log.walk(log.begin(), until=None, rows=2)[-1]
    with connected(redis_url) as client:
        client.xtrim("orders", maxlen=left, approximate=False)

    with pytest.raises(EntriesLostError, match=f"orders: {3 - left} entries after .* failOnDataLoss"):
        log.walk(position, until=None, rows=None)

    tolerant = opened(fail_on_loss=False)
    positions = tolerant.walk(position, until=None, rows=None)
    assert read(tolerant, positions, position) == [f"order-{number}" for number in range(5 - left, 5)]
    send(orders(1, first=5))
    after = positions[-1] if positions else position
    assert read(tolerant, tolerant.walk(after, until=None, rows=None), after) == ["order-5"]


def test_an_entry_that_was_deleted_alone_is_missed(redis_url: str, send: Send, opened: Open) -> None:
    send(orders(5))
    log = opened()
    positions = log.walk(log.begin(), until=None, rows=None)
    with connected(redis_url) as client:
        client.xdel("orders", positions[-1].offset)

    with pytest.raises(EntriesLostError, match=r"1 entries .*were deleted"):
        log.walk(ORIGIN, until=None, rows=None)
    with pytest.raises(EntriesLostError, match="1 entries"):
        log.plan(ORIGIN, positions[-1])
    with pytest.raises(EntriesLostError, match="1 of 5 entries"):
        read(log, positions)


@pytest.mark.parametrize("sent", [0, 2, 9], ids=["gone", "shorter", "longer"])
def test_another_stream_under_the_name_is_an_error(
    redis_url: str, send: Send, opened: Open, sent: int
) -> None:
    send(orders(5))
    log = opened()
    position = log.walk(log.begin(), until=None, rows=None)[-1]
    with connected(redis_url) as client:
        client.delete("orders")
    send(orders(sent))

    with pytest.raises(EntriesLostError, match=r"another stream|the stream is gone"):
        log.walk(position, until=None, rows=None)


def test_a_subscription_keeps_what_is_not_processed_from_a_trim(
    redis_url: str, send: Send, opened: Open
) -> None:
    log = opened(subscription="pipeline")
    begin = log.begin()
    log.walk(begin, until=None, rows=None)
    send(orders(300))
    positions = log.walk(begin, until=None, rows=None)
    trimming = RedisStreams.from_url(f"{redis_url}?trim=acknowledged")
    consume_all(trimming)
    with connected(redis_url) as client:
        kept = client.xlen("orders")
        log.hold(positions[-1])
        consume_all(trimming)
        assert (kept, client.xlen("orders") < 300) == (300, True)
    drive(trimming.close())


def test_delayed_messages_come_when_they_are_due(send: Send, opened: Open) -> None:
    log = opened()
    soon = datetime.now(UTC) + timedelta(milliseconds=60)
    late = datetime.now(UTC) + timedelta(hours=1)
    send(
        [
            Message(body="soon", uuid="soon", delivery_time=soon),
            Message(body="late", uuid="late", delivery_time=late),
        ]
    )

    positions: Sequence[LogPosition] = []
    while not positions:
        positions = log.walk(ORIGIN, until=None, rows=None)

    assert datetime.now(UTC) >= soon
    assert read(log, positions) == ["soon"]


def test_a_server_that_is_away_is_waited_for_as_long_as_patience_lasts(
    redis_server: RedisServer, send: Send, opened: Open
) -> None:
    send(orders(3))
    with Network("127.0.0.1", redis_server.port) as network:
        url = network.url(redis_server.url)
        network.take_down()
        with pytest.raises(UnavailableError):
            opened(url=url, patience=0.2).begin()
        with ThreadPoolExecutor(1) as pool:
            begin = pool.submit(opened(url=url, patience=30.0).begin)
            wait([begin], timeout=0.3)
            waited = not begin.done()
            network.bring_up()
            assert (waited, begin.result(PATIENCE)) == (True, ORIGIN)


def read(log: RedisLog, positions: Sequence[LogPosition], begin: LogPosition = ORIGIN) -> list[str | None]:
    return read_uuids(log, begin, positions)


def consume_all(provider: RedisStreams) -> None:
    receiver = drive(provider.open_receiver("orders", subscription="others", name="one"))
    while received := drive(receiver.receive(500, timedelta(0))):
        drive(receiver.acknowledge(received))
    drive(receiver.keep_alive())
    drive(receiver.close())
