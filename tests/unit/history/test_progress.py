"""What the record of a batch says of earlier runs, also where an older version wrote it."""

from datetime import UTC, datetime

import pytest

from history.store.progress import BatchRecord, BatchState, Beginning, begun

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _held(state: BatchState, *, attempt: int, unentered: tuple[str, ...] = ()) -> BatchRecord:
    """Return a record as it was written before there was ``unfinished``."""
    record = BatchRecord(
        query="q",
        batch=7,
        lineage="l",
        run="a",
        attempt=attempt,
        state=state,
        unentered=unentered,
        started_at=NOW,
        changed_at=NOW,
    )
    return BatchRecord.model_validate_json(record.model_dump_json(exclude={"unfinished"}))


@pytest.mark.parametrize(
    ("held", "unfinished"),
    [
        (_held(BatchState.CLAIMING, attempt=1), False),
        (_held(BatchState.CLAIMING, attempt=2, unentered=("x",)), False),
        (_held(BatchState.CLAIMING, attempt=3, unentered=("x",)), True),
        (_held(BatchState.RUNNING, attempt=1), True),
        (_held(BatchState.RELEASED, attempt=1), True),
        (_held(BatchState.COMPLETED, attempt=3), False),
        (_held(BatchState.FAILED, attempt=3), False),
    ],
)
def test_a_record_of_an_older_version_tells_whether_a_run_was_cut_off(
    held: BatchRecord, *, unfinished: bool
) -> None:
    assert held.unfinished is None

    record = begun(held, Beginning(query="q", batch=7, lineage="l", run="b"), NOW)

    assert record.unfinished is unfinished
