"""Run the service on parked messages, until all have had their turn or a signal comes."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from history.beside.kept import KeepsBeside
from history.beside.parking import Parking
from history.bridge import drive
from history.errors import ConfigurationError
from history.store import HistoryStore
from history.store.decisions import DecisionKind
from history.store.parking import ParkedLabel
from triggers.cli.parked.deciding import SHOWN, decision_of, note
from triggers.cli.parked.options import DecisionRequest
from triggers.cli.shared.output import CliState
from triggers.operations.choosing import summary
from triggers.operations.decisions import decided_under
from triggers.operations.looking import is_in_memory, open_to_look
from triggers.service.options import ConsumersDefault

if TYPE_CHECKING:
    from triggers.consumer.drain import DrainSignals
    from triggers.operations.pacing import RunPace
    from triggers.operations.running import Planned


def refuse_lot_as_history(store: KeepsBeside, runs: "Sequence[Planned]") -> None:
    """Refuse to run messages over the place that ``parking=`` names: it does not have their entries.

    A message that has completed meanwhile would be new there, and run again.

    Raises:
        ConfigurationError: the history of one of the triggers would be its own lot.
    """
    for trigger in {trigger.name: trigger for _, trigger in runs}.values():
        parking = trigger.settings.parking
        if not isinstance(trigger.history_source, ConsumersDefault) or not isinstance(parking, str):
            continue
        if not is_in_memory(parking) and _address_of(parking) == store.control.address:
            problem = f"{trigger.name} parks there, and its entries are in another history"
            remedy = "name that history in the trigger with history=, or run them on the dashboard"
            raise ConfigurationError("--history", problem, remedy)


def _address_of(lot: str) -> str:
    store = open_to_look("parking", lot, dry=True)
    try:
        return store.control.address
    finally:
        drive(store.close())


def run_all(
    state: CliState,
    request: DecisionRequest,
    runs: "Sequence[Planned]",
    barred: Sequence[tuple[ParkedLabel, ConfigurationError]],
    *,
    lot: Parking,
    store: HistoryStore | None,
    pace: "RunPace | None",
) -> bool:
    """Run messages at a pace, and show the results; return whether all are closed.

    ``barred`` are messages that nothing here can run, each with the reason.
    """
    from triggers.consumer.drain import DrainSignals  # noqa: PLC0415  (listing runs nothing)
    from triggers.operations.running import left_row, run_each  # noqa: PLC0415  (as above)
    from triggers.pipeline.parking.decisions import Outcomes  # noqa: PLC0415  (as above)

    decision, signals, labels = (
        decision_of(DecisionKind.RUN, request),
        DrainSignals(),
        [label for label, _ in runs],
    )
    left = [left_row(label, f"{why.problem}; {why.remedy}") for label, why in barred]
    outcomes, take_turn = Outcomes(lot, decision), partial(_take_turn, pace, signals)
    with decided_under(decision, store, labels), signals:
        note(lot, labels, decision)
        try:
            rows = run_each(lot, runs, request.history, outcomes, take_turn=take_turn)
            return _show(state, chain(left, rows))
        finally:
            drive(outcomes.write())


def _take_turn(pace: "RunPace | None", signals: "DrainSignals") -> bool:
    """Wait for the turn of a message; return False after a signal."""
    if pace is None:
        return signals.received is None
    return pace.wait(lambda: signals.received is not None)


def described(labels: Sequence[ParkedLabel]) -> str:
    """Return messages in words: each of a few, or how many."""
    if len(labels) > SHOWN:
        return summary(labels)
    return ", ".join(f"{label.trigger_name} on {label.uuid or label.id} ({label.kind})" for label in labels)


def _show(state: CliState, rows: Iterable[dict[str, Any]]) -> bool:
    """Print the result of each message as it comes; return whether all of them are closed.

    Messages that have had no turn after a signal are only counted, except for programs.
    """
    from triggers.operations.running import STOPPED  # noqa: PLC0415  (listing runs nothing)

    shown: list[dict[str, Any]] = []
    stopped = 0
    try:
        for row in rows:
            shown.append(row)
            if row["reason"] == STOPPED:
                stopped += 1
                continue
            end = "closed" if row["closed"] else "still parked"
            state.say(": ".join(filter(None, [row["uuid"] or row["id"], end, row["reason"], row["error"]])))
    finally:
        if state.as_json:
            state.document(shown)
        if stopped:
            state.note(f"stopped: {stopped:,} have had no turn and stay parked; the same command continues")
    return all(row["closed"] for row in shown)
