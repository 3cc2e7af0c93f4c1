"""A queue or topic of SQL-JMS as a log: a pinned range stays the same, and a missing message is an error."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from history import ConfigurationError, Message
from history.bridge import drive
from history.sql.database.engine import open_engine
from tests.integration.helpers.logs import read_uuids
from tests.integration.helpers.orders import orders
from triggers.providers.sqljms.admin.admin import Admin, HeldError
from triggers.providers.sqljms.destinations import Destination
from triggers.providers.sqljms.link import SqlLink
from triggers.providers.sqljms.provider import SqlJms
from triggers.providers.sqljms.receiving.pinning import Lot, Pins, pin, take_over
from triggers.spark.sources import SqlJmsSource
from triggers.spark.sources.log import EntriesLostError
from triggers.spark.sources.sqljms import SqlJmsLog, SqlJmsLogSettings

Open = Callable[..., SqlJmsLog]

READER = "spark:pipeline on queue://orders"


@pytest.fixture
def url(link_databases: Sequence[str]) -> str:
    return link_databases[0]


@pytest.fixture
def opened(url: str) -> Iterator[Open]:
    logs: list[SqlJmsLog] = []

    def make(destination: str = "queue://orders", **settings: Any) -> SqlJmsLog:
        told: dict[str, Any] = {"url": url, "subscription": "pipeline", "rows_of_a_span": 10, "patience": 0.0}
        position = Destination.parse(destination)
        logs.append(SqlJmsLog(SqlJmsLogSettings(destination=position, **(told | settings))))
        return logs[-1]

    yield make
    for log in logs:
        log.close()


@pytest.fixture
def provider(url: str) -> Iterator[SqlJms]:
    opened = SqlJms.from_url(f"{url}{'&' if '?' in url else '?'}lease=0.05")
    yield opened
    drive(opened.close())


@pytest.fixture
def admin(url: str) -> Iterator[Admin]:
    opened = Admin.from_url(url)
    yield opened
    drive(opened.close())


@pytest.mark.parametrize("destination", ["queue://orders", "orders", "topic://orders"])
def test_a_batch_that_is_planned_again_has_the_same_rows(
    provider: SqlJms, opened: Open, destination: str
) -> None:
    log = opened(destination)
    begin = log.begin()
    send(provider, destination, 25)

    positions = log.walk(begin, until=None, rows=14)
    first = read_uuids(log, begin, positions)
    drive(provider.send(destination, [Message(body="", uuid="urgent", priority=9)]))
    again = opened(destination)

    assert [position.count for position in positions] == [10, 14]
    assert first == [f"order-{number}" for number in range(14)]
    assert again.plan(again.begin(), positions[-1]) == positions
    assert read_uuids(again, begin, positions) == first
    assert read_uuids(log, positions[-1], log.walk(positions[-1], until=None, rows=None))[0] == "urgent"


def test_what_was_pinned_and_never_planned_comes_first(provider: SqlJms, opened: Open) -> None:
    send(provider, "queue://orders", 25)
    before = opened()
    start = before.walk(before.begin(), until=None, rows=10)[-1]
    before.walk(start, until=None, rows=10)

    restarted = opened()
    for log in (before, restarted):
        positions = log.walk(start, until=None, rows=10)
        assert [position.count for position in positions] == [20]
    positions = restarted.walk(start, until=None, rows=None)

    assert [position.count for position in positions] == [20, 25]
    assert read_uuids(restarted, start, positions) == [f"order-{number}" for number in range(10, 25)]


def test_a_lot_whose_answer_was_lost_is_not_pinned_twice(provider: SqlJms, url: str) -> None:
    send(provider, "queue://orders", 3)
    link = SqlLink(open_engine(url, asyncio=False), owned=True)
    pins = Pins(Destination.parse("queue://orders"), "spark:pipeline", "line")
    drive(link.run("beginning", partial(take_over, pins=pins), atomic=True))
    work = partial(pin, pins=pins, after=0, until=2**50, limit=2)

    first = drive(link.run("pinning", work, atomic=True))
    again = drive(link.run("pinning", partial(work, again=True), atomic=True))

    assert first == again == Lot(1, 2)
    drive(link.close())


def test_what_is_processed_is_taken_out_and_nothing_else(
    provider: SqlJms, opened: Open, admin: Admin
) -> None:
    log = opened("topic://orders")
    begin = log.begin()
    others = drive(provider.open_receiver("topic://orders", subscription="others", name="a"))
    send(provider, "topic://orders", 25)
    positions = log.walk(begin, until=None, rows=20)

    log.hold(positions[0])

    assert {position.subscription: position.messages for position in drive(admin.subscriptions())} == {
        "spark:pipeline": 15,
        "others": 25,
    }
    restarted = opened("topic://orders")
    assert read_uuids(restarted, positions[1], restarted.walk(positions[1], until=None, rows=None)) == [
        f"order-{number}" for number in range(20, 25)
    ]
    assert [position.messages for position in drive(admin.subscriptions("orders"))] == [25, 5]
    drive(others.close())


def test_a_lower_id_that_is_committed_later_is_not_skipped(provider: SqlJms, opened: Open, url: str) -> None:
    log = opened()
    begin = log.begin()
    send(provider, "queue://orders", 1)  # reserves a block of ids
    another = SqlJms.from_url(url)
    send(another, "queue://orders", 1, first=1)
    first = log.walk(begin, until=None, rows=None)
    send(provider, "queue://orders", 1, first=2)
    drive(another.close())

    second = log.walk(first[-1], until=None, rows=None)

    assert read_uuids(log, begin, [*first, *second]) == ["order-0", "order-1", "order-2"]


def test_what_is_not_due_or_has_expired_is_not_pinned(provider: SqlJms, opened: Open, admin: Admin) -> None:
    log = opened()
    begin = log.begin()
    later = Message(body="", uuid="later", delivery_time=datetime.now(UTC) + timedelta(hours=1))
    gone = Message(body="", uuid="gone", expiration=datetime.now(UTC) - timedelta(hours=1))
    drive(provider.send("queue://orders", [later, gone]))

    nothing = log.walk(begin, until=None, rows=None)
    drive(admin.release_now("queue://orders"))

    assert nothing == []
    assert read_uuids(log, begin, log.walk(begin, until=None, rows=None)) == ["later"]
    assert [position.messages for position in drive(admin.queues())] == [1]


def test_a_target_bounds_what_is_pinned(provider: SqlJms, opened: Open) -> None:
    log = opened()
    begin = log.begin()
    send(provider, "queue://orders", 3)
    target = log.end()
    while log.end() == target:
        pass
    send(provider, "queue://orders", 3, first=3)

    positions = log.walk(begin, until=target, rows=None)

    assert read_uuids(log, begin, positions) == ["order-0", "order-1", "order-2"]
    assert log.walk(positions[-1], until=target, rows=None) == []


def test_neither_a_reaper_nor_a_reset_takes_what_is_pinned(
    provider: SqlJms, opened: Open, admin: Admin
) -> None:
    send(provider, "queue://orders", 3)
    log = opened()
    begin = log.begin()
    positions = log.walk(begin, until=None, rows=None)
    log.close()

    other = drive(provider.open_receiver("queue://orders", subscription="s", name="a"))
    stolen = drive(other.receive(10, timedelta(seconds=0.2)))
    with pytest.raises(HeldError):
        drive(admin.reset(READER))

    assert stolen == []
    assert read_uuids(opened(), begin, positions) == ["order-0", "order-1", "order-2"]
    drive(other.close())


def test_what_is_given_back_by_force_is_an_error(provider: SqlJms, opened: Open, admin: Admin) -> None:
    send(provider, "queue://orders", 3)
    log = opened()
    begin = log.begin()
    positions = log.walk(begin, until=None, rows=2)
    drive(admin.reset(READER, force=True))

    with pytest.raises(EntriesLostError, match="2 of 2 entries"):
        read_uuids(log, begin, positions)
    with pytest.raises(EntriesLostError, match="2 entries of the batch"):
        opened().plan(begin, positions[-1])
    with pytest.raises(EntriesLostError, match=r"was given back, or another query .* failOnDataLoss"):
        log.walk(positions[-1], until=None, rows=None)
    tolerant = opened(fail_on_loss=False)
    found = tolerant.walk(positions[-1], until=None, rows=None)
    assert read_uuids(tolerant, positions[-1], found) == ["order-0", "order-1", "order-2"]
    assert opened(fail_on_loss=False).plan(positions[-1], found[-1]) == found


def test_a_single_entry_that_was_taken_away_is_missed(provider: SqlJms, opened: Open, admin: Admin) -> None:
    send(provider, "queue://orders", 3)
    log = opened()
    begin = log.begin()
    positions = log.walk(begin, until=None, rows=None)
    drive(admin.delete("queue://orders", [drive(admin.entries("queue://orders"))[1].id], force=True))

    with pytest.raises(EntriesLostError, match="1 entries of the batch"):
        log.plan(begin, positions[-1])
    with pytest.raises(EntriesLostError, match="1 of 3 entries"):
        read_uuids(log, begin, positions)


def test_a_new_query_of_the_name_gets_what_was_pinned_and_the_old_one_finds_out(
    provider: SqlJms, opened: Open
) -> None:
    send(provider, "queue://orders", 3)
    old = opened()
    position = old.walk(old.begin(), until=None, rows=2)[-1]

    new = opened()
    begin = new.begin()
    found = new.walk(begin, until=None, rows=None)

    assert read_uuids(new, begin, found) == ["order-0", "order-1", "order-2"]
    with pytest.raises(EntriesLostError, match="another query has this name"):
        old.walk(position, until=None, rows=None)
    old.hold(position)
    assert read_uuids(opened(), begin, found) == ["order-0", "order-1", "order-2"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscription": ""}, "has no subscription"),
        ({"destination": "topic://orders?durable=no"}, "keeps nothing"),
        ({"startingOffsets": "latest"}, "has no latest"),
        ({"url": "redis://127.0.0.1"}, "cannot use redis"),
    ],
    ids=["subscription", "durable", "latest", "url"],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str], words: str) -> None:
    told = {"url": "sqlite://", "destination": "queue://orders", "subscription": "pipeline"} | options

    with pytest.raises(ConfigurationError, match=words):
        SqlJmsSource(told).log().begin()


def test_a_queue_is_no_table() -> None:
    source = SqlJmsSource({"url": "sqlite://", "destination": "orders", "subscription": "pipeline"})

    with pytest.raises(ConfigurationError, match="by streams alone"):
        source.reader(source.schema())


def send(provider: SqlJms, destination: str, count: int, *, first: int = 0) -> None:
    drive(provider.send(destination, orders(count, first=first)))
