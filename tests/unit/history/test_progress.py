"""The record of a batch describes earlier runs, even if an older version wrote it."""

from datetime import UTC, datetime

import pytest

from history.store.progress import KEPT_ENTERED, KEPT_RUNS, BatchRecord, BatchState, Beginning, begun, changed

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


def _next(current: BatchRecord | None, run: str, *, enters: bool, lineage: str = "l") -> BatchRecord:
    record = begun(current, Beginning(query="q", batch=7, lineage=lineage, run=run), NOW)
    return changed(record, run, BatchState.RUNNING, NOW, {}) if enters else record


def test_a_record_knows_which_runs_entered_however_many_did_not() -> None:
    record = _next(None, "first", enters=False)
    record = _next(record, "entered", enters=True)
    for attempt in range(2 * KEPT_RUNS):
        record = _next(record, f"dead-{attempt}", enters=False, lineage="another checkpoint")

    assert (record.line, record.entered) == ("first", ("entered",))


def test_a_run_that_was_released_has_entered() -> None:
    record = _next(None, "a", enters=True)
    record = changed(record, "a", BatchState.RELEASED, NOW, {})

    assert _next(record, "b", enters=False).entered == ("a",)


def test_a_new_line_begins_where_an_older_version_wrote_the_record() -> None:
    record = _next(_held(BatchState.CLAIMING, attempt=1), "b", enters=False)

    assert (record.line, record.entered, record.unentered) == ("b", (), ("a",))
    assert _next(record, "c", enters=False).line == "b"


def test_a_new_line_begins_before_a_record_grows_without_bounds() -> None:
    record = None
    for attempt in range(KEPT_ENTERED + 1):
        record = _next(record, f"r{attempt}", enters=True)
    assert record is not None
    assert len(record.entered) == KEPT_ENTERED

    record = _next(record, "one more", enters=False)

    assert (record.line, record.entered) == ("one more", ())


def test_a_batch_is_of_a_restored_checkpoint_until_a_run_has_completed_it() -> None:
    def again(current: BatchRecord, lineage: str = "l", *, restored: bool = False) -> BatchRecord:
        return begun(
            current, Beginning(query="q", batch=7, lineage=lineage, run="next", restored=restored), NOW
        )

    record = again(_held(BatchState.COMPLETED, attempt=1), restored=True)

    states = [record.model_copy(update={"run": "last", "state": state}) for state in BatchState]
    assert {last.state for last in states if again(last).restored} == {
        BatchState.CLAIMING,
        BatchState.RUNNING,
        BatchState.RELEASED,
    }
    assert not any(again(last, "another checkpoint").restored for last in states)
