"""How long a provider keeps a message that failed transiently."""

from datetime import timedelta
from typing import Any

import pytest

from history import MemoryHistory, Message
from triggers import FatalError, Redelivery, TransientError, Trigger, trigger
from triggers.pipeline import tries

#: An outage of this many seconds gives nothing up with default settings.
OUTAGE = 600


def failing(error: Exception, *, times: int = 1000, **options: Any) -> Trigger[..., Any]:
    failures = [error] * times

    given: dict[str, Any] = {"transacted": True, "history": MemoryHistory(), **options}

    @trigger("orders", name="book", **given)
    def book(message: Message) -> None:
        if failures:
            raise failures.pop()

    return book


def pauses(book: Trigger[..., Any], counts: list[int], uuid: str = "u-1") -> list[float]:
    return [book.handle(Message(body={}, uuid=uuid, delivery_count=n)).recover_after for n in counts]


@pytest.mark.parametrize("counts", [[1, 2, 3, 4, 5, 6, 7, 8], [-1] * 8], ids=["counted", "not counted"])
def test_the_pause_doubles_from_a_second_to_a_minute(counts: list[int]) -> None:
    assert pauses(failing(TransientError("away")), counts) == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_long_outage_takes_a_small_part_of_the_deliveries() -> None:
    terms, waited, deliveries = Redelivery(), 0.0, 0
    while waited < OUTAGE:
        deliveries += 1
        waited += terms.pause(deliveries)

    assert deliveries < 20


def test_a_message_that_succeeded_begins_again() -> None:
    book = failing(TransientError("away"), times=2, detect_duplicates=False)
    before = pauses(book, [-1, -1])
    assert (before, book.handle(Message(body={}, uuid="u-1")).acknowledge) == ([1, 2], True)


def test_only_so_many_messages_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "MOST_REMEMBERED", 3)
    book = failing(TransientError("away"))

    for number in range(5):
        pauses(book, [-1], uuid=f"u-{number}")

    assert (pauses(book, [-1], uuid="u-4"), pauses(book, [-1], uuid="u-0")) == ([2], [1])


@pytest.mark.parametrize(
    ("options", "error", "pause"),
    [
        ({}, TransientError("away"), 4.0),
        ({"history": None}, FatalError("broken"), 4.0),
        ({}, FatalError("broken"), 0.0),  # the next delivery is rejected, and says so
        ({"on_retry_failure": "suspend"}, TransientError("away"), 0.0),  # nothing is received meanwhile
        ({"redelivery": None}, TransientError("away"), 0.0),
        ({"redelivery": Redelivery(timedelta(seconds=5), 1.0)}, TransientError("away"), 5.0),
    ],
    ids=["transient", "no history", "fatal", "suspended", "none", "own"],
)
def test_what_failed_and_what_is_set_decide(options: dict[str, Any], error: Exception, pause: float) -> None:
    assert pauses(failing(error, **options), [3]) == [pause]
