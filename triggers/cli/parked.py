"""``doubtless parked``: decide what was kept aside."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from history.bridge import drive
from history.errors import ConfigurationError, DoubtlessError
from history.store.parking import Parked, Parking
from history.support.rendering import repr_of
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.messages import whole
from triggers.cli.shared.options import (
    HISTORY_OPTION,
    TRIGGER_OPTION,
    YES_OPTION,
    confirm,
    opened,
    opened_local,
)
from triggers.cli.shared.output import State

if TYPE_CHECKING:
    from triggers.consumer.options import AnyTrigger
    from triggers.service.outcome import Outcome

app = typer.Typer(
    no_args_is_help=True, help="In Doubt, rejected and unreadable messages: look, run or discard."
)

_LOCAL_OPTION: Any = typer.Option(False, "--local", help="In this machine's file, not beside the history.")
_ID: Any = typer.Argument(help="The id, or a beginning of it that is unique.")
_IDS: Any = typer.Argument(help="Ids, or beginnings of them that are unique.")
_COLUMNS = ["id", "trigger", "kind", "uuid", "parked_at", "reason"]


class NotParkedError(DoubtlessError):
    """There is no such parked message."""

    def __init__(self, parked_id: str) -> None:
        super().__init__(f"PARKED_ID: {parked_id} is not parked; see: doubtless parked list")


@app.command("list")
@with_general_options
def list_(
    context: typer.Context,
    history: str | None = HISTORY_OPTION,
    trigger: str | None = TRIGGER_OPTION,
    limit: int = typer.Option(50, min=1, help="At most so many."),
    local: bool = _LOCAL_OPTION,
) -> None:
    """List parked messages, oldest first; In Doubt ones whose original has completed are closed first."""
    with _lot(history, local=local) as lot:
        if not local:
            from triggers.pipeline.sweep import close_settled  # noqa: PLC0415  (loads the pipeline)

            with opened(history) as store:
                for name in drive(store.triggers()) if trigger is None else [trigger]:
                    drive(close_settled(name, store, lot))
        found = drive(lot.list(trigger=trigger, limit=limit))
        total = drive(lot.count(trigger=trigger))
    rows = [_row(message) for message in found]
    State.of(context).show("parked", _COLUMNS, rows, total=total, none="nothing is parked")


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
    with _lot(history, local=local) as lot:
        parked = _get(lot, parked_id)
    shown = parked.model_dump(mode="json")
    state = State.of(context)
    state.document(shown | {"message": None if parked.message is None else whole(parked.message)})
    if parked.error_trace is not None and not state.as_json:
        for line in parked.error_trace.splitlines():
            state.note(line)


@app.command()
@with_general_options
def run(
    context: typer.Context,
    module: str = typer.Argument(help="The module of the trigger."),
    parked_ids: list[str] = _IDS,
    history: str | None = HISTORY_OPTION,
    local: bool = _LOCAL_OPTION,
    yes: bool = YES_OPTION,
) -> None:
    """Run the service on parked messages after all: somebody has decided that they are NEW.

    The entry is taken over, so a run that is still alive somewhere cannot complete it as well; a message that
    has completed meanwhile is a DUPLICATE and is closed. The exit code is 1 when one of them stays parked.
    """
    from triggers.cli.shared.loading import collect  # noqa: PLC0415  (the other commands run no trigger)

    state = State.of(context)
    triggers = collect(module)
    with _lot(history, local=local) as lot:
        runs = [(parked, _trigger_of(parked, triggers)) for parked in _chosen(lot, parked_ids)]
        if not yes:
            confirm(f"Run {', '.join(_described(parked, trigger) for parked, trigger in runs)}?")
        rows = [_outcome_row(parked, _run(trigger, parked, lot, history)) for parked, trigger in runs]
    if state.as_json:
        state.document(rows)
    for row in rows:
        error = [] if row["error"] is None else [row["error"]]
        end = "closed" if row["closed"] else "still parked"
        state.say(": ".join([row["uuid"] or row["id"], end, row["reason"], *error]))
    if not all(row["closed"] for row in rows):
        raise typer.Exit(1)


def _described(parked: Parked, trigger: "AnyTrigger") -> str:
    return f"{trigger.name} on {parked.uuid or parked.id} ({parked.kind})"


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
def discard(
    context: typer.Context,
    parked_ids: list[str] = _IDS,
    history: str | None = HISTORY_OPTION,
    local: bool = _LOCAL_OPTION,
    yes: bool = YES_OPTION,
) -> None:
    """Drop parked messages for good: somebody has decided that their effect is there, or is not wanted."""
    with _lot(history, local=local) as lot:
        chosen = _chosen(lot, parked_ids)
        if not yes:
            confirm(f"Discard for good: {', '.join(parked.uuid or parked.id for parked in chosen)}?")
        for parked in chosen:
            drive(lot.remove(parked))
    State.of(context).show("discarded", _COLUMNS, [_row(parked) for parked in chosen])


@contextmanager
def _lot(history: str | None, *, local: bool) -> Generator[Parking]:
    if not local:
        with opened(history) as store:
            yield store.parking
        return
    with opened_local() as lot:
        if lot is None:
            raise ConfigurationError("--local", "this machine has parked nothing", "leave it out")
        yield lot


def _chosen(lot: Parking, parked_ids: Sequence[str]) -> list[Parked]:
    """Find each of them once, before anything is done to one."""
    found = [_get(lot, parked_id) for parked_id in parked_ids]
    return list({(parked.trigger_name, parked.id): parked for parked in found}.values())


def _get(lot: Parking, parked_id: str) -> Parked:
    found = drive(lot.get(parked_id)) if parked_id else None
    if found is not None:
        return found
    matching = [parked.id for parked in drive(lot.list()) if parked.id.startswith(parked_id)]
    if not matching:
        raise NotParkedError(parked_id)
    some = ", ".join(matching[:5]) + (", ..." if len(matching) > 5 else "")  # noqa: PLR2004  (as many as one line holds)
    raise ConfigurationError("PARKED_ID", f"{parked_id!r} is not unique: {some}", "give more of it")


def _trigger_of(parked: Parked, triggers: "Sequence[AnyTrigger]") -> "AnyTrigger":
    if parked.message is None:
        raise ConfigurationError("PARKED_ID", f"{parked.id} was no message", "send it mended, or discard it")
    for trigger in triggers:
        if trigger.name == parked.trigger_name:
            return trigger
    raise ConfigurationError(
        "MODULE", f"it has no trigger {parked.trigger_name!r}", "name the module that has it"
    )


def _row(parked: Parked) -> dict[str, Any]:
    error = [] if parked.error_message is None else [parked.error_message]
    return {
        "id": parked.id,
        "trigger": parked.trigger_name,
        "kind": parked.kind.value,
        "uuid": parked.uuid,
        "destination": parked.destination,
        "parked_at": parked.parked_at,
        "reason": ": ".join([parked.reason, *error]),
        "error_class": parked.error_class,
        "error_message": parked.error_message,
    }
