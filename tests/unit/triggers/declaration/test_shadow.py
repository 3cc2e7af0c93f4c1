"""In shadow mode every message runs; the log says which runs would be stopped, and entries stay correct."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from history import Entry, HistoryUnavailableError, MemoryHistory, Settlement, State
from history.bridge import drive
from resolvers import Resolution
from tests.unit.helpers.in_memory import FailingHistory
from triggers import ConfigurationError, Consumer, Message, Outcome, Status, TransientError, trigger
from triggers.guards import Guard, protect
from triggers.providers.memory import MemoryProvider


class Service:
    def __init__(self) -> None:
        self.calls = 0
        self.error: BaseException | None = None

    def __call__(self) -> int:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return self.calls


class GoneAfterwards(MemoryHistory):
    asked = 0

    async def settle(self, trigger: str, settlements: Sequence[Settlement]) -> Sequence[bool]:
        del trigger, settlements
        self.asked += 1
        raise HistoryUnavailableError("completing")


@pytest.fixture
def store() -> MemoryHistory:
    return MemoryHistory()


@pytest.fixture
def service() -> Service:
    return Service()


#: The guards that a test has made.
_made: list[Guard] = []


def shadowing(store: MemoryHistory, **options: Any) -> Guard:
    _made.append(protect("charge", history=store, shadow=True, **options))
    return _made[-1]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close all guards, so that no thread goes on renewing leases."""
    yield
    while _made:
        _made.pop().close()


def entry(store: MemoryHistory) -> Entry | None:
    return drive(store.lookup("charge", ["a"]))[0]


def parked(store: MemoryHistory) -> int:
    return len(drive(store.parking.list(trigger="charge")))


def die(guard: Guard) -> None:
    with pytest.raises(KeyboardInterrupt):
        guard.handle("a", lambda: (_ for _ in ()).throw(KeyboardInterrupt()))


def told(outcome: Outcome) -> tuple[Any, ...]:
    return outcome.status, outcome.executed, outcome.acknowledge, outcome.parked, outcome.would_have


RAN = (Status.NEW, True, True, False)


@pytest.mark.parametrize("error", [None, ValueError("no"), TransientError("later")])
def test_a_duplicate_runs_again_and_leaves_the_entry_as_it_is(
    store: MemoryHistory, service: Service, caplog: pytest.LogCaptureFixture, error: Exception | None
) -> None:
    guard = shadowing(store, on_retry_failure="suspend")
    guard.handle("a", service)
    before = entry(store)
    service.error = error

    again = guard.handle("a", service)

    assert service.calls == 2
    assert (again.executed, again.error, again.would_have, again.row) == (True, error, "duplicate", 8)
    after = entry(store)
    assert before is not None
    assert after is not None
    assert (after.state, after.outcome, after.fence) == (before.state, before.outcome, before.fence)
    assert parked(store) == 0
    lines = [line for line in caplog.messages if "in shadow it runs" in line]
    assert lines == ["a: in shadow it runs; without: DUPLICATE: it already ran; not run again"]


def test_what_is_in_doubt_runs_and_completes_the_entry_of_the_dead_run(
    store: MemoryHistory, service: Service
) -> None:
    guard = shadowing(store, lease=None)
    die(guard)

    first, again = guard.handle("a", service), guard.handle("a", service)

    assert told(first) == (*RAN, "in doubt")
    assert told(again) == (*RAN, "duplicate")
    assert parked(store) == 0


def test_what_runs_elsewhere_runs_beside_it_and_leaves_the_entry_to_that_run(
    store: MemoryHistory, service: Service
) -> None:
    guard = shadowing(store)
    inside: list[Outcome] = []

    outer = guard.handle("a", lambda: inside.append(guard.handle("a", service)))

    assert told(inside[0]) == (*RAN, "in progress")
    assert told(outer) == (*RAN, None)
    found = entry(store)
    assert found is not None
    assert found.state is State.COMPLETED


def test_what_would_be_rejected_runs(store: MemoryHistory, service: Service) -> None:
    guard = shadowing(store, max_delivery_count=3)

    often = guard.handle("a", service, delivery_count=4)
    nameless = guard.handle_message(Message(body=1), service)

    assert told(often) == (*RAN, "rejected")
    assert told(nameless) == (*RAN, "rejected")
    assert (often.rejected, often.event, nameless.event) == (False, None, None)
    assert parked(store) == 0


