"""Services run several rows of a task in parallel, in threads or on an event loop."""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from history import ConfigurationError, ParkedKind
from tests.fixtures.histories import with_store
from tests.fixtures.servers.redis import connected
from tests.fixtures.servers.spark import SPARK
from tests.integration.helpers.orders import frame
from triggers import FatalError, TransientError, trigger

pytestmark = SPARK

AT_ONCE = 4

#: A service waits so many seconds for the other services that must run with it.
PATIENCE = 30.0


def rows(spark: SparkSession, *uuids: str) -> DataFrame:
    return frame(spark, [(one, one) for one in uuids], "uuid string, value string")


def names(count: int) -> list[str]:
    return [f"u-{number:02}" for number in range(count)]


class Meeting:
    """A place in Redis where services meet: each waits until ``AT_ONCE`` of them are inside."""

    def __init__(self, url: str) -> None:
        self.url = url

    def enter(self, uuid: str) -> None:
        with connected(self.url) as client:
            client.rpush("ran", uuid)
            client.incr("inside")

    def is_complete(self) -> bool:
        with connected(self.url) as client:
            return int(client.get("inside") or 0) >= AT_ONCE

    def ran(self) -> list[str]:
        with connected(self.url) as client:
            return sorted(one.decode() for one in client.lrange("ran", 0, -1))


@pytest.fixture
def meeting(redis_url: str) -> Meeting:
    return Meeting(redis_url)


def booking(meeting: Meeting, *, is_async: bool, **options: Any) -> Any:
    """Return a trigger. Its service waits until other rows run at the same time."""
    deadline = PATIENCE

    def refuse_late(since: float) -> None:
        if time.monotonic() > since + deadline:
            raise FatalError("it ran alone")

    def book(value: str) -> None:
        since = time.monotonic()
        meeting.enter(value)
        while not meeting.is_complete():
            refuse_late(since)
            time.sleep(0.02)

    async def book_async(value: str) -> None:
        since = time.monotonic()
        meeting.enter(value)
        while not meeting.is_complete():
            refuse_late(since)
            await asyncio.sleep(0.02)

    made = trigger("orders", name="book", history=meeting.url, concurrency=AT_ONCE, **options)
    return made(book_async if is_async else book)


@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "event loop"])
def test_rows_of_one_task_run_beside_each_other(
    spark: SparkSession, meeting: Meeting, *, is_async: bool
) -> None:
    book = booking(meeting, is_async=is_async)
    service = book.foreach_batch(uuid="uuid", body="value", query="q", partitions=1)

    for batch_id in range(2):
        service(rows(spark, *names(12), *names(3)), batch_id)

    assert [(one.new, one.duplicate, one.rejected) for one in service.reports] == [(12, 3, 0), (0, 15, 0)]
    assert meeting.ran() == names(12)


@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "event loop"])
def test_a_failure_touches_its_own_row_only(
    spark: SparkSession, meeting: Meeting, redis_url: str, *, is_async: bool
) -> None:
    def happen(value: str) -> None:
        meeting.enter(value)
        with connected(redis_url) as client:
            if value == "u-03":
                raise FatalError("no such order")
            if value == "u-05" and not client.exists("bank is open"):
                raise TransientError("the bank is closed")

    def book(value: str) -> None:
        happen(value)

    async def book_async(value: str) -> None:
        await asyncio.sleep(0)
        happen(value)

    made = trigger("orders", name="book", history=redis_url, concurrency=AT_ONCE, on_retry_failure="suspend")
    chosen: Callable[..., Any] = book_async if is_async else book
    service = made(chosen).foreach_batch(uuid="uuid", body="value", query="q", partitions=1)
    batch = rows(spark, *names(20))

    with pytest.raises(TransientError, match="1 rows of batch 0 are undecided"):
        service(batch, 0)
    with connected(redis_url) as client:
        client.set("bank is open", 1)
    service(batch, 0)

    assert meeting.ran() == sorted([*names(20), "u-05"])
    assert +service.counts.by_query()["q"] == {"new": 19, "duplicate": 19, "rejected": 1}


@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "event loop"])
def test_a_service_that_ends_its_process_leaves_its_row_in_doubt_and_the_others_as_they_are(
    spark: SparkSession, meeting: Meeting, redis_url: str, *, is_async: bool
) -> None:
    def happen(value: str) -> None:
        meeting.enter(value)
        if value == "u-00":
            sys.exit(3)

    def book(value: str) -> None:
        happen(value)

    async def book_async(value: str) -> None:
        happen(value)

    made = trigger("orders", name="book", history=redis_url, concurrency=AT_ONCE, lease=None)
    chosen: Callable[..., Any] = book_async if is_async else book
    service = made(chosen).foreach_batch(uuid="uuid", body="value", query="q", partitions=1)
    batch = rows(spark, *names(40))

    with pytest.raises(Exception, match=r"SystemExit|Python worker exited|EOF"):
        service(batch, 0)
    service(batch, 0)

    ran = meeting.ran()
    assert ran == sorted(set(ran)), "no row has run twice"
    report = service.reports[-1]
    assert report.rows == 40
    assert report.new + report.duplicate + report.in_doubt == 40
    parked = with_store(redis_url, lambda store: store.parking.list())
    assert "u-00" in {one.uuid for one in parked}
    assert {one.kind for one in parked} == {ParkedKind.IN_DOUBT}
    assert set(ran) | {one.uuid for one in parked} == set(names(40)), "nothing is lost"


@pytest.mark.parametrize("per_second", [0, "fast"])
def test_a_pace_that_is_none_is_refused(redis_url: str, per_second: Any) -> None:
    @trigger("orders", name="paced", history=redis_url)
    def work(value: str) -> None: ...

    with pytest.raises(ConfigurationError) as error:
        work.foreach_batch(uuid="uuid", body="value", calls_per_second=per_second)

    assert error.value.setting == "calls_per_second"


@pytest.mark.parametrize("concurrency", [1, AT_ONCE])
def test_calls_of_a_task_begin_at_the_pace_that_is_asked_for(
    spark: SparkSession, redis_url: str, concurrency: int
) -> None:
    @trigger("orders", name=f"paced-{concurrency}", history=redis_url, concurrency=concurrency)
    def work(body: str) -> None:
        with connected(redis_url) as client:
            client.rpush("began", str(time.monotonic()))

    service = work.foreach_batch(uuid="uuid", body="value", query="q", partitions=1, calls_per_second=20)
    service(rows(spark, *names(6)), 0)

    with connected(redis_url) as client:
        began = sorted(float(one) for one in client.lrange("began", 0, -1))
    assert len(began) == 6
    assert began[-1] - began[0] >= 0.9 * 5 / 20
