"""How the rows of a task are cut into units that run beside each other."""

import sys
import threading
from collections.abc import Sequence
from itertools import chain
from typing import Any, cast

import pytest

from history import MemoryHistory
from triggers import trigger
from triggers.pipeline.protocol import Pipeline
from triggers.service.settings import Settings
from triggers.spark.batch.claims.verdicts import KEY
from triggers.spark.row_service.running import Result, Values, running, units_of
from triggers.spark.row_service.shipping import Shippable


def settings(**options: Any) -> Settings:
    return Settings.of(["orders"], {"name": "book", **options}, None)


def rows(*keys: str | None) -> list[Values]:
    return [{KEY: key} for key in keys]


def keys_of(units: Sequence[Sequence[Values]]) -> list[list[str | None]]:
    return [[row[KEY] for row in unit] for unit in units]


def test_rows_of_one_key_are_never_parted() -> None:
    units = units_of(rows("a", "a", "a", "b", "c", "c", None, None, "d"), settings(concurrency=4))

    assert keys_of(units) == [["a", "a", "a"], ["b"], ["c", "c"], [None], [None], ["d"]]


@pytest.mark.parametrize(
    ("count", "options", "size"),
    [
        (1000, {"concurrency": 1}, 1000),
        (1000, {"concurrency": 8}, 25),
        (64, {"concurrency": 8}, 2),
        (3, {"concurrency": 8}, 1),
        (1000, {"concurrency": 500}, 1),
        (1000, {"concurrency": 8, "batch": 100}, 100),
    ],
)
def test_all_that_run_at_once_are_about_as_many_as_one_claim_takes(
    count: int, options: dict[str, Any], size: int
) -> None:
    given = rows(*(f"u-{number}" for number in range(count)))

    units = units_of(given, settings(**options))

    assert len(units[0]) == size
    assert list(chain.from_iterable(units)) == given


def test_no_rows_are_no_units() -> None:
    assert units_of([], settings(concurrency=4)) == []


def test_after_a_service_has_ended_its_process_no_further_unit_begins() -> None:
    @trigger("orders", name="book", history=MemoryHistory(), concurrency=2)
    def book() -> None: ...

    begun: list[str] = []
    second_has_begun, first_has_ended = threading.Event(), threading.Event()

    async def work(_pipeline: Pipeline, unit: Sequence[Values]) -> Sequence[Result]:
        begun.append(unit[0][KEY])
        if unit[0][KEY] == "u-0":
            assert second_has_begun.wait(30)
            first_has_ended.set()
            sys.exit(3)
        second_has_begun.set()
        assert first_has_ended.wait(30)
        return []

    units = [rows(f"u-{number}") for number in range(50)]
    with pytest.raises(SystemExit), running(cast("Shippable", book)) as run:
        run(units, work)

    assert len(begun) < 10, "the other worker takes only a few units before the first worker ends"