@pytest.mark.parametrize(
    "error",
    [
        HistoryUnavailableError("claiming"),
        ConfigurationError("history", "its server evicts keys", "use another"),
    ],
    ids=["away", "must not be used"],
)
def test_a_history_that_does_not_claim_stops_nothing(
    error: Exception, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    guard = shadowing(FailingHistory(error, "claim"))

    outcome = guard.handle("a", service)

    assert told(outcome) == (*RAN, "undecided")
    assert (outcome.suspend, outcome.result, outcome.error) == (False, 1, None)
    assert "a: in shadow it runs; without: " in caplog.text


def test_nobody_waits_for_a_history_that_is_away_when_a_run_has_ended(service: Service) -> None:
    store = GoneAfterwards()

    assert told(shadowing(store).handle("a", service)) == (*RAN, None)
    assert store.asked == 1
    assert parked(store) == 0


@pytest.mark.parametrize("broken", [True, False])
def test_no_resolver_stops_a_run(store: MemoryHistory, service: Service, broken: bool) -> None:  # noqa: FBT001
    def resolve(uuid: str, trigger_name: str, message: Message) -> Resolution:
        del uuid, trigger_name, message
        if broken:
            raise TransientError("its database is away")
        return Resolution.DUPLICATE

    guard = shadowing(store, lease=None, resolver=resolve, on_retry_failure="suspend")
    die(guard)

    outcome = guard.handle("a", service)

    assert told(outcome) == (*RAN, "undecided" if broken else "duplicate")
    assert outcome.suspend is False
    found = entry(store)
    assert found is not None
    assert found.state is State.COMPLETED


def test_a_failure_is_left_to_its_caller(store: MemoryHistory, service: Service) -> None:
    service.error = ValueError("no")

    outcome = shadowing(store).handle("a", service)

    assert outcome.error is service.error
    assert outcome.reason == "FAILED: a fatal error; its caller decides (row 7)"
    assert outcome.event is not None
    assert parked(store) == 0


def test_a_consumer_keeps_what_has_failed_for_nobody_else_has_it(store: MemoryHistory) -> None:
    provider, ran = MemoryProvider(), list[str]()

    @trigger("orders", name="charge", history=store, shadow=True)
    def charge(message: Message) -> None:
        ran.append(str(message.uuid))
        if message.body == "bad":
            raise ValueError

    copies = [Message(body="good", uuid="a")] * 2
    drive(provider.send("orders", [*copies, Message(body="bad", uuid="b")]))

    Consumer([charge], provider).run(until_idle=0.01)

    assert ran == ["a", "a", "b"]
    assert [one.uuid for one in drive(store.parking.list(trigger="charge"))] == ["b"]


def test_the_sum_is_told_at_the_end(
    store: MemoryHistory, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    guard = shadowing(store)
    for uuid in "aab":
        guard.handle(uuid, service)

    guard.close()

    assert "trigger charge: in shadow 3 messages ran; of these would have been stopped: 1 duplicate" in (
        caplog.messages
    )


@pytest.mark.parametrize("batch", [1, 2])
def test_a_consumer_tells_the_sum_at_its_end(
    store: MemoryHistory, caplog: pytest.LogCaptureFixture, batch: int
) -> None:
    def charge(message: Message) -> None: ...

    def charge_some(messages: list[Message]) -> None: ...

    service: Any = charge if batch == 1 else charge_some
    shadowed = trigger("orders", name="charge", history=store, shadow=True, batch=batch)(service)
    provider = MemoryProvider()
    drive(provider.send("orders", [Message(body="", uuid=uuid) for uuid in "aab"]))

    Consumer([shadowed], provider).run(until_idle=0.01)

    assert "trigger charge: in shadow 3 messages ran; of these would have been stopped: 1 duplicate" in (
        caplog.text
    )


def do_nothing(message: Message) -> None:
    del message


REFUSED: Mapping[str, Mapping[str, Any]] = {
    "transacted": {"transacted": True},
    "ordered": {"ordered": True},
    "detect_duplicates": {"detect_duplicates": False},
}


@pytest.mark.parametrize("setting", REFUSED)
def test_what_cannot_be_in_shadow_is_refused(store: MemoryHistory, setting: str) -> None:
    options: dict[str, Any] = {"shadow": True, **REFUSED[setting]}

    with pytest.raises(ConfigurationError) as refused:
        trigger("orders", name="charge", history=store, **options)(do_nothing)

    assert str(refused.value).startswith(f"{setting}: ")
