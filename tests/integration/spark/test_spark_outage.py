"""The Redis of the history is killed in the middle of a batch and comes back later.

With ``DOUBTLESS_FULL=1`` it stays away for twenty seconds, and the batches are large.
"""

import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from history import ParkedKind, open_history
from history.bridge import drive
from tests.fixtures.histories import with_store
from tests.fixtures.scale import ONLY_IN_FULL, sized
from tests.fixtures.servers.spark import SPARK_EDGES
from tests.fixtures.waiting import eventually
from tests.integration.helpers.file_streams import FileStream, orders
from triggers.spark import ForeachBatch, foreach_batch
from triggers.spark.batch.batch import BatchStep
from triggers.testing.redis_server import RedisServer

pytestmark = [SPARK_EDGES, pytest.mark.prove, pytest.mark.timeout(600)]

#: How long the server is away, in seconds.
AWAY = sized(2, full=20)

#: A run without an end is presumed alive for this time if its rows come again.
LEASE = timedelta(seconds=3)

#: The rows of each of three micro-batches. A third of them is also in the batch before.
ROWS = sized(300, full=60_000)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> FileStream:
    stream = FileStream(spark, tmp_path)
    for batch in range(3):
        stream.add(orders([f"order-{number + batch * ROWS * 2 // 3}" for number in range(ROWS)]))
    return stream


class Strike:
    """Kills the server once, when the second micro-batch is at a step, and starts it again later."""

    def __init__(self, server: RedisServer, step: BatchStep, *, claiming: bool = False) -> None:
        self._server, self._step = server, step
        self._back = threading.Timer(AWAY, server.start)
        self._killer = threading.Thread(target=self._kill_once_claimed if claiming else self._kill)
        self._seen = 0

    @contextmanager
    def on(self, load: ForeachBatch) -> Generator[None]:
        """Strike while a query runs."""
        load.observe = self._observe
        yield
        load.observe = None
        assert self._seen >= 2, "the step was reached"
        self._killer.join()
        self._back.join()

    def _observe(self, reached: BatchStep) -> None:
        self._seen += reached is self._step
        if reached is self._step and self._seen == 2:
            self._killer.start()
            if self._step is not BatchStep.BEGUN:
                self._killer.join()

    def _kill(self) -> None:
        self._server.kill()
        self._back.start()

    def _kill_once_claimed(self) -> None:
        """Wait until the executors have claimed a row, and kill the server while they go on."""
        eventually(lambda: with_store(self._server.url, lambda store: store.stats("load")).started)
        self._kill()


@pytest.fixture
def make(private_redis: RedisServer, tmp_path: Path) -> Callable[..., ForeachBatch]:
    def make(**more: Any) -> ForeachBatch:
        @foreach_batch("orders", name="load", uuid="uuid", history=private_redis.url, **more)
        def load(new: DataFrame, _: int) -> None:
            new.select("uuid").write.mode("append").json(str(tmp_path / "effects"))

        return load

    return make


def _effects(stream: FileStream) -> Counter[str]:
    found = stream.spark.read.schema("uuid string").json(str(stream.folder / "effects"))
    return Counter(row.uuid for row in found.collect())


_EVERY = {f"order-{number}": 1 for number in range(ROWS + 2 * (ROWS * 2 // 3))}


_BETWEEN = (
    pytest.param(BatchStep.CLAIMED, marks=ONLY_IN_FULL),
    pytest.param(BatchStep.ENTERED, marks=ONLY_IN_FULL),
)


@pytest.mark.parametrize("step", [BatchStep.BEGUN, *_BETWEEN, BatchStep.RUN])
def test_a_query_waits_for_its_history(
    stream: FileStream, make: Callable[..., ForeachBatch], private_redis: RedisServer, step: BatchStep
) -> None:
    load = make()
    with Strike(private_redis, step, claiming=step is BatchStep.BEGUN).on(load):
        stream.run(load)

    assert _effects(stream) == _EVERY
    assert sum(one.new for one in load.reports) == len(_EVERY)
    assert sum(one.duplicate for one in load.reports) == 2 * (ROWS - ROWS * 2 // 3)


@pytest.mark.parametrize("step", [BatchStep.BEGUN, _BETWEEN[0]])
def test_a_query_that_lost_patience_before_the_function_loses_nothing(
    stream: FileStream, make: Callable[..., ForeachBatch], private_redis: RedisServer, step: BatchStep
) -> None:
    load = make(patience=timedelta(seconds=0.5))
    strike = Strike(private_redis, step, claiming=step is BatchStep.BEGUN)
    with strike.on(load), pytest.raises(StreamingQueryException, match="history"):
        stream.run(load)

    stream.run(make())

    assert _effects(stream) == _EVERY


def test_a_query_that_lost_patience_after_the_function_parks_what_may_be_done(
    stream: FileStream, make: Callable[..., ForeachBatch], private_redis: RedisServer
) -> None:
    load = make(patience=timedelta(seconds=0.5), lease=LEASE)
    with Strike(private_redis, BatchStep.RUN).on(load), pytest.raises(StreamingQueryException):
        stream.run(load)

    stream.run(make(lease=LEASE))

    assert _effects(stream) == _EVERY
    store = open_history(private_redis.url)
    parked, some = drive(store.parking.count()), drive(store.parking.list(limit=100))
    drive(store.close())
    assert parked == ROWS * 2 // 3
    assert {one.kind for one in some} == {ParkedKind.IN_DOUBT}
