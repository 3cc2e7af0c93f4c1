"""The type of a column decides the identity of a row. Rows without an identity do not stop the others."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from history import ConfigurationError, EntryOutcome, Parked, ParkedKind
from history.identity import LONGEST, canonical
from resolvers import Resolution
from resolvers.effect_exists import spark_rows_exist
from tests.fixtures.databases import asked
from tests.fixtures.histories import with_store
from tests.fixtures.servers.redis import connected
from tests.fixtures.servers.spark import SPARK_EDGES
from tests.integration.helpers.file_streams import FileStream, orders
from triggers import Message, RetrievalFailureEvent, on_retrieval_failure, trigger
from triggers.spark import BatchReport, ForeachBatch, foreach_batch
from triggers.spark.atomic_sink.sink import AtomicSink, atomic_sink, into_table

pytestmark = [SPARK_EDGES, pytest.mark.prove]

LONG = "x" * (LONGEST // 2)

#: Bytes that are text, and their identities.
TEXTS = {b"good": "good", b"caf\xc3\xa9": "café", b"\x00\x00\x00A": "\0\0\0A", LONG.encode(): LONG}

#: Bytes that are not text: not UTF-8, cut in the middle, a lone surrogate, too many for one character.
BROKEN = [b"\xff\xfe", b"caf\xc3", b"\xed\xa0\x80", b"\xc0\x80"]


def rows(spark: SparkSession, uuids: Sequence[bytes | None], uuid: str = "key", **more: str) -> DataFrame:
    """Return rows with these bytes as ``key``, and ``uuid`` as the expression says."""
    told = ", ".join("(NULL)" if one is None else f"(X'{one.hex()}')" for one in uuids)
    columns = {"uuid": uuid, "body": "'body'", **more}
    keyed = spark.sql(f"SELECT key FROM VALUES {told} AS t (key)")  # noqa: S608  (hexadecimal)
    return keyed.selectExpr(*(f"{value} AS {name}" for name, value in columns.items()))


class Sinks:
    """The three ways to process a batch, over one history."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.batch_id = 0

    def load(self, **settings: Any) -> ForeachBatch:
        def load(new: DataFrame, _: int) -> None:
            new.write.format("noop").mode("overwrite").save()

        given: dict[str, Any] = {
            "uuid": "uuid",
            "history": self.url,
            "name": "book",
            "query": "q",
            **settings,
        }
        return foreach_batch("orders", **given)(load)

    def run(self, frame: DataFrame, **settings: Any) -> BatchReport:
        made = self.load(**settings)
        made(frame, self.batch_id)
        self.batch_id += 1
        return made.reports[-1]

    def outcomes(self, *uuids: str) -> list[EntryOutcome | None]:
        entries = with_store(self.url, lambda store: store.lookup("book", uuids))
        return [None if entry is None else entry.outcome for entry in entries]

    def parked(self) -> Sequence[Parked]:
        return with_store(self.url, lambda store: store.parking.list())


@pytest.fixture
def sinks(redis_url: str) -> Sinks:
    return Sinks(redis_url)


def test_bytes_have_the_identity_that_other_doors_give_them(spark: SparkSession, sinks: Sinks) -> None:
    keys = list(TEXTS)

    first = sinks.run(rows(spark, keys))
    as_message_id = sinks.run(
        rows(spark, keys, "CAST(NULL AS STRING)", message_id="key"), message_id="message_id"
    )
    as_text = sinks.run(rows(spark, keys, "CAST(key AS STRING)"))

    assert (first.new, as_message_id.duplicate, as_text.new) == (4, 4, 4)
    identities = [canonical(key) or "" for key in keys]
    assert sinks.outcomes(*identities, *TEXTS.values()) == [EntryOutcome.OK] * 8


def test_bytes_that_are_no_text_are_their_hexadecimal(spark: SparkSession, sinks: Sinks) -> None:
    report = sinks.run(rows(spark, [*BROKEN, BROKEN[0]]))

    assert (report.new, report.duplicate) == (4, 1)
    assert sinks.outcomes("fffe", "636166c3", "eda080", "c080") == [EntryOutcome.OK] * 4
    assert sinks.run(rows(spark, BROKEN, "lower(hex(key))")).duplicate == 4


def test_bytes_are_found_in_the_table_of_effects(spark: SparkSession, sinks: Sinks) -> None:
    with_store(sinks.url, lambda store: store.claim("book", ["ff00", "61"], "a worker that died"))
    effects = rows(spark, [b"\xff\x00"], "key").withColumnRenamed("uuid", "i`d")

    report = sinks.run(
        rows(spark, [b"\xff\x00", b"a"], "key"), resolver=spark_rows_exist(lambda: effects, "i`d")
    )

    assert (report.new, report.duplicate) == (1, 1)
    assert sinks.outcomes("61") == [EntryOutcome.OK]


