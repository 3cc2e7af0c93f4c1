"""Identities that change each time Spark computes them are refused before a row is claimed."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from tests.fixtures.servers.redis import connected
from tests.fixtures.servers.spark import SPARK
from tests.integration.helpers.batches import Batches, fixed
from tests.integration.helpers.file_streams import FileStream, orders
from triggers import ConfigurationError, TransientError, trigger
from triggers.spark import BatchInfo, ForeachBatch, foreach_batch, handler
from triggers.spark.atomic_sink import atomic_sink, into_table
from triggers.spark.batch.batch import BatchStep
from triggers.spark.batch.ledger import QueryIdentity

pytestmark = SPARK


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> FileStream:
    files = FileStream(spark, tmp_path)
    files.add(orders(["a", "b"]))
    return files


def ignore(new: DataFrame, batch_id: int) -> None: ...


def made(url: str, **more: Any) -> ForeachBatch:
    return foreach_batch("orders", name="load", uuid="uuid", history=url, **more)(ignore)


Change = Callable[[DataFrame], DataFrame]


def by(expression: str) -> Change:
    def change(rows: DataFrame) -> DataFrame:
        return rows.withColumn("uuid", F.expr(expression))

    return change


def by_user(rows: DataFrame) -> DataFrame:
    drawn: Any = F.udf(cast("Any", str.upper), "string")
    return rows.withColumn("uuid", drawn.asNondeterministic()("body"))


def with_drawn(rows: DataFrame) -> DataFrame:
    return rows.withColumn("drawn", F.rand())


def by_drawn(rows: DataFrame) -> DataFrame:
    return by("concat('u', drawn)")(with_drawn(rows))


def some(rows: DataFrame) -> DataFrame:
    return rows.where("rand() < 0.5")


def exploded(rows: DataFrame) -> DataFrame:
    return rows.withColumn("uuid", F.explode(F.array(F.expr("uuid()"))))


REFUSED: dict[str, Change] = {
    "uuid": by("uuid()"),
    "within": by("concat('u', rand())"),
    "number": by("monotonically_increasing_id()"),
    "partition": by("concat(spark_partition_id(), uuid)"),
    "shuffle": by("concat_ws('', shuffle(array('a', 'b')))"),
    "function": by_user,
    "before": by_drawn,
    "rows": some,
    "exploded": exploded,
}

ACCEPTED: dict[str, Change] = {
    "column": by("uuid"),
    "another column": with_drawn,
    "file": by("concat(input_file_name(), uuid)"),
    "digest": by("sha2(concat_ws(':', uuid, body), 256)"),
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_a_stream_with_an_identity_that_is_drawn_is_refused(
    files: FileStream, redis_url: str, change: Change
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        made(redis_url).write_stream(change(files.read()))

    assert refused.value.setting == "uuid"


def test_a_message_id_is_an_identity_too(files: FileStream, redis_url: str) -> None:
    stream = files.read().withColumn("JMSMessageID", F.expr("uuid()"))

    with pytest.raises(ConfigurationError):
        made(redis_url, message_id="JMSMessageID").write_stream(stream)


def test_an_atomic_sink_refuses_it_too(files: FileStream, tmp_path: Path) -> None:
    table = into_table("bookings", columns=["uuid"])
    sink = atomic_sink(
        "orders", name="book", uuid="uuid", history=f"sqlite:///{tmp_path / 'h.db'}", write=table
    )

    with pytest.raises(ConfigurationError):
        sink.write_stream(by("uuid()")(files.read()))


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=ACCEPTED)
def test_a_stream_that_comes_again_the_same_runs(files: FileStream, redis_url: str, change: Change) -> None:
    load = made(redis_url)
    query = load.write_stream(change(files.read())).trigger(availableNow=True)

    query.option("checkpointLocation", str(files.folder / "checkpoint")).start().awaitTermination()

    assert load.reports[-1].new == 2


def test_a_plain_foreach_batch_refuses_the_plan_of_its_query(files: FileStream, redis_url: str) -> None:
    load = made(redis_url)
    query = by("uuid()")(files.read()).writeStream.foreachBatch(load).trigger(availableNow=True)
    query = query.option("checkpointLocation", str(files.folder / "checkpoint"))

    with pytest.raises(Exception, match="ConfigurationError"):
        query.start().awaitTermination()

    assert not load.reports


def test_an_identity_that_is_drawn_inside_of_the_batch_is_refused(
    spark: SparkSession, redis_url: str
) -> None:
    batches = Batches(spark, redis_url)

    with pytest.raises(ConfigurationError):
        batches.make(ignore)(by("uuid()")(batches.rows(["a"])), 7)


class TestABatchThatComesAgain:
    """A repeated batch has other identities than its earlier run, for any reason."""

    def test_is_refused_before_the_function_has_its_rows_twice(
        self, spark: SparkSession, redis_url: str
    ) -> None:
        batches = Batches(spark, redis_url)
        batches.run_and_die(BatchStep.RUN, ["a", "b", "same"])
        assert batches.take() == ["a", "b", "same"]

        for _ in range(2):
            with pytest.raises(ConfigurationError, match=r"handed over 3 rows; 2 or more .* not come again"):
                batches.run(["c", "d", "same"])
        assert batches.take() == []

        assert batches.run(["a", "b", "same"]).in_doubt == 3
        assert batches.run(["c", "d"], batch_id=8).new == 2, "their claims were given back"

    @pytest.mark.parametrize("anew", [True, False], ids=["on_replay", "committed"])
    def test_is_said_where_the_sink_is_written_anew(
        self, spark: SparkSession, redis_url: str, caplog: pytest.LogCaptureFixture, *, anew: bool
    ) -> None:
        settings: dict[str, Any] = {"on_replay": "execute"} if anew else {"committed": no}
        batches = Batches(spark, redis_url)
        batches.run_and_die(BatchStep.RUN, ["a", "b"], **settings)
        batches.take()

        batches.run(["c", "d"], **settings)

        assert batches.take() == ["c", "d"]
        (line,) = [
            one for one in caplog.records if one.levelname == "CRITICAL" and "come again" in one.message
        ]
        assert "has other identities each time" in line.message

    def test_is_said_where_the_sink_has_it_already_and_its_rows_are_in_doubt(
        self, spark: SparkSession, redis_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        batches = Batches(spark, redis_url)
        batches.run_and_die(BatchStep.RUN, ["a", "b"], committed=yes)
        batches.take()

        assert (batches.take(), batches.run(["c", "d"], committed=yes).in_doubt) == ([], 2)
        assert [one for one in caplog.records if one.levelname == "CRITICAL" and "come again" in one.message]

    def test_with_fewer_rows_or_more_rows_goes_on(self, spark: SparkSession, redis_url: str) -> None:
        batches = Batches(spark, redis_url)
        batches.run_and_die(BatchStep.RUN, ["a", "b"])

        assert batches.run(["a"]).in_doubt == 1
        assert batches.run(["a", "b", "c"]).new == 1

    def test_after_its_function_failed_transiently_may_have_other_rows(
        self, spark: SparkSession, redis_url: str
    ) -> None:
        batches = Batches(spark, redis_url)

        def fail() -> None:
            raise TransientError("the sink is away")

        with pytest.raises(TransientError):
            batches.run(["a", "b"], fail)

        assert batches.run(["c", "d"]).new == 2


class TestAfterAnOlderStateOfTheCheckpointWasRestored:
    """The batches begin again with a lower number, and may contain different rows."""

    @pytest.fixture(autouse=True)
    def of_a_query(self, monkeypatch: pytest.MonkeyPatch) -> None:
        identity = QueryIdentity("q", str(uuid4()), "q")

        def identity_of(_batch: DataFrame, _name: str | None) -> QueryIdentity:
            return identity

        monkeypatch.setattr(handler, "identity_of", identity_of)

    def test_batches_go_on_with_other_rows(self, spark: SparkSession, redis_url: str) -> None:
        batches = Batches(spark, redis_url)
        for batch_id, uuid in enumerate("abc"):
            batches.run([uuid], batch_id=batch_id)

        again = batches.run(["b", "c"], batch_id=1)
        report = batches.run(["d", "e"], batch_id=2)

        assert (again.duplicate, report.new, batches.take()) == (2, 2, ["a", "b", "c", "d", "e"])
        with pytest.raises(ConfigurationError, match="has other identities each time"):
            batches.run(["f", "g"], batch_id=2)  # Spark repeats its last batch unchanged

    def test_a_sink_that_is_written_anew_loses_no_row(self, spark: SparkSession, redis_url: str) -> None:
        batches, sink = Batches(spark, redis_url), dict[int, list[str]]()

        def run(uuids: str, batch_id: int) -> None:
            def write() -> None:
                sink[batch_id] = batches.take()

            batches.run(list(uuids), write, batch_id=batch_id, on_replay="execute")

        for batch_id, uuid in enumerate("abc"):
            run(uuid, batch_id)
        run("bc", 1)
        for _ in range(2):
            with pytest.raises(ConfigurationError) as refused:
                run("de", 2)
            assert refused.value.setting == "checkpoint"
        run("cde", 2)

        assert sink == {0: ["a"], 1: ["b"], 2: ["c", "d", "e"]}

    def test_an_atomic_sink_writes_other_rows(self, spark: SparkSession, tmp_path: Path) -> None:
        shop = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
        shop.execute("CREATE TABLE bookings (uuid TEXT)")
        url, table = f"sqlite:///{tmp_path / 'shop.db'}", into_table("bookings", columns=["uuid"])
        sink = atomic_sink("orders", name="book", uuid="uuid", history=url, write=table)

        for batch_id, uuids in ((0, "a"), (1, "b"), (2, "c"), (1, "bc"), (2, "de")):
            sink(fixed(spark, [(uuid,) for uuid in uuids], "uuid string"), batch_id)

        booked = shop.execute("SELECT uuid FROM bookings ORDER BY uuid").fetchall()
        assert booked == [("a",), ("b",), ("c",), ("d",), ("e",)]


class TestRowsThatAreProcessedOneByOne:
    """A batch comes again with other identities, to an atomic sink or to a trigger's service."""

    def test_an_atomic_sink_refuses_them_and_writes_nothing(self, files: FileStream, tmp_path: Path) -> None:
        shop = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
        shop.execute("CREATE TABLE bookings (uuid TEXT)")
        sink = atomic_sink(
            "orders",
            name="book",
            uuid="uuid",
            history=f"sqlite:///{tmp_path / 'shop.db'}",
            write=into_table("bookings", columns=["uuid"]),
        )

        def write(batch: DataFrame, batch_id: int) -> None:
            sink(drawn_in_python(batch), batch_id)
            raise RuntimeError("the driver dies")

        for problem in ("the driver dies", "ConfigurationError"):
            query = files.read().writeStream.foreachBatch(write).trigger(availableNow=True)
            with pytest.raises(StreamingQueryException, match=problem):
                query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

        assert shop.execute("SELECT count(*) FROM bookings").fetchone() == (2,)

    def test_a_service_is_not_called_for_them(self, spark: SparkSession, redis_url: str) -> None:
        @trigger("orders", name="book", history=redis_url, on_retry_failure="suspend")
        def book(body: str) -> None:
            with connected(redis_url) as client:
                client.rpush("booked", body)
                if body == "closed" and client.llen("booked") <= 3:
                    raise TransientError("the bank is closed")

        service = book.foreach_batch(uuid="uuid", body="body", query="q")

        def run(*uuids: str) -> None:
            bodies = ["a", "b", "closed"]
            service(fixed(spark, list(zip(uuids, bodies, strict=True)), "uuid string, body string"), 7)

        with pytest.raises(TransientError, match="must come again"):
            run("u-1", "u-2", "u-3")
        with pytest.raises(ConfigurationError) as refused:
            run("v-1", "v-2", "v-3")
        run("u-1", "u-2", "u-3")

        assert refused.value.setting == "uuid"
        with connected(redis_url) as client:
            assert sorted(client.lrange("booked", 0, -1)) == [b"a", b"b", b"closed", b"closed"]
        assert (service.reports[-1].new, service.reports[-1].duplicate) == (1, 2)


def drawn_in_python(rows: DataFrame) -> DataFrame:
    """Draw identities in a function that looks deterministic: Spark's plan does not show the change."""
    draw: Callable[[object], str] = lambda _: uuid4().hex  # noqa: E731  (Spark warns of the hints of a def)
    return rows.withColumn("uuid", cast("Any", F.udf(cast("Any", draw), "string"))("body"))


def yes(_batch: BatchInfo) -> bool:
    return True


def no(_batch: BatchInfo) -> bool:
    return False
