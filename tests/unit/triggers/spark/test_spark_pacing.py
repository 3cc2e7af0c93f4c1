"""At most so many calls of a service per second."""

import math
from typing import Any

import pytest

pytest.importorskip("pyspark")

from history import ConfigurationError, MemoryHistory
from history.bridge import drive
from triggers import Message, trigger
from triggers.spark.row_service.running import CallPace, check_pace, paced


def test_calls_begin_evenly_however_late_they_are_asked_for() -> None:
    now = 100.0
    pace = CallPace(4.0, lambda: now)

    at_once = [pace.wait() for _ in range(4)]
    now = 110.0
    later = [pace.wait() for _ in range(2)]

    assert at_once == [0.0, 0.25, 0.5, 0.75]
    assert later == [0.0, 0.25]  # unused calls are lost: no bursts


def test_only_calls_of_the_service_wait() -> None:
    ran: list[str] = []

    @trigger("orders", name="book", history=MemoryHistory())
    def book(message: Message) -> None:
        ran.append(str(message.uuid))

    now = 0.0
    pace = CallPace(1000.0, lambda: now)
    pipeline = paced(book.pipeline(), pace)
    orders = [Message(uuid=uuid, body="") for uuid in ("a", "b", "a")]

    drive(pipeline.handle_batch(orders))

    assert ran == ["a", "b"]
    assert pace.wait() == pytest.approx(2 / 1000)
    book.close()


def test_without_a_pace_a_pipeline_stays_as_it_is() -> None:
    @trigger("orders", name="book", history=MemoryHistory())
    def book(message: Message) -> None: ...

    pipeline = book.pipeline()

    assert paced(pipeline, None) is pipeline


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, True, "10"])
def test_what_is_no_pace_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError) as error:
        check_pace("calls_per_second", value)

    assert error.value.setting == "calls_per_second"