def test_a_number_and_its_text_are_one_identity(spark: SparkSession, sinks: Sinks) -> None:
    numbers = spark.sql("SELECT CAST(id - 3 AS BIGINT) AS uuid FROM range(5)")

    assert sinks.run(numbers).new == 5
    collated = ["STRING COLLATE UTF8_LCASE"] if spark.version >= "4" else []
    for kind in ("STRING", "SMALLINT", "DECIMAL(38, 0)", *collated):
        assert sinks.run(numbers.selectExpr(f"CAST(uuid AS {kind}) AS uuid")).duplicate == 5
    assert sinks.outcomes("-3", "0", "1") == [EntryOutcome.OK] * 3


def test_texts_that_a_collation_takes_for_one_are_two_identities(spark: SparkSession, sinks: Sinks) -> None:
    if spark.version < "4":
        pytest.skip("Spark has collations since 4.0")
    cased = spark.sql("SELECT u COLLATE UTF8_LCASE AS uuid FROM VALUES ('a'), ('A'), ('a'), ('A') AS t (u)")

    report = sinks.run(cased)

    assert (report.new, report.duplicate) == (2, 2)


def test_an_instant_is_refused_before_anything_starts_and_its_microseconds_are_the_same_in_all_zones(
    spark: SparkSession, sinks: Sinks, tmp_path: Path
) -> None:
    stream = FileStream(spark, tmp_path, "uuid timestamp, body string")
    stream.add([{"uuid": "2026-01-01T00:00:00Z"}])
    load, sink = sinks.load(), _atomic(f"sqlite:///{tmp_path}/shop.sqlite3")
    service = _service(sinks.url).foreach_batch(uuid="uuid")

    for made in (load, sink, service):
        with pytest.raises(
            ConfigurationError, match=r"'uuid' is of type timestamp.*F\.unix_micros\('uuid'\)"
        ):
            made.write_stream(stream.read())
    with pytest.raises(Exception, match=r"'uuid' is of type timestamp.*F\.unix_micros\('uuid'\)"):
        stream.run(load)
    instants = spark.sql("SELECT unix_micros(TIMESTAMP '2026-01-01 00:00:00Z') AS uuid")
    assert sinks.run(instants).new == 1
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        assert sinks.run(instants).duplicate == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone or "UTC")


def test_a_uuid_that_is_no_utf_8_is_parked_as_unreadable_and_the_others_go_on(
    spark: SparkSession, sinks: Sinks
) -> None:
    heard: list[RetrievalFailureEvent] = []
    listening = on_retrieval_failure("book")(heard.append)
    keys = [*TEXTS, *BROKEN, b"", None]

    reports = [
        sinks.run(rows(spark, keys, "CAST(key AS STRING)", count="1"), delivery_count="count")
        for _ in range(2)
    ]
    listening.cancel()

    assert [(one.rows, one.new, one.duplicate, one.rejected) for one in reports] == [
        (10, 4, 0, 6),
        (10, 0, 4, 6),
    ]
    parked = sinks.parked()
    kinds = Counter(one.kind for one in parked)
    # Nobody can tell whether a row without an identity has come before.
    assert kinds == {ParkedKind.UNREADABLE: 4, ParkedKind.REJECTED: 2 * len(reports)}
    unreadable = [one for one in parked if one.kind is ParkedKind.UNREADABLE]
    assert {one.reason for one in unreadable} == {"its uuid is no UTF-8"}
    assert {one.raw["uuid"] for one in unreadable if one.raw} == {
        "base64://4=",
        "base64:Y2Fmww==",
        "base64:7aCA",
        "base64:wIA=",
    }
    assert len(heard) == 12


