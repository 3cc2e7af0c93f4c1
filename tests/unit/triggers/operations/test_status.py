"""The rows of ``doubtless status``: running consumers, and killed consumers."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from history.store.control import Beat, Overview, Report
from triggers.operations.status import LOST, MOST_LOST, NO_CONSUMER, status_rows

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def beat(consumer: str, *, minutes: int = 0, trigger: str = "book") -> Beat:
    """Return the report of a consumer some minutes ago."""
    return Beat(Report(consumer=consumer, trigger=trigger), NOW - timedelta(minutes=minutes))


def rows(beats: Sequence[Beat], lost: Sequence[Beat]) -> Sequence[tuple[str, str | None]]:
    """Return state and consumer of each row of the trigger ``book``."""
    overview = Overview(now=NOW, beats=beats, orders=(), statistics={}, lost=lost)
    return [(str(row["state"]), row["consumer"]) for row in status_rows("book", overview)]


def test_a_lost_consumer_is_shown_once_and_after_those_that_run() -> None:
    killed = beat("a")

    assert rows([killed, beat("b")], [killed]) == [("RUNNING", "b"), (LOST, "a")]


def test_if_all_are_lost_a_row_says_what_the_trigger_does() -> None:
    assert rows([], [beat("a", minutes=1)]) == [(NO_CONSUMER, None), (LOST, "a")]


def test_the_lost_consumers_of_other_triggers_are_not_shown() -> None:
    assert rows([beat("a")], [beat("b", minutes=1, trigger="ship")]) == [("RUNNING", "a")]


def test_of_many_lost_consumers_the_latest_are_shown() -> None:
    many = [beat(f"c-{minutes}", minutes=minutes) for minutes in range(1, 3 * MOST_LOST)]

    shown = rows([beat("a")], many[::-1])

    assert shown == [("RUNNING", "a"), *((LOST, f"c-{minutes}") for minutes in range(1, MOST_LOST + 1))]
