"""Choosing parked messages by filters."""

import gc
from datetime import UTC, datetime, timedelta

from history import MemoryHistory
from history.bridge import drive
from history.store.parking import Parked, ParkedKind, ParkedLabel
from triggers.operations.choosing import PAGE, Selection, oldest

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Counting(Selection):
    """Matches every other message, and counts the labels that are in memory."""

    counts: list[int] = []  # noqa: RUF012  (a field of a frozen class could not be added)

    def lets_through(self, label: ParkedLabel) -> bool:
        number = int(label.id)
        if number % 100 == 0:
            self.counts.append(sum(type(item) is ParkedLabel for item in gc.get_objects()))
        return number % 2 == 0


def test_a_filtered_list_counts_all_and_holds_only_the_oldest() -> None:
    store = MemoryHistory()
    parked = [
        Parked(
            id=f"{number:04}",
            trigger_name="book",
            kind=ParkedKind.IN_DOUBT,
            reason="row 10",
            parked_at=NOW - timedelta(seconds=number),
        )
        for number in range(4 * PAGE)
    ]
    drive(store.parking.park(parked))

    labels, total = oldest(store.parking, Counting(host="h"), 3)

    assert ([label.id for label in labels], total) == (["1998", "1996", "1994"], 2 * PAGE)
    assert max(Counting.counts) <= PAGE + 10
