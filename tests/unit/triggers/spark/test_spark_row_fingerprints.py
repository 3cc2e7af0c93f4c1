"""The columns that the fingerprint of a row compares."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from triggers.spark.rows.fingerprints import number_of_row
from triggers.spark.settings import Columns

ROW = {"uuid": "a", "id": "ID:1", "count": 1, "amount": 10, "__doubtless_key": "a"}


@pytest.mark.parametrize(("column", "value"), [("id", "ID:2"), ("count", 2), ("__doubtless_key", "b")])
def test_another_delivery_of_a_row_has_the_same_fingerprint(column: str, value: object) -> None:
    columns = Columns(uuid="uuid", message_id="id", delivery_count="count", fingerprint="body")

    assert number_of_row({**ROW, column: value}, columns) == number_of_row(ROW, columns)
    assert number_of_row({**ROW, "amount": 11}, columns) != number_of_row(ROW, columns)


@pytest.mark.parametrize("column", ["id", "count"])
def test_a_column_with_no_such_meaning_belongs_to_the_row(column: str) -> None:
    columns = Columns(uuid="uuid", fingerprint="body")

    assert number_of_row({**ROW, column: 9}, columns) != number_of_row(ROW, columns)


@pytest.mark.parametrize("fingerprint", ["body", "at", ("amount", "at"), "nested"])
def test_an_instant_is_the_same_in_every_zone(fingerprint: str | tuple[str, ...]) -> None:
    columns = Columns(uuid="uuid", fingerprint=fingerprint)
    at = datetime(2026, 7, 1, 12, tzinfo=UTC)
    rows = [
        {**ROW, "at": here, "nested": [{"at": here}]}
        for here in (at, at.astimezone(ZoneInfo("Europe/Berlin")), at + timedelta(seconds=1))
    ]

    first, second, later = (number_of_row(row, columns) for row in rows)

    assert first == second
    assert first != later


def test_the_last_instant_of_a_zone_has_a_fingerprint() -> None:
    for_ever = datetime(9999, 12, 31, 23, 59, 59, tzinfo=ZoneInfo("America/New_York"))

    assert number_of_row({**ROW, "until": for_ever}, Columns(uuid="uuid", fingerprint="until"))


def test_a_named_body_is_compared_alone() -> None:
    columns = Columns(uuid="uuid", delivery_count="count", body="amount", fingerprint="body")

    assert number_of_row({**ROW, "id": "ID:2"}, columns) == number_of_row(ROW, columns)
    assert number_of_row({**ROW, "amount": 11}, columns) != number_of_row(ROW, columns)
