"""One call finds rows with a known uuid but another body, for any batches that Arrow makes of a partition."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
import pytest

from history import MemoryHistory
from history.beside.fingerprints import BodyOf, first_of
from history.bridge import drive
from triggers.detection.table import Policy
from triggers.spark.batch.claims import bulk
from triggers.spark.batch.claims.bulk import BulkClaim
from triggers.spark.batch.claims.findings import AGAIN, RowVerdict
from triggers.spark.batch.claims.verdicts import ClaimTerms
from triggers.spark.batch.owners import BatchRun
from triggers.spark.rows import fingerprints
from triggers.spark.rows.fingerprints import bytes_of, number_of

DAY = timedelta(days=1)

OTHER, COPY = int(RowVerdict.OTHER_BODY), int(RowVerdict.NEW) + AGAIN

arrow: Any = pa


class Counting(MemoryHistory):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []
        kept = self.fingerprints
        counted = kept.first_of_each

        async def first_of_each(
            trigger: str, bodies: Sequence[BodyOf], time_to_live: timedelta
        ) -> Sequence[bytes]:
            self.calls.append(len(bodies))
            return await counted(trigger, bodies, time_to_live)

        kept.first_of_each = first_of_each  # type: ignore[method-assign]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Counting:
    made = Counting()

    def at(_url: str) -> Counting:
        return made

    for module in (fingerprints, bulk):
        monkeypatch.setattr(module, "history_at", at)
    return made


def judged(rows: Sequence[tuple[str | None, int]], sizes: Sequence[int]) -> list[int]:
    """Return the verdicts on rows with uuids and fingerprints; the rows come in batches of these sizes."""
    claim = BulkClaim(
        url="memory:",
        trigger="book",
        time_to_live=DAY,
        lease=None,
        patience=timedelta(0),
        table=ClaimTerms(policy=Policy(), asks=False, asks_replayed=False, executes_replayed=False).table(),
        executes_replayed=False,
        run=BatchRun(lineage="q", batch=0, token="run"),  # noqa: S106  (of a run)
        closes=False,
        compares=True,
    )

    def batches() -> Iterator[tuple[Any, ...]]:
        start = 0
        for size in sizes:
            piece = rows[start : start + size]
            start += size
            keys = arrow.array([key for key, _ in piece], arrow.string())
            counts = arrow.array([-1] * len(piece), arrow.int64())
            yield keys, counts, arrow.array([number for _, number in piece], arrow.int64())

    return [int(one) for one in np.concatenate(list(claim.verdicts(batches())))]


ROWS = [("a", 1), ("a", 2), ("a", 1), (None, 5), ("b", 3), ("c", 0), ("c", 4), ("c", 0), ("c", 5), ("d", 1)]
VERDICTS = [0, OTHER, COPY, int(RowVerdict.ASIDE), 0, 0, COPY, COPY, OTHER, 0]


@pytest.mark.parametrize("sizes", [[10], [1] * 10, [2, 0, 3, 5], [1, 1, 5, 3], [6, 1, 3]])
def test_the_first_body_counts_and_another_one_is_no_copy(store: Counting, sizes: list[int]) -> None:
    assert judged(ROWS, sizes) == VERDICTS


@pytest.mark.parametrize("sizes", [[10], [1] * 10, [2, 8]])
def test_the_body_that_the_history_knows_counts_wherever_it_stands(store: Counting, sizes: list[int]) -> None:
    for uuid, number in (("a", 2), ("b", 9), ("c", 5)):
        drive(first_of(store.fingerprints, "book", uuid, bytes_of(number), DAY))

    assert judged(ROWS, sizes) == [
        *(OTHER, 0, OTHER, int(RowVerdict.ASIDE), OTHER),
        *(0, OTHER, COPY, COPY, 0),
    ]
    assert drive(store.lookup("book", ["b"])) == [None], "its row has another body, so it makes no claim"


def test_many_rows_are_compared_with_one_call(store: Counting) -> None:
    rows = [(f"u-{number:04}", number + 1) for number in range(1000)]

    assert set(judged(rows, [1000])) == {0}
    assert store.calls == [1000]


def test_a_number_of_a_fingerprint_is_its_bytes() -> None:
    for one in (b"\0" * 7 + b"\1", b"\xff" * 8, b"\x80" + b"\0" * 7, b"\x7f" * 8):
        assert bytes_of(number_of(one)) == one
