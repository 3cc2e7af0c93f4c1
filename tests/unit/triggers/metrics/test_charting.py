"""A consumer's part in the charts; the test controls the clock."""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from history import HistoryUnavailableError, MemoryHistory
from history.beside.charts import ChartStep
from history.bridge import drive
from history.memory.records import MemoryRecords
from history.store import Counts, Report
from tests.fixtures.beside import kept_in
from tests.unit.helpers.in_memory import Clock
from triggers.metrics import charting
from triggers.metrics.charting import Charting


class Server:
    """A history in memory with a clock that the test moves, and its two consumers."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryHistory(clock=self.clock)
        self.consumers = [Charting(self.store, ["book", "ship"]) for _ in range(2)]

    def beat(self, seconds: float = 0, *, new: int = 0) -> None:
        """Let time pass, and let both consumers add their due counts."""
        self.clock.now += timedelta(seconds=seconds)
        drive(
            self.store.control.beat("token", [Report(consumer="a", trigger="book", counts=Counts(new=new))])
        )
        for consumer in self.consumers:
            drive(consumer.note(self.clock.now))

    def steps(self, trigger: str = "book") -> Sequence[ChartStep]:
        charts = kept_in(self.store).charts
        return drive(charts.steps(trigger))


def at(steps: Sequence[ChartStep]) -> list[datetime]:
    return [step.at for step in steps]


def test_each_minute_has_one_step_of_each_trigger_with_the_sums_of_all_consumers() -> None:
    server = Server()
    began = server.clock.now = server.clock.now.replace(second=0, microsecond=0)

    for second in range(150):
        server.beat(1, new=second)

    assert at(server.steps()) == [began + timedelta(seconds=second) for second in (1, 60, 120)]
    assert at(server.steps("ship")) == at(server.steps())
    assert [step.counts.new for step in server.steps()] == [0, 59, 119]
    assert [step.parked for step in server.steps()] == [0, 0, 0]


def test_a_beat_adds_few_steps_to_a_slow_history_and_the_next_beats_add_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server()
    monkeypatch.setattr(charting, "LONGEST", 0.0)
    server.consumers.pop()

    server.beat()
    first = [name for name in ("book", "ship") if server.steps(name)]
    server.beat(1)

    assert len(first) == 1
    assert len(server.steps("book")) == len(server.steps("ship")) == 1


def test_a_history_that_refuses_steps_costs_nothing_else_and_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    server.consumers.pop()

    async def get(*_: Any, **__: Any) -> Any:
        raise HistoryUnavailableError("reading records")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(MemoryRecords, "get", get)
        for _ in range(3):
            server.beat(60)
    server.beat(60)

    assert len(server.steps()) == 1
    assert len(caplog.records) == 1
