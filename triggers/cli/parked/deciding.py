"""Ask about a decision, and carry it out."""

import getpass
import os
from collections.abc import Sequence

import typer

from history.beside.parking import Parking
from history.bridge import drive
from history.store import HistoryStore
from history.store.decisions import DecisionKind, OperatorDecision
from history.store.parking import ParkedLabel
from triggers.cli.parked.options import DecisionRequest
from triggers.cli.shared.options import confirm
from triggers.cli.shared.output import CliState
from triggers.operations.choosing import nothing_like, summary
from triggers.operations.decisions import decided_under
from triggers.operations.messages import row_of
from triggers.security.commands import os_user

#: How many rows a table of decisions has.
SHOWN = 50


COLUMNS = ["id", "trigger", "kind", "uuid", "parked_at", "reason"]

_QUESTIONS = {DecisionKind.DONE: "Settle as done:", DecisionKind.DISCARD: "Discard for good:"}
_WORDS = {DecisionKind.DONE: "done", DecisionKind.DISCARD: "discarded"}


def carry_out(
    state: CliState,
    kind: DecisionKind,
    request: DecisionRequest,
    labels: Sequence[ParkedLabel],
    *,
    lot: Parking,
    store: HistoryStore | None,
    security: HistoryStore | None,
) -> None:
    """Show the messages of a decision, ask, and carry it out; the exit code is 1 if a message is left.

    ``store`` has the entries that are settled with it, ``security`` keeps the security log.
    """
    from triggers.pipeline.parking.decisions import decide  # noqa: PLC0415  (listing needs no pipeline)

    if request.dry_run or not labels:
        return preview(state, labels, request, lot=lot)
    confirm(f"{_QUESTIONS[kind]} {summary(labels)}?", yes=request.yes)
    decision = decision_of(kind, request)
    with decided_under(decision, security, labels):
        verdicts = drive(decide(labels, decision, lot=lot, store=store))
    closed = [verdict.label for verdict in verdicts if verdict.left is None]
    left = [verdict for verdict in verdicts if verdict.left is not None]
    if state.as_json:
        state.document(
            [
                row_of(verdict.label) | {"closed": verdict.left is None, "left": verdict.left}
                for verdict in verdicts
            ]
        )
    elif len(closed) > SHOWN:
        state.say(f"{_WORDS[kind]}: {summary(closed)}")
    elif closed:
        state.show(_WORDS[kind], COLUMNS, [row_of(label) for label in closed])
    for verdict in left[:SHOWN]:
        state.say(f"{verdict.label.uuid or verdict.label.id}: still parked: {verdict.left}")
    if left:
        state.note(f"{len(closed)} {_WORDS[kind]}, {len(left)} still parked")
        raise typer.Exit(1)
    return None


def preview(
    state: CliState, labels: Sequence[ParkedLabel], request: DecisionRequest, *, lot: Parking
) -> None:
    """Show the messages of a command."""
    rows = [row_of(label) for label in labels]
    shown = rows if state.as_json else rows[:SHOWN]
    none = "" if labels else nothing_like(lot, request.selection, local=request.local)
    state.show("would be decided", COLUMNS, shown, none=none)
    if labels:
        state.note(f"nothing was changed: {summary(labels)}")


def note(lot: Parking, labels: Sequence[ParkedLabel], decision: OperatorDecision) -> None:
    """Record a decision to run; the messages stay parked until they have run."""
    from triggers.pipeline.parking.decisions import decide  # noqa: PLC0415  (as above)

    drive(decide(labels, decision, lot=lot, store=None))


def decision_of(kind: DecisionKind, request: DecisionRequest) -> OperatorDecision:
    """Return the decision of a command, by the named or logged-in person."""
    by = request.by or login()
    return OperatorDecision(kind=kind, by=by, as_user=str(os_user()), reason=request.reason)


def login() -> str:
    """Return the name of the login."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container with a user that has no name
        return f"user {os.getuid()}"
