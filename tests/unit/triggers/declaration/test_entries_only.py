"""A history without records: features that need records are refused, and all others work."""

from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from history import ConfigurationError, HistoryStore, MemoryHistory, Message
from history.bridge import drive
from history.opening import open_local_parking
from history.store import DecisionKind, OperatorDecision, ParkedLabel
from tests.fixtures.beside import EntriesOnly
from tests.unit.helpers.in_memory import Effects, made, message
from triggers import Consumer, Status, trigger
from triggers.cli.checks.findings import Away, Level
from triggers.cli.checks.stores import of_history
from triggers.dashboard.operations import Operations
from triggers.guards import protect
from triggers.pipeline.parking.decisions import decide
from triggers.pipeline.parking.sweep import sweep
from triggers.providers.memory import MemoryProvider


@pytest.fixture
def store() -> HistoryStore:
    return cast("HistoryStore", EntriesOnly())


def test_a_message_runs_once_and_its_copy_is_a_duplicate(store: HistoryStore) -> None:
    effects = Effects()
    book = made(effects, history=store, lease=timedelta(seconds=30))

    outcomes = [book.handle(message()) for _ in range(2)]

    assert [outcome.status for outcome in outcomes] == [Status.NEW, Status.DUPLICATE]
    assert len(effects.runs) == 1


def test_a_message_in_doubt_is_parked_in_the_local_file(store: HistoryStore, tmp_path: Path) -> None:
    book = made(Effects(), history=store, local_parking_file=tmp_path / "parked.sqlite3")
    drive(store.claim(book.name, ["u-1"], "somebody who died"))

    outcome = book.handle(message())

    assert (outcome.status, outcome.parked, outcome.acknowledge) == (Status.IN_DOUBT, True, True)
    local = open_local_parking(tmp_path / "parked.sqlite3", None)
    assert [parked.uuid for parked in drive(local.parking.list())] == ["u-1"]
    drive(local.close())


class Delegate:
    """An object that passes everything on to another object, as a store in a user's test may do."""

    def __init__(self, to: object) -> None:
        self._to = to

    def __getattr__(self, name: str) -> Any:
        return getattr(self._to, name)


def park_one(store: HistoryStore, **options: Any) -> None:
    book = made(Effects(), history=store, **options)
    drive(store.claim(book.name, ["u-1"], "somebody who died"))

    outcome = book.handle(message())

    assert (outcome.status, outcome.parked) == (Status.IN_DOUBT, True)


def test_a_store_that_delegates_to_another_parks_where_that_one_parks() -> None:
    store = MemoryHistory()

    park_one(cast("HistoryStore", Delegate(store)))

    assert [parked.uuid for parked in drive(store.parking.list())] == ["u-1"]


def test_a_parking_lot_of_the_user_takes_messages() -> None:
    store = MemoryHistory()

    park_one(MemoryHistory(), parking=Delegate(store.parking))

    assert [parked.uuid for parked in drive(store.parking.list())] == ["u-1"]


def test_a_consumer_receives_although_no_command_reaches_it(
    store: HistoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    provider, bodies = MemoryProvider(), list[object]()

    @trigger("orders", history=store)
    def book(order: Message) -> None:
        bodies.append(order.uuid)
        if len(bodies) == 2:
            consumer.stop()

    drive(provider.send("orders", [message(uuid) for uuid in ("u-1", "u-1", "u-2")]))
    consumer = Consumer([book], provider)
    consumer.run()

    assert bodies == ["u-1", "u-2"]
    assert [record.name for record in caplog.records if record.name == "triggers.consumer.orders"] == []


def test_a_guard_and_a_sweep_need_no_records(store: HistoryStore) -> None:
    calls, guard = list[str](), protect("charge", history=store)

    for _ in range(2):
        guard.handle("u-1", lambda: calls.append("u-1"))

    assert calls == ["u-1"]
    assert drive(sweep("charge", store, None)) is None


@pytest.mark.parametrize(
    ("setting", "options"),
    [
        ("keep_result", {"keep_result": True}),
        ("fingerprint", {"fingerprint": "body"}),
        ("journal", {"journal": True}),
    ],
)
def test_an_option_that_needs_records_is_refused(
    store: HistoryStore, setting: str, options: dict[str, Any]
) -> None:
    book = made(Effects(), history=store, **options)

    with pytest.raises(ConfigurationError) as refused:
        book.handle(message())

    assert refused.value.setting == setting


def test_the_doctor_finds_no_problem(store: HistoryStore) -> None:
    settings = made(Effects(), history=store).settings

    findings = list(of_history(Away(), "history", store, settings, list))

    assert {finding.level for finding in findings} == {Level.OK, Level.WARNING}  # its entries are in memory


def test_a_decision_about_a_message_in_another_lot_settles_its_entry(store: HistoryStore) -> None:
    lot = MemoryHistory().parking
    book = made(Effects(), history=store, parking=lot)
    drive(store.claim(book.name, ["u-1"], "somebody who died"))
    book.handle(message())
    labels = [ParkedLabel.of(parked) for parked in drive(lot.list())]

    (verdict,) = drive(
        decide(labels, OperatorDecision(kind=DecisionKind.DONE, by="ana"), lot=lot, store=store)
    )

    assert verdict.left is None
    assert book.handle(message()).status is Status.DUPLICATE


def test_the_dashboard_needs_records(store: HistoryStore) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Operations.over(store, "memory://", [])

    assert refused.value.setting == "history"
