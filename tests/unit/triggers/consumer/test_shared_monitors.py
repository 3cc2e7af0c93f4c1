"""Triggers of a consumer share a monitor: it is called once per interval, and its yes counts for all."""

import threading
from collections.abc import Callable
from datetime import timedelta

from history.bridge import drive
from history.memory import MemoryHistory
from history.shell import ThreadShell
from tests.fixtures.waiting import PATIENCE
from triggers import Message, trigger
from triggers.consumer.gate import Gate
from triggers.consumer.housekeeping import Housekeeping, Monitor, Monitors
from triggers.detection.suspension import Suspension

INTERVAL = 60.0
AT_ONCE = 1000.0


class Resource:
    """A resource that two triggers need, and a monitor that counts its calls."""

    def __init__(self, *, available: bool = False) -> None:
        self.available = available
        self.asked = 0

    def is_available(self) -> bool:
        self.asked += 1
        return self.available


def housekeeping_of(name: str, ask: Callable[[], bool], monitor: Monitor | None) -> Housekeeping:
    @trigger(
        "orders",
        name=name,
        history=MemoryHistory(),
        monitor=ask,
        monitor_interval=timedelta(seconds=INTERVAL),
    )
    def work(message: Message) -> None: ...

    return Housekeeping(gate=Gate(work), pipeline=work.pipeline(), shell=ThreadShell(), monitor=monitor)


def two_triggers(resource: Resource) -> tuple[Housekeeping, Housekeeping]:
    monitors = Monitors()
    # Not the same object: Python binds a method again at each access.
    first, second = (
        housekeeping_of(name, resource.is_available, monitors.of(resource.is_available)) for name in "ab"
    )
    return first, second


def runs_at(housekeeping: Housekeeping, now: float) -> bool:
    drive(housekeeping.wake(now))
    return housekeeping.gate.suspended is None


def test_it_is_asked_once_in_an_interval_for_all_its_triggers() -> None:
    resource = Resource()
    both = two_triggers(resource)
    for one in both:
        one.gate.suspend("for the test", Suspension.RESOURCE)

    for second in range(3 * int(INTERVAL)):
        for one in both:
            assert not runs_at(one, AT_ONCE + second)

    assert resource.asked == 3


def test_its_yes_resumes_all_that_were_suspended_when_it_was_asked() -> None:
    resource = Resource()
    first, second = two_triggers(resource)
    for one in (first, second):
        one.gate.suspend("for the test", Suspension.RESOURCE)
        assert not runs_at(one, AT_ONCE)

    resource.available = True

    assert runs_at(second, AT_ONCE + INTERVAL)
    assert runs_at(first, AT_ONCE + INTERVAL + 0.1)
    assert resource.asked == 2


def test_its_yes_is_not_for_a_trigger_that_is_suspended_later() -> None:
    resource = Resource(available=True)
    first, second = two_triggers(resource)
    first.gate.suspend("for the test", Suspension.RESOURCE)
    assert runs_at(first, AT_ONCE)

    second.gate.suspend("for the test", Suspension.RESOURCE)

    assert not runs_at(second, AT_ONCE + 1)
    assert runs_at(second, AT_ONCE + INTERVAL)
    assert resource.asked == 2


def test_after_the_return_of_the_history_it_is_asked_once_for_all() -> None:
    resource = Resource()
    both = two_triggers(resource)
    for one in both:
        one.gate.suspend("for the test", Suspension.HISTORY)
        assert not runs_at(one, AT_ONCE)

    for second in range(1, int(INTERVAL)):
        for one in both:
            assert not runs_at(one, AT_ONCE + second)

    assert resource.asked == 1


def test_while_it_hangs_no_other_trigger_asks_it_again() -> None:
    begun, may_end = threading.Event(), threading.Event()
    asked: list[bool] = []

    def hang() -> bool:
        asked.append(True)
        begun.set()
        return may_end.wait(PATIENCE)

    monitors = Monitors()
    first, second = (housekeeping_of(name, hang, monitors.of(hang)) for name in "ab")
    for one in (first, second):
        one.gate.suspend("for the test", Suspension.RESOURCE)
    hanging = threading.Thread(target=runs_at, args=(first, AT_ONCE))
    hanging.start()
    begun.wait(PATIENCE)

    for interval in range(3):
        assert not runs_at(second, AT_ONCE + interval * INTERVAL)
    may_end.set()
    hanging.join()

    assert len(asked) == 1
    assert runs_at(second, AT_ONCE + 3 * INTERVAL)
    assert first.gate.suspended is None


def test_other_functions_are_other_monitors() -> None:
    monitors, one, other = Monitors(), Resource(), Resource()

    assert monitors.of(one.is_available) is monitors.of(one.is_available)
    assert monitors.of(one.is_available) is not monitors.of(other.is_available)
    assert monitors.of(None) is None
