"""Which columns can be fields of a message, and rows with values that Python does not have."""

import struct
from datetime import date
from typing import Any

import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
import pytest
from pydantic import ValidationError
from pyspark.sql import types as t

from triggers import ConfigurationError, Message, trigger
from triggers.spark import foreach_batch
from triggers.spark.rows.arrow import BrokenText, OddArrowRow, OutOfRange, rows_of
from triggers.spark.rows.columns import check_columns
from triggers.spark.rows.messages import (
    NoIdentityError,
    identity_of_row,
    message_of,
    message_of_keyed,
    raw_of,
)
from triggers.spark.settings import Columns

_arrow: Any = pa

#: Spark has these types since 4.0.
SINCE_4 = hasattr(t, "VariantType")

GOOD: list[t.DataType] = [
    t.StringType(),
    *([t.StringType("UTF8_LCASE")] if SINCE_4 else []),
    t.VarcharType(40),
    t.CharType(4),
    t.ByteType(),
    t.ShortType(),
    t.IntegerType(),
    t.LongType(),
    t.DecimalType(38, 0),
]
BAD: list[t.DataType] = [
    t.BooleanType(),
    t.FloatType(),
    t.DoubleType(),
    t.DecimalType(10, 2),
    t.DateType(),
    t.TimestampType(),
    t.TimestampNTZType(),
    t.DayTimeIntervalType(),
    t.NullType(),
    *([t.VariantType()] if SINCE_4 else []),
    t.ArrayType(t.StringType()),
    t.MapType(t.StringType(), t.StringType()),
    t.StructType([t.StructField("id", t.StringType())]),
]

SETTINGS = ["uuid", "message_id", "delivery_count"]


def _check(setting: str, kind: t.DataType) -> None:
    columns = Columns(**{"uuid": "good", setting: "it"})
    schema = t.StructType([t.StructField("good", t.StringType()), t.StructField("it", kind)])
    check_columns(columns, schema)


def _of_texts(*names: str) -> t.StructType:
    return t.StructType([t.StructField(name, t.StringType()) for name in names])


@pytest.mark.parametrize("names", [("uuid", "UUID"), ("uuid", "at", "AT")])
def test_a_column_that_differs_from_another_in_case_alone_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_columns(Columns(uuid="uuid"), _of_texts(*names))

    assert refused.value.setting == "columns"
    check_columns(Columns(uuid="uuid"), _of_texts(*names), has_case=True)


