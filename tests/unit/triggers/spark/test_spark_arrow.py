"""The interface to Spark's Python workers, as far as it works without Spark."""

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
def test_a_worker_keeps_what_its_first_result_loaded_from_its_garbage_collector_once() -> None:
    loaded: list[list[int]] = []

    def results() -> Iterator[int]:
        loaded.extend([number] for number in range(10_000))
        yield 1
        loaded.extend([number] for number in range(10_000))
        yield 2

    steps = arrow.settling_in(results())
    first = next(steps), gc.get_freeze_count()
    second = next(steps), gc.get_freeze_count()

    assert (first[0], second[0]) == (1, 2)
    assert first[1] > 10_000
    assert second[1] <= first[1]
