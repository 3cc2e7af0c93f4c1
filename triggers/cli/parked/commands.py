"""``doubtless parked``: decide what was kept aside."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

from history.bridge import drive
from history.errors import ConfigurationError
from history.store import HistoryStore
from history.store.decisions import DecisionKind
from history.store.parking import Parked, ParkedKind, ParkedLabel, Parking, oldest_first
from history.support.rendering import repr_of, text_of
from triggers.cli.parked.choosing import Selection, chosen, get, summary, walk, with_selection
from triggers.cli.parked.deciding import (
    COLUMNS,
    SHOWN,
    carry_out,
    decision_of,
    decision_rows,
    lot_names,
    note,
    preview,
    row_of,
)
from triggers.cli.shared.configured import configuration_of
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.messages import whole
from triggers.cli.shared.options import (
    HISTORY_OPTION,
    TRIGGER_OPTION,
    YES_OPTION,
    confirm,
    opened,
    opened_local,
    trigger_names,
)
from triggers.cli.shared.output import State

if TYPE_CHECKING:
    from triggers.consumer.options import AnyTrigger
    from triggers.pipeline.parking.outcomes import Outcomes
    from triggers.service.outcome import Outcome

app = typer.Typer(
    no_args_is_help=True,
    help="In Doubt, rejected and unreadable messages: look, run, settle as done or discard.",
)

_LOCAL_OPTION: Any = typer.Option(False, "--local", help="In this machine's file, not beside the history.")
_ID: Any = typer.Argument(help="The id, or a beginning of it that is unique.")
_IDS: Any = typer.Argument(None, help="Ids, or beginnings of them that are unique; or give filters.")
_REASON_OPTION: Any = typer.Option(None, "--reason", help="Why; it is kept with the decision.")
_BY_OPTION: Any = typer.Option(None, "--by", help="Who has decided; the name of the login by default.")
_DRY_RUN_OPTION: Any = typer.Option(False, "--dry-run", help="Only show what it would be about.")
_DECISION_COLUMNS = ["at", "trigger", "decision", "by", "messages", "reason", "outcome"]


@app.command("list")
@with_general_options
@with_selection
def list_(
    context: typer.Context,
    selection: Selection,
    history: str | None = HISTORY_OPTION,
    limit: int = typer.Option(50, min=1, help="At most so many."),
    local: bool = _LOCAL_OPTION,
) -> None:
    """List parked messages, oldest first; In Doubt ones whose original has completed are closed first."""
    trigger = selection.trigger
    with _lot(history, local=local) as (lot, store):
        if store is not None and not local:
            from triggers.pipeline.parking.sweep import LOOKED_AT, close_settled  # noqa: PLC0415  (loads the pipeline)

            for name in trigger_names(store, trigger):
                drive(close_settled(name, store, lot, limit=LOOKED_AT))
        if selection.filters:
            found = oldest_first(walk(lot, selection))
            total = len(found)
        else:
            found = [ParkedLabel.of(parked) for parked in drive(lot.list(trigger=trigger, limit=limit))]
            total = drive(lot.count(trigger=trigger))
    rows = [row_of(label) for label in found[:limit]]
    State.of(context).show("parked", COLUMNS, rows, total=total, none="nothing is parked")


@app.command()
@with_general_options
def show(
    context: typer.Context,
    parked_id: str = _ID,
    history: str | None = HISTORY_OPTION,
    local: bool = _LOCAL_OPTION,
) -> None:
    """Show one parked message whole, as JSON: headers, body, evidence, error and its traceback.

    A body of bytes is shown as text where it is UTF-8, else in base64; "body-kind" says which. The traceback,
    "error_trace", is also printed on standard error, line by line, unless --json is given.
    """
    with _lot(history, local=local) as (lot, _):
        parked = get(lot, parked_id)
    shown = parked.model_dump(mode="json")
    state = State.of(context)
    state.document(shown | {"message": None if parked.message is None else whole(parked.message)})
    if parked.error_trace is not None and not state.as_json:
        for line in parked.error_trace.splitlines():
            state.note(line)


@app.command()
@with_general_options
@with_selection
def run(
    context: typer.Context,
    selection: Selection,
    module: str = typer.Argument(help="The module of the trigger."),
    parked_ids: list[str] | None = _IDS,
    history: str | None = HISTORY_OPTION,
    local: bool = _LOCAL_OPTION,
    reason: str | None = _REASON_OPTION,
    by: str | None = _BY_OPTION,
    dry_run: bool = _DRY_RUN_OPTION,
    yes: bool = YES_OPTION,
) -> None:
    """Run the service on parked messages after all: somebody has decided that they are NEW.

    The entry is taken over, so a run that is still alive somewhere cannot complete it as well; a message that
    has completed meanwhile is a DUPLICATE and is closed. The exit code is 1 when one of them stays parked.
    """
    from triggers.cli.shared.loading import collect  # noqa: PLC0415  (the other commands run no trigger)
    from triggers.pipeline.parking.outcomes import Outcomes  # noqa: PLC0415  (as above)

    state = State.of(context)
    triggers = collect(module, configuration=configuration_of(state), tasks=True)
    with _lot(history, local=local) as (lot, _):
        labels = chosen(lot, parked_ids or [], selection)
        runs = [(label, _trigger_of(label, triggers)) for label in labels]
        if dry_run or not labels:
            return preview(state, labels)
        if not yes:
            few = ", ".join(_described(label, trigger) for label, trigger in runs)
            confirm(f"Run {few if len(runs) <= SHOWN else summary(labels)}?")
        decision = decision_of(DecisionKind.RUN, reason, by)
        note(lot, labels, decision)
        outcomes = Outcomes(lot, decision)
        try:
            rows = [run_row(lot, label, trigger, history, outcomes) for label, trigger in runs]
        finally:
            drive(outcomes.write())
    if state.as_json:
        state.document(rows)
    for row in rows:
        error = [] if row["error"] is None else [row["error"]]
        end = "closed" if row["closed"] else "still parked"
        state.say(": ".join([row["uuid"] or row["id"], end, row["reason"], *error]))
    if not all(row["closed"] for row in rows):
        raise typer.Exit(1)
    return None


def run_row(
    lot: Parking, label: ParkedLabel, trigger: "AnyTrigger", history: str | None, outcomes: "Outcomes"
) -> dict[str, Any]:
    """Run the service on one parked message, return what came of it, and have it in the audit trail."""
    try:
        row = _run_row(lot, label, trigger, history)
    except Exception as error:
        drive(outcomes.add(label, f"failed: {text_of(error)}", closed=False))
        raise
    drive(outcomes.add(label, _outcome_in_words(row), closed=row["closed"]))
    return row


def _run_row(lot: Parking, label: ParkedLabel, trigger: "AnyTrigger", history: str | None) -> dict[str, Any]:
    parked = drive(lot.get(label.id, trigger=label.trigger_name))
    if parked is None:  # somebody else has decided meanwhile
        gone = {"executed": False, "status": None, "reason": "it is not parked any more", "error": None}
        return {"id": label.id, "uuid": label.uuid, "closed": True, **gone}
    return _outcome_row(parked, _run(trigger, parked, lot, history))


def _outcome_in_words(row: dict[str, Any]) -> str:
    if row["executed"] and row["closed"]:
        return "it ran, and completed"
    if row["executed"]:
        return f"failed: {row['error'] or row['reason']}"
    return f"not run: {row['reason']}" if row["closed"] else f"refused: {row['reason']}"


def _described(label: ParkedLabel, trigger: "AnyTrigger") -> str:
    return f"{trigger.name} on {label.uuid or label.id} ({label.kind})"


def _run(trigger: "AnyTrigger", parked: Parked, lot: Parking, history: str | None) -> "Outcome":
    from triggers.cli.rerun import run_parked  # noqa: PLC0415  (as above)

    if history is not None:
        trigger.use_default_history(history)
    if not trigger.is_async:
        try:
            return drive(run_parked(trigger, parked, lot))
        finally:
            trigger.close()

    async def run_and_close() -> "Outcome":
        try:
            return await run_parked(trigger, parked, lot)
        finally:
            await trigger.aclose()

    return asyncio.run(run_and_close())


def _outcome_row(parked: Parked, outcome: "Outcome") -> dict[str, Any]:
    return {
        "id": parked.id,
        "uuid": parked.uuid,
        "closed": outcome.acknowledge and not outcome.parked,
        "executed": outcome.executed,
        "status": outcome.status,
        "reason": outcome.reason,
        "error": None if outcome.error is None else repr_of(outcome.error),
    }


@app.command()
@with_general_options
@with_selection
def done(
    context: typer.Context,
    selection: Selection,
    parked_ids: list[str] | None = _IDS,
    history: str | None = HISTORY_OPTION,
    local: bool = _LOCAL_OPTION,
    reason: str | None = _REASON_OPTION,
    by: str | None = _BY_OPTION,
    dry_run: bool = _DRY_RUN_OPTION,
    yes: bool = YES_OPTION,
) -> None:
    """Settle parked messages as done: somebody has found that their effects are there.

    Their entries are completed, so that further copies are duplicates, and they are taken out. One that is
    running, or that was started again since it was parked, is left alone: then the exit code is 1.
    """
    with _lot(history, local=local, entries=True) as (lot, store):
        if store is None:
            raise ConfigurationError(
                "--history", "is missing: it has the entries of what was parked in the local file", "give it"
            )
        labels = chosen(lot, parked_ids or [], selection)
        decision = decision_of(DecisionKind.DONE, reason, by)
        carry_out(State.of(context), labels, decision, lot=lot, store=store, dry_run=dry_run, yes=yes)


@app.command()
@with_general_options
@with_selection
def discard(
    context: typer.Context,
    selection: Selection,
    parked_ids: list[str] | None = _IDS,
    history: str | None = HISTORY_OPTION,
    local: bool = _LOCAL_OPTION,
    reason: str | None = _REASON_OPTION,
    by: str | None = _BY_OPTION,
    dry_run: bool = _DRY_RUN_OPTION,
    yes: bool = YES_OPTION,
) -> None:
    """Drop parked messages for good: somebody has decided that they are not wanted.

    Their entries stay as they are, so that a further copy of an In Doubt message is In Doubt again. If the
    effect is there, settle the message as "done".
    """
    with _lot(history, local=local) as (lot, _):
        labels = chosen(lot, parked_ids or [], selection)
        decision = decision_of(DecisionKind.DISCARD, reason, by)
        carry_out(State.of(context), labels, decision, lot=lot, store=None, dry_run=dry_run, yes=yes)


@app.command()
@with_general_options
def resolve(
    context: typer.Context,
    module: str = typer.Argument(help="The module of the trigger."),
    parked_id: str = _ID,
    history: str | None = HISTORY_OPTION,
    local: bool = _LOCAL_OPTION,
) -> None:
    """Ask the trigger's resolver what a parked message is now; nothing is changed.

    It is asked with the evidence that was parked. The exit code is 1 when it fails.
    """
    from triggers.cli.parked.resolving import answer_now  # noqa: PLC0415  (the others ask no resolver)
    from triggers.cli.shared.loading import collect  # noqa: PLC0415  (as above)

    state = State.of(context)
    triggers = collect(module, configuration=configuration_of(state), tasks=True)
    with _lot(history, local=local) as (lot, _):
        parked = get(lot, parked_id)
    answer = answer_now(_trigger_of(ParkedLabel.of(parked), triggers), parked)
    if state.as_json:
        found = {"id": parked.id, "uuid": parked.uuid}
        state.document(found | {"resolution": answer.resolution, "reason": answer.reason})
    else:
        said = answer.resolution or "the resolver failed"
        state.say(": ".join(filter(None, [parked.uuid or parked.id, said, answer.reason])))
    if answer.resolution is None:
        raise typer.Exit(1)


@app.command()
@with_general_options
def decisions(
    context: typer.Context,
    history: str | None = HISTORY_OPTION,
    trigger: str | None = TRIGGER_OPTION,
    limit: int = typer.Option(50, min=1, help="At most so many."),
    local: bool = _LOCAL_OPTION,
) -> None:
    """Show who has run, settled or discarded parked messages, why, and what came of it, the newest first.

    None of it is ever deleted; --json names the messages.
    """
    with _lot(history, local=local) as (lot, store):
        names = [trigger] if trigger is not None else lot_names(lot, None if local else store)
        rows = [row for name in names for row in islice(decision_rows(lot, name), limit)]
    newest = sorted(rows, key=lambda row: row["at"], reverse=True)[:limit]
    state = State.of(context)
    if not state.as_json:
        newest = [row | {"messages": len(row["messages"])} for row in newest]
    state.show("decisions", _DECISION_COLUMNS, newest, none="nothing was decided")


@contextmanager
def _lot(
    history: str | None, *, local: bool, entries: bool = False
) -> Generator[tuple[Parking, HistoryStore | None]]:
    """Open a lot, and the history beside it; beside the local file none, unless its entries are asked for."""
    if not local:
        with opened(history) as store:
            yield store.parking, store
        return
    with opened_local() as lot:
        if lot is None:
            raise ConfigurationError("--local", "this machine has parked nothing", "leave it out")
        if not history or not entries:
            yield lot, None
            return
        with opened(history) as store:
            yield lot, store


def _trigger_of(label: ParkedLabel, triggers: "Sequence[AnyTrigger]") -> "AnyTrigger":
    if label.kind is ParkedKind.UNREADABLE:
        raise ConfigurationError("PARKED_ID", f"{label.id} was no message", "send it mended, or discard it")
    for trigger in triggers:
        if trigger.name == label.trigger_name:
            return trigger
    raise ConfigurationError(
        "MODULE", f"it has no trigger {label.trigger_name!r}", "name the module that has it"
    )
