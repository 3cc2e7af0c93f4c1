"""The edge to Spark's Python workers, as far as it needs no Spark."""

import gc
from collections.abc import Iterator

import pytest

from triggers.spark.rows import arrow


@pytest.fixture
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(arrow, "_settled_in", [])
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("thawed")
def test_a_worker_keeps_what_was_loaded_from_its_garbage_collector_once() -> None:
    arrow.settle_in()
    kept = gc.get_freeze_count()
    later = [[number] for number in range(10_000)]

    arrow.settle_in()

    assert kept > 10_000
    assert gc.get_freeze_count() <= kept, f"{len(later)} more are left to the collector"
