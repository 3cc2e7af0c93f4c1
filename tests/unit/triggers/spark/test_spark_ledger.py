"""The batch ledger notices when an older state of a checkpoint was restored."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from history.store.progress import BatchState
from triggers.spark import foreach_batch
from triggers.spark.batch.ledger import Ledger, QueryIdentity


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    handler = foreach_batch(
        "orders", name="load", uuid="uuid", history=f"sqlite:///{tmp_path / 'history.db'}"
    )
    return Ledger(handler(lambda _frame, _info: None).settings)


def restored(ledger: Ledger, *batches: int, lineage: str = "l", completes: bool = True) -> list[bool]:
    """Run batches, and return which of them were taken for batches of a restored checkpoint."""
    records = [ledger.begin(QueryIdentity("q", lineage, "q"), batch)[0] for batch in batches]
    for record in records if completes else ():
        ledger.note(record, BatchState.COMPLETED)
    return [record.restored for record in records]


def test_all_batches_are_until_one_was_not_there_before(ledger: Ledger) -> None:
    assert restored(ledger, 0, 1, 2, 3) == [False] * 4

    assert restored(ledger, 1, 2, 3, 4) == [True, True, True, False]


def test_the_first_batch_is_until_a_run_has_completed_it(ledger: Ledger) -> None:
    restored(ledger, 0, 1, 2)

    assert restored(ledger, 1, completes=False) == [True]
    assert restored(ledger, 1) == [True]
    assert restored(ledger, 1) == [False]


def test_the_last_batch_that_comes_again_is_not(ledger: Ledger) -> None:
    restored(ledger, 0, 1)

    assert restored(ledger, 1) == [False]


def test_a_batch_of_another_checkpoint_is_not(ledger: Ledger) -> None:
    restored(ledger, 0, 1, 2)

    assert restored(ledger, 1, lineage="another") == [False]
