"""Another call changes commands or statistics between the reads and the write of a call."""

from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from history.beside.control import Control
from history.bridge import drive
from history.memory.records import MemoryRecords
from history.store import Change, Counts, Overview, Record, Report, Verb

LATER = timedelta(minutes=20)


class OvertakenRecords(MemoryRecords):
    """Records that run another call just before their next write."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        super().__init__(lambda: self.time)
        self.before_step: Callable[[], Coroutine[Any, Any, object]] | None = None

    async def apply(
        self, trigger: str, changes: Sequence[Change], *, each: bool = False
    ) -> Sequence[Record | None]:
        overtake, self.before_step = self.before_step, None
        if overtake is not None:
            await overtake()
        return await super().apply(trigger, changes, each=each)


def counted() -> tuple[OvertakenRecords, Control]:
    """Return records with two old reports that no sweep has found yet."""
    records = OvertakenRecords()
    control = Control(records, lambda: "here")
    for token in "ab":
        drive(control.beat(token, [Report(consumer=token, trigger="t", counts=Counts(new=2))]))
    records.time += LATER
    return records, control


def seen(control: Control) -> Overview:
    return drive(control.overview())


def test_a_sweep_that_another_overtakes_counts_no_report_twice() -> None:
    records, control = counted()
    records.before_step = control.sweep

    drive(control.sweep())

    assert seen(control).statistics == {"t": Counts(new=4)}
    assert drive(control.sweep()) == 0


def test_a_sweep_brings_no_counts_back_that_were_cleared_before_its_step() -> None:
    records, control = counted()
    records.before_step = control.clear

    assert drive(control.sweep()) == 0

    assert seen(control).statistics == {}
    assert drive(control.sweep()) == 2
    assert seen(control).statistics == {}


def test_statistics_that_a_sweep_overtakes_are_cleared_after_it() -> None:
    records, control = counted()
    records.before_step = control.sweep

    drive(control.clear())

    assert seen(control).statistics == {}
    assert seen(control).had_consumer("t")


def test_a_command_that_another_overtakes_has_a_greater_number() -> None:
    records, control = counted()
    numbers: list[int] = []

    async def suspend() -> None:
        numbers.append(await control.order(Verb.SUSPEND, ["t"]))

    records.before_step = suspend
    numbers.append(drive(control.order(Verb.RESUME, ["t"])))

    assert numbers == sorted(set(numbers))
    assert [order.verb for order in seen(control).orders] == [Verb.RESUME]