@pytest.mark.parametrize(("there", "remedy"), [("UUID", "'UUID'"), ("id", "withColumn('uuid'")])
def test_the_remedy_for_a_missing_column_is_its_spelling_if_there_is_another(there: str, remedy: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_columns(Columns(uuid="uuid"), _of_texts(there))

    assert refused.value.setting == "uuid"
    assert remedy in refused.value.remedy


def test_what_shows_settings_shows_no_password() -> None:
    url = "redis://:secret@127.0.0.1:6379/0"

    @foreach_batch("orders", uuid="uuid", history=url, parking=url)
    def load(new: Any, batch_id: int) -> None: ...

    @trigger("orders", name="book", history=None, parking=url, journal=url)
    def book(message: Message) -> None: ...

    assert "secret" not in f"{load.settings!r} {load!r} {book.settings!r} {book!r}"


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", GOOD, ids=str)
def test_text_and_whole_numbers_tell_a_message(setting: str, kind: t.DataType) -> None:
    _check(setting, kind)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", BAD, ids=str)
def test_a_type_that_tells_nothing_is_refused_with_the_remedy(setting: str, kind: t.DataType) -> None:
    with pytest.raises(ConfigurationError, match=r"column 'it' is of type .*withColumn\('it'") as raised:
        _check(setting, kind)

    assert raised.value.setting == setting
    assert kind.simpleString() in str(raised.value)


def test_bytes_are_an_identity_and_no_count() -> None:
    _check("uuid", t.BinaryType())
    _check("message_id", t.BinaryType())
    with pytest.raises(ConfigurationError, match="type binary, which is no delivery count"):
        _check("delivery_count", t.BinaryType())


def _texts(*values: bytes | None) -> Any:
    return _arrow.array(list(values), _arrow.binary()).view(_arrow.string())


def test_a_value_that_python_has_none_for_does_not_keep_the_others_from_it() -> None:
    far = _arrow.array([253402300800 * 10**6, 0, None], _arrow.int64()).cast(_arrow.timestamp("us", tz="UTC"))
    texts = _texts(b"\xff\xfe", b"good", None)
    nested = _arrow.StructArray.from_arrays([texts, _arrow.array([1, 2, 3])], ["text", "number"])
    listed = _arrow.ListArray.from_arrays([0, 2, 3, 3], texts)
    mapped = _arrow.MapArray.from_arrays([0, 1, 1, 1], _texts(b"k"), _texts(b"\xc3"))
    batch = _arrow.RecordBatch.from_arrays(
        [_arrow.array([1, 2, 3]), texts, far, nested, listed, mapped],
        names=["id", "text", "at", "nested", "listed", "mapped"],
    )

    first, second, third = rows_of(batch)

    assert isinstance(first, OddArrowRow)
    assert first.column == "text"
    assert first == {
        "id": 1,
        "text": b"\xff\xfe",
        "at": "10000-01-01 00:00:00.000000Z",
        "nested": {"text": b"\xff\xfe", "number": 1},
        "listed": [b"\xff\xfe", "good"],
        "mapped": {"k": b"\xc3"},
    }
    assert isinstance(first["at"], OutOfRange)
    assert isinstance(first["text"], BrokenText)
    assert (type(second), second["text"], second["nested"]) == (dict, "good", {"text": "good", "number": 2})
    assert (type(third), third["text"], third["at"], third["listed"]) == (dict, None, None, [])


def _maps(keys: Any, *maps: list[tuple[Any, int]]) -> Any:
    return _arrow.array(maps, _arrow.map_(keys, _arrow.int64()))


@pytest.mark.parametrize(
    ("keys", "key"),
    [(_arrow.struct([("id", _arrow.int64())]), {"id": 1}), (_arrow.list_(_arrow.int64()), [1])],
    ids=["structs", "lists"],
)
def test_a_map_with_keys_that_no_dictionary_takes_is_pairs(keys: Any, key: Any) -> None:
    nested, plain = _maps(keys, [(key, 2)], []), _maps(_arrow.string(), [("k", 1)], [])
    inside = _arrow.ListArray.from_arrays([0, 2, 2], nested)
    batch = _arrow.RecordBatch.from_arrays([nested, plain, inside], names=["nested", "plain", "inside"])

    rows = rows_of(batch)

    assert [type(row) for row in rows] == [dict, dict]
    assert rows[0] == {"nested": [(key, 2)], "plain": {"k": 1}, "inside": [[(key, 2)], []]}
    assert rows[1] == {"nested": [], "plain": {}, "inside": []}


def test_a_map_with_a_key_twice_makes_its_own_row_odd() -> None:
    maps = _maps(_arrow.string(), [("k", 1), ("k", 2)], [("k", 3)])
    batch = _arrow.RecordBatch.from_arrays([maps], names=["map"])

    first, second = rows_of(batch)

    assert isinstance(first, OddArrowRow)
    assert first.column == "map"
    assert first == {"map": [("k", 1), ("k", 2)]}
    assert (type(second), second) == (dict, {"map": {"k": 3}})


def test_a_map_is_an_object_in_the_body_of_a_message_whatever_its_keys_are() -> None:
    days = _maps(_arrow.date32(), [(date(2026, 1, 2), 1)])
    batch = _arrow.RecordBatch.from_arrays(
        [_maps(_arrow.string(), [("k", 1)]), _maps(_arrow.int64(), [(7, 2)]), days], names=["a", "b", "c"]
    )

    (row,) = rows_of(batch)

    assert message_of(row, Columns(uuid="a"), destination="orders", uuid="u").body == {
        "a": {"k": 1},
        "b": {"7": 2},
        "c": {"2026-01-02": 1},
    }


def _variants(*values: bytes) -> Any:
    parts = [_arrow.array(values), _arrow.array([b"\x01\x00\x00"] * len(values))]
    fields = [
        _arrow.field("value", _arrow.binary()),
        _arrow.field("metadata", _arrow.binary(), metadata={"variant": "true"}),
    ]
    return _arrow.StructArray.from_arrays(parts, fields=fields)


@pytest.mark.skipif(not SINCE_4, reason="Spark 3.5 has no variants")
def test_a_variant_that_json_cannot_hold_does_not_keep_the_others_from_python() -> None:
    number, day = b"\x1c", b"\x2c"  # the first byte of a variant is its type
    values = [number + struct.pack("<d", one) for one in (1.5, float("inf"))]
    values += [day + (10_000_000).to_bytes(4, "little"), b"\xff"]
    batch = _arrow.RecordBatch.from_arrays([_variants(*values)], names=["any"])

    rows = rows_of(batch)

    assert [row["any"] for row in rows[:2]] == [1.5, float("inf")]
    assert [type(row) for row in rows] == [dict, dict, OddArrowRow, OddArrowRow]
    assert [row["any"]["value"] for row in rows[2:]] == values[2:]


@pytest.mark.parametrize(
    ("row", "identity"),
    [
        ({"uuid": "a", "id": "b"}, "a"),
        ({"uuid": 7, "id": None}, "7"),
        ({"uuid": b"a", "id": None}, "61"),
        ({"uuid": b"\xff\x00", "id": None}, "ff00"),
        ({"uuid": "", "id": b""}, None),
        ({"uuid": None, "id": b"\xc3\xa9"}, "c3a9"),
        ({"uuid": "a", "id": BrokenText(b"\xff")}, "a"),
    ],
)
def test_the_identity_of_a_row_is_told_in_python_as_by_spark(
    row: dict[str, Any], identity: str | None
) -> None:
    assert identity_of_row(row, Columns(uuid="uuid", message_id="id")) == identity


@pytest.mark.parametrize(
    "row", [{"uuid": BrokenText(b"\xff"), "id": "b"}, {"uuid": "", "id": BrokenText(b"\xff")}]
)
def test_a_text_that_is_no_utf_8_is_no_identity(row: dict[str, Any]) -> None:
    with pytest.raises(NoIdentityError, match="is no UTF-8"):
        identity_of_row(row, Columns(uuid="uuid", message_id="id"))


def test_a_row_is_a_message_whatever_its_columns_hold() -> None:
    row = {
        "uuid": "a",
        "id": "",
        "count": None,
        "body": BrokenText(b"\xff"),
        "map": {b"\x01": BrokenText(b"\xfe")},
    }
    columns = Columns(uuid="uuid", message_id="id", body="body")

    message = message_of(row, columns, destination="orders", uuid="a")
    whole = message_of(row, Columns(uuid="uuid"), destination="orders", uuid="a")

    assert (message.body, message.message_id, message.uuid) == (b"\xff", None, "a")
    assert message.properties["map"] == '{"01": "\\\\xfe"}'
    assert isinstance(whole.body, dict)
    assert whole.body["body"] == "\\xff"
    assert type(message.body) is bytes
    assert raw_of({**row, "__doubtless_key": "a"})[b"body"] == b"\xff"


@pytest.mark.parametrize("column", ["id", "wide"])
def test_a_row_with_an_identity_is_a_message_however_long_its_columns_are(column: str) -> None:
    row = {"uuid": "a", "id": "m-1", "wide": "w", "body": "b", column: "x" * 300_000}
    columns = Columns(uuid="uuid", message_id="id", body="body")

    message = message_of_keyed(row, columns, destination="orders", uuid="a")

    assert (message.uuid, message.destination, message.body) == ("a", "orders", row)


@pytest.mark.parametrize(
    ("text", "count"), [("3", 3), (" 3", 3), ("3\t", 3), ("+3", 3), ("-1", -1), (str(2**63), 2**63)]
)
def test_a_delivery_count_is_read_as_spark_reads_it(text: str, count: int) -> None:
    columns = Columns(uuid="uuid", delivery_count="count")

    message = message_of({"uuid": "a", "count": text}, columns, destination="orders", uuid="a")

    assert message.delivery_count == count


@pytest.mark.parametrize(
    "text", ["", "+", "3.0", "1_0", "\u0663", "0", "-3", pytest.param("9" * 5000, id="long")]
)
def test_a_delivery_count_that_spark_does_not_read_is_none(text: str) -> None:
    columns = Columns(uuid="uuid", delivery_count="count")

    with pytest.raises(ValidationError):
        message_of({"uuid": "a", "count": text}, columns, destination="orders", uuid="a")


def test_a_message_id_of_too_many_bytes_is_none() -> None:
    row = {"uuid": "a", "id": b"\xff" * 100_000, "body": "b"}
    columns = Columns(uuid="uuid", message_id="id", body="body")

    with pytest.raises(NoIdentityError, match="its id cannot be its message id"):
        message_of(row, columns, destination="orders", uuid="a")

    message = message_of_keyed(row, columns, destination="orders", uuid="a")
    assert (message.uuid, message.body) == ("a", {**row, "id": "ff" * 100_000})


@pytest.mark.parametrize("name", ["__doubtless_key", "__DOUBTLESS_Verdict", "__doubtless_anything"])
def test_a_column_that_could_be_taken_for_ours_is_refused(name: str) -> None:
    schema = t.StructType([t.StructField("uuid", t.StringType()), t.StructField(name, t.StringType())])

    with pytest.raises(ConfigurationError, match=name):
        check_columns(Columns(uuid="uuid"), schema)