@pytest.mark.parametrize("kind", ["STRING", "BINARY"])
def test_a_uuid_of_a_megabyte_is_parked_and_the_others_go_on(
    spark: SparkSession, sinks: Sinks, kind: str
) -> None:
    longest = b"u" * (LONGEST if kind == "STRING" else LONGEST // 2)
    keys = [longest, longest + b"u", b"u" * 1_000_000, b"good"]

    report = sinks.run(rows(spark, keys, f"CAST(key AS {kind})", id="'the same'"), message_id="id")

    assert (report.new, report.rejected) == (2, 2)
    assert len(sinks.parked()) == 2
    assert all("characters are too many" in (one.reason or "") for one in sinks.parked())


def test_a_broken_uuid_does_not_fall_back_to_the_message_id(spark: SparkSession, sinks: Sinks) -> None:
    frame = rows(spark, [b"\xff", b"good"], "CAST(key AS STRING)", id="'the same'")

    report = sinks.run(frame, message_id="id")

    assert (report.new, report.rejected) == (1, 1)
    assert sinks.outcomes("good", "the same") == [EntryOutcome.OK, None]


def test_a_row_that_is_looked_at_again_may_hold_what_python_cannot(spark: SparkSession, sinks: Sinks) -> None:
    with_store(sinks.url, lambda store: store.claim("book", ["a", "b"], "a worker that died"))
    broken = "CAST(X'ff' AS STRING)"
    more = {
        "body": broken,
        "nested": f"array(struct({broken} AS text))",
        "at": "TIMESTAMP '10001-01-01 00:00:00'",
        "days": f"map(DATE '10001-01-01', {broken})",
    }

    whole = sinks.run(rows(spark, [b"a"], "CAST(key AS STRING)", **more))
    with_body = sinks.run(rows(spark, [b"b"], "CAST(key AS STRING)", **more), body="body")

    assert (whole.in_doubt, with_body.in_doubt) == (1, 1)
    parked = {one.uuid: one.message for one in sinks.parked()}
    first, second = parked["a"], parked["b"]
    assert first is not None
    assert second is not None
    assert isinstance(first.body, dict)
    assert (first.body["body"], first.body["nested"]) == ("\\xff", [{"text": "\\xff"}])
    assert second.body == b"\xff"


@pytest.fixture(params=["GMT+08:00", "Z"])
def odd_zone(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """Sets the session to a time zone that Spark knows and Python does not."""
    name = "spark.sql.session.timeZone"
    before = spark.conf.get(name) or "UTC"
    spark.conf.set(name, request.param)
    yield request.param
    spark.conf.set(name, before)


@pytest.mark.usefixtures("odd_zone")
def test_a_row_is_looked_at_again_in_whatever_time_zone(spark: SparkSession, sinks: Sinks) -> None:
    at = "TIMESTAMP '2026-01-02 03:04:05Z'"
    more = {"at": at, "nested": f"struct(array({at}) AS some)", "by": f"map({at}, {at})"}

    assert sinks.run(rows(spark, [None], "CAST(key AS STRING)", **more)).rejected == 1

    (parked,) = sinks.parked()
    assert parked.message is not None
    instant = "2026-01-02 03:04:05+00:00"
    assert parked.message.body == {
        "uuid": None,
        "body": "body",
        "at": instant,
        "nested": {"some": [instant]},
        "by": {instant: instant},
    }


@pytest.mark.parametrize("storage", ["memory_and_disk", "none"])
def test_a_row_is_looked_at_again_whatever_its_columns_are_called(
    spark: SparkSession, sinks: Sinks, storage: str
) -> None:
    kept: list[Row] = []

    def keep(rows: DataFrame, _: int) -> None:
        kept.extend(rows.collect())

    names = ("a.b", "c d", "e`f", "Doubtless_STATUS", "doubtless_reason")
    more = {f"`{name.replace('`', '``')}`": f"'{number}'" for number, name in enumerate(names)}

    report = sinks.run(
        rows(spark, [b"a", None], "CAST(key AS STRING)", **more), storage=storage, parked_to=keep
    )

    assert (report.new, report.rejected) == (1, 1)
    (parked,), (row,) = sinks.parked(), kept
    assert parked.message is not None
    assert parked.message.body == {
        "uuid": None,
        "body": "body",
        **{name: str(number) for number, name in enumerate(names)},
    }
    assert (row["a.b"], row["doubtless_status"]) == ("0", "REJECTED")
    assert row["doubtless_reason"] == parked.reason
    assert len({name.lower() for name in row.asDict()}) == len(row), "a table has no two such columns"


def test_a_row_is_looked_at_again_whatever_types_it_has(spark: SparkSession, sinks: Sinks) -> None:
    if spark.version < "4":
        pytest.skip("Spark 3.5 has no variants")
    with_store(sinks.url, lambda store: store.claim("book", ["a", "b"], "a worker that died"))
    given: list[Row] = []

    def resolve(uuid: str, trigger_name: str, message: Message) -> Resolution:
        return Resolution.NEW if uuid == "a" else Resolution.IN_DOUBT

    @foreach_batch("orders", name="book", uuid="uuid", history=sinks.url, query="q", resolver=resolve)
    def load(new: DataFrame, _: int) -> None:
        given.extend(new.selectExpr("uuid", "typeof(years) AS type", "months * 1 = months AS same").collect())

    more = {
        "years": "array(INTERVAL '1' YEAR)",
        "months": "INTERVAL '2' MONTH",
        "mixed": "make_interval(0, 1, 0, 2)",
        "any": """array(struct(parse_json('{"n": 1.5}') AS v))""",
    }
    load(rows(spark, [b"a", b"b"], "CAST(key AS STRING)", **more), 0)

    assert given == [Row(uuid="a", type="array<interval year>", same=True)]
    (parked,) = sinks.parked()
    assert parked.message is not None
    assert parked.message.body == {
        "uuid": "b",
        "body": "body",
        "years": ["INTERVAL '1' YEAR"],
        "months": "INTERVAL '2' MONTH",
        "mixed": "1 months 2 days",
        "any": [{"v": {"n": 1.5}}],
    }


def test_a_row_that_is_too_long_for_a_message_is_judged_and_rejected_as_others(
    spark: SparkSession, sinks: Sinks
) -> None:
    with_store(sinks.url, lambda store: store.claim("book", ["a"], "a worker that died"))
    frame = rows(spark, [b"a", b"b"], "CAST(key AS STRING)", wide="repeat('x', 300000)")

    def resolve(uuid: str, trigger_name: str, message: Message) -> Resolution:
        return Resolution.NEW

    def load(new: DataFrame, _: int) -> None:
        assert sorted(row.uuid for row in new.collect()) == ["a", "b"]
        raise ValueError("no such table")

    settings: dict[str, Any] = {"uuid": "uuid", "body": "body", "history": sinks.url, "query": "q"}
    made = foreach_batch("orders", name="book", resolver=resolve, on_fatal="reject", **settings)(load)
    made(frame, 0)

    assert made.reports[-1].rejected == 2
    parked = {one.uuid: one.message for one in sinks.parked()}
    assert parked.keys() == {"a", "b"}
    for uuid, message in parked.items():
        assert message is not None
        assert message.body == {"uuid": uuid, "body": "body", "wide": "x" * 300_000}


@pytest.mark.parametrize("storage", ["memory_and_disk", "none"])
def test_no_column_that_nobody_named_is_an_identity(spark: SparkSession, sinks: Sinks, storage: str) -> None:
    made = spark.sql("SELECT CAST(NULL AS STRING) AS id, 'u' AS uuid, 'ID:1' AS JMSMessageID, 'b' AS body")

    report = sinks.run(made, uuid="id", body="body", storage=storage)

    assert (report.new, report.rejected) == (0, 1)
    assert sinks.outcomes("u", "ID:1") == [None, None]
    (parked,) = sinks.parked()
    assert parked.message is not None
    assert parked.message.properties == {"column uuid": "u", "column JMSMessageID": "ID:1"}


def test_a_column_that_is_there_twice_is_refused(spark: SparkSession, sinks: Sinks) -> None:
    with pytest.raises(ConfigurationError, match=r"more than one column 'at',.*drop one of them"):
        sinks.run(spark.sql("SELECT 'a' AS uuid, 1 AS at, 2 AS at"))


def test_a_field_of_a_struct_is_no_column_and_it_is_said_how_to_make_one(
    spark: SparkSession, sinks: Sinks
) -> None:
    with pytest.raises(ConfigurationError, match=r"withColumn\('id', F.col\('order.id'\)\), and name 'id'"):
        sinks.run(spark.sql("SELECT struct('a' AS id) AS order"), uuid="order.id")


def _service(url: str) -> Any:
    @trigger("orders", name="book", history=url)
    def book(message: Message) -> None:
        with connected(url) as client:
            client.rpush("booked", (message.uuid or "")[:10])

    return book


def test_the_rows_of_a_service_have_the_same_identities(spark: SparkSession, sinks: Sinks) -> None:
    keys = [*TEXTS, *BROKEN, None]
    service = _service(sinks.url).foreach_batch(uuid="uuid", body="body", query="s")

    for uuid in ("key", "CAST(key AS STRING)"):
        for _ in range(2):
            service(rows(spark, keys, uuid), sinks.batch_id)
            sinks.batch_id += 1

    told = [(one.new, one.duplicate, one.rejected) for one in service.reports]
    assert told == [(8, 0, 1), (0, 8, 1), (4, 0, 5), (0, 4, 5)]
    with connected(sinks.url) as client:
        booked = Counter(one.decode() for one in client.lrange("booked", 0, -1))
    identities = [canonical(one) or "" for one in [*TEXTS, *BROKEN, *TEXTS.values()]]
    assert booked == Counter(one[:10] for one in identities)


@pytest.mark.usefixtures("odd_zone")
def test_a_service_takes_columns_of_any_name_and_instants_of_any_zone(
    spark: SparkSession, sinks: Sinks
) -> None:
    service = _service(sinks.url).foreach_batch(uuid="uuid", query="s")

    service(rows(spark, [b"a"], **{"`a.b`": "TIMESTAMP '2026-01-02 03:04:05Z'"}), 0)

    assert service.reports[-1].new == 1


def test_a_service_gets_what_a_variant_holds(spark: SparkSession, sinks: Sinks) -> None:
    if spark.version < "4":
        pytest.skip("Spark 3.5 has no variants")
    url = sinks.url

    @trigger("orders", name="book", history=url)
    def book(message: Message) -> None:
        with connected(url) as client:
            client.rpush("booked", str(message.body))

    service = book.foreach_batch(uuid="uuid", body="v", query="s")
    service(rows(spark, [b"a"], v="""parse_json('{"n": 1.5}')"""), 0)

    with connected(url) as client:
        assert client.lrange("booked", 0, -1) == [b"{'n': 1.5}"]


def _atomic(url: str, **settings: Any) -> AtomicSink:
    options: dict[str, Any] = {"uuid": "uuid", "name": "book", "query": "q", **settings}
    return atomic_sink(
        "orders", history=url, write=into_table("bookings", columns=["uuid", "body"]), **options
    )


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/shop.sqlite3"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    asked(
        url, f"CREATE TABLE bookings (uuid {'BYTEA' if request.param == 'postgres' else 'BLOB'}, body TEXT)"
    )
    return url


def booked(url: str) -> Counter[Any]:
    return Counter(bytes(uuid) for (uuid,) in asked(url, "SELECT uuid FROM bookings"))


def test_an_atomic_sink_writes_rows_with_bytes_for_uuids_and_parks_those_without(
    spark: SparkSession, shop: str
) -> None:
    keys = [*TEXTS, *BROKEN, None]
    sink = _atomic(shop)

    for batch_id in range(2):
        sink(rows(spark, keys), batch_id)

    told = [(one.new, one.duplicate, one.rejected) for one in sink.reports]
    assert told == [(8, 0, 1), (0, 8, 1)]
    assert booked(shop) == Counter([*TEXTS, *BROKEN])
    assert Sinks(shop).outcomes(b"good".hex(), "fffe") == [EntryOutcome.OK] * 2


def test_an_atomic_sink_parks_texts_that_are_none(spark: SparkSession, shop: str) -> None:
    sink = _atomic(shop)

    sink(rows(spark, [b"good", *BROKEN], "CAST(key AS STRING)").selectExpr("uuid", "body"), 0)

    assert (sink.reports[-1].new, sink.reports[-1].rejected) == (1, 4)
    assert {one.kind for one in Sinks(shop).parked()} == {ParkedKind.UNREADABLE}


def test_an_atomic_sink_writes_nothing_else_in_the_place_of_a_broken_text(
    spark: SparkSession, shop: str
) -> None:
    broken = rows(spark, [b"a", b"b"], body="CAST(CASE key WHEN X'61' THEN X'ff' ELSE X'62' END AS STRING)")

    with pytest.raises(Exception, match="column body of row 61 is no UTF-8"):
        _atomic(shop)(broken, 0)
    sink = _atomic(shop, on_fatal="reject")
    sink(broken, 0)

    assert (sink.reports[-1].new, sink.reports[-1].rejected) == (1, 1)
    assert booked(shop) == {b"b": 1}
    (parked,) = Sinks(shop).parked()
    assert (parked.uuid, parked.kind) == (b"a".hex(), ParkedKind.REJECTED)


def test_rows_without_an_identity_fail_no_query_that_is_started_again(
    spark: SparkSession, sinks: Sinks, tmp_path: Path
) -> None:
    stream = FileStream(spark, tmp_path)
    stream.add([*orders(["a"]), *orders(["ff", "b"])])
    load = sinks.load(query=None)

    def broken(_: str) -> Callable[[DataFrame, int], None]:
        def run(batch: DataFrame, batch_id: int) -> None:
            unhexed = "CASE WHEN uuid = 'ff' THEN CAST(unhex(uuid) AS STRING) ELSE uuid END AS uuid"
            load(batch.selectExpr(unhexed, "body"), batch_id)

        return run

    for name in ("checkpoint", "another"):
        query = stream.read().writeStream.foreachBatch(broken(name)).trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / name)).start().awaitTermination()

    assert [(one.new, one.duplicate, one.rejected) for one in load.reports] == [(2, 0, 1), (0, 2, 1)]
    assert len(sinks.parked()) == 1
