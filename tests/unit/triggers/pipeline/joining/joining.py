"""Joins over a history in memory; the test moves its clock."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from history import EntryOutcome, MemoryHistory, Message, Parked, State, Uuid
from history.bridge import drive
from history.store import Period
from tests.unit.helpers.in_memory import NO_FILE, Clock
from triggers import Joined, Trigger, trigger
from triggers.pipeline.joining.pipeline import JoiningPipeline

NAME = "ship"
DESTINATIONS = ("orders", "payments")


class Bench:
    """A history, its clock, and looks into it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.history = MemoryHistory(clock=self.clock)

    def trigger(self, service: Callable[..., Any], **settings: Any) -> Trigger[..., Any]:
        given: dict[str, Any] = {"name": NAME, "history": self.history, "join": "all"}
        given |= {"local_parking_file": NO_FILE, **settings}
        made: Trigger[..., Any] = trigger(DESTINATIONS, **given)(service)
        return made

    def later(self, **duration: float) -> None:
        self.clock.now += timedelta(**duration)

    def state_of(self, uuid: str) -> State | EntryOutcome | None:
        entry = drive(self.history.lookup(NAME, [uuid]))[0]
        return None if entry is None else entry.outcome or entry.state

    @property
    def parked(self) -> list[Parked]:
        return list(drive(self.history.parking.list(trigger=NAME)))

    @property
    def waiting(self) -> list[Period]:
        return list(drive(self.history.joining.waiting(NAME)))


class Runs:
    """A service that records the uuids of its messages, and raises the given failures."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.seen: list[list[str | None]] = []

    def __call__(self, joined: Joined) -> None:
        self.seen.append([message.uuid for message in joined.values()])
        if self.failures:
            raise self.failures.pop(0)


def sent(uuid: str, place: str = "orders", activation: str | None = "a", body: Any = None) -> Message:
    properties: dict[str, Any] = {} if activation is None else {"activation": activation}
    body = {"of": uuid} if body is None else body
    return Message(body=body, uuid=Uuid(uuid), destination=place, properties=properties)


def joining_of(made: Trigger[..., Any]) -> JoiningPipeline:
    pipeline = made.pipeline()
    assert isinstance(pipeline, JoiningPipeline)
    return pipeline


def sweep(made: Trigger[..., Any]) -> list[Any]:
    """Settle all due joins, as a consumer's workers do."""
    pipeline = joining_of(made)
    return [
        outcome for period in drive(pipeline.take_due()) for outcome in drive(pipeline.settle_period(period))
    ]


def no_pause(_: float) -> None:
    """Stand for ``time.sleep``."""


def both_bodies(order: Any, payment: Any) -> object:
    return order, payment


def shipping(*failures: BaseException, **settings: Any) -> tuple[Bench, Trigger[..., Any], Runs]:
    """Return a bench, its trigger that joins all, and the service, which raises these failures."""
    bench, runs = Bench(), Runs(*failures)
    return bench, bench.trigger(runs, **settings), runs
