"""``doubtless parked``: decide what was kept aside."""

from collections.abc import Sequence
from typing import Any

import typer

from history.bridge import drive
from history.errors import ConfigurationError
from history.parking import Parked, Parking
from triggers.cli.output import HISTORY_OPTION, TRIGGER_OPTION, State, opened
from triggers.cli.run import collect
from triggers.consumer import AnyTrigger
from triggers.parking_lot import local_parking_if_any
from triggers.rerun import run_parked
from triggers.upkeep import close_settled

app = typer.Typer(
    no_args_is_help=True, help="In Doubt, rejected and unreadable messages: look, run or discard."
)

_LOCAL_OPTION: Any = typer.Option(False, "--local", help="In this machine's file, not beside the history.")
_LIST_COLUMNS = ["id", "trigger", "kind", "uuid", "parked_at", "reason"]


@app.command("list")
def list_(
    context: typer.Context,
    history: str | None = HISTORY_OPTION,
    trigger: str | None = TRIGGER_OPTION,
    limit: int = typer.Option(50, min=1, help="At most so many."),
    local: bool = _LOCAL_OPTION,
) -> None:
    """List parked messages, oldest first; In Doubt ones whose original has completed are closed first."""
    lot = _lot(history, local=local)
    if history is not None and not local:
        store = opened(history)
        for name in drive(store.triggers()) if trigger is None else [trigger]:
            drive(close_settled(name, store, lot))
        drive(store.close())
    parked = drive(lot.list(trigger=trigger, limit=limit))
    total = drive(lot.count(trigger=trigger))
    State.of(context).show("parked", _LIST_COLUMNS, [_row(one) for one in parked], total=total)


@app.command()
def show(
    context: typer.Context,
    parked_id: str = typer.Argument(help="The id, or a beginning of it that is unique."),
    history: str | None = HISTORY_OPTION,
    local: bool = _LOCAL_OPTION,
) -> None:
    """Show one parked message whole: headers, body, evidence and error."""
    one = _get(_lot(history, local=local), parked_id)
    state = State.of(context)
    data = one.model_dump(mode="json") | {"message": None if one.message is None else _whole(one)}
    if state.as_json:
        state.document(data)
    else:
        state.console.print_json(data=data)


@app.command()
def run(
    context: typer.Context,
    module: str = typer.Argument(help="The module of the trigger."),
    parked_id: str = typer.Argument(help="The id, or a beginning of it that is unique."),
    history: str | None = HISTORY_OPTION,
    local: bool = _LOCAL_OPTION,
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
) -> None:
    """Run the service on a parked message after all: somebody has decided that it is NEW.

    Its entry is taken over, so a run that is still alive somewhere cannot complete it as well; a message that
    has completed meanwhile is a DUPLICATE and is closed.
    """
    lot = _lot(history, local=local)
    one = _get(lot, parked_id)
    trigger = _trigger_of(one, collect(module))
    if not yes:
        typer.confirm(f"Run {trigger.name} on {one.uuid or one.id} ({one.kind})?", abort=True)
    if history is not None:
        trigger.use_default_history(history)
    outcome = drive(run_parked(trigger, one, lot))
    trigger.close()
    state = State.of(context)
    if state.as_json:
        state.document(
            {"id": one.id, "status": outcome.status, "reason": outcome.reason, "error": outcome.error}
        )
    else:
        state.say(outcome.reason if outcome.error is None else f"{outcome.reason}: {outcome.error!r}")
    if outcome.error is not None:
        raise typer.Exit(1)


@app.command()
def discard(
    context: typer.Context,
    parked_ids: list[str] = typer.Argument(help="Ids, or beginnings of them that are unique."),
    history: str | None = HISTORY_OPTION,
    local: bool = _LOCAL_OPTION,
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
) -> None:
    """Drop parked messages for good: somebody has decided that their effect is there, or is not wanted."""
    lot = _lot(history, local=local)
    chosen = [_get(lot, parked_id) for parked_id in parked_ids]
    if not yes:
        typer.confirm(f"Discard {len(chosen)} messages for good?", abort=True)
    for one in chosen:
        drive(lot.remove(one))
    State.of(context).show("discarded", _LIST_COLUMNS, [_row(one) for one in chosen])


def _lot(history: str | None, *, local: bool) -> Parking:
    if not local:
        return opened(history).parking
    lot = local_parking_if_any()
    if lot is None:
        raise ConfigurationError("--local", "this machine has parked nothing", "leave it out")
    return lot


def _get(lot: Parking, parked_id: str) -> Parked:
    found = drive(lot.get(parked_id))
    if found is None:
        raise ConfigurationError(
            "PARKED_ID", f"{parked_id!r} is not parked, or not unique", "see: parked list"
        )
    return found


def _trigger_of(one: Parked, triggers: Sequence[AnyTrigger]) -> AnyTrigger:
    for trigger in triggers:
        if trigger.name == one.trigger_name:
            return trigger
    raise ConfigurationError(
        "MODULE", f"it has no trigger {one.trigger_name!r}", "name the module that has it"
    )


def _row(one: Parked) -> dict[str, Any]:
    return {
        "id": one.id,
        "trigger": one.trigger_name,
        "kind": one.kind.value,
        "uuid": one.uuid,
        "parked_at": one.parked_at,
        "reason": one.reason if one.error_message is None else f"{one.reason}: {one.error_message}",
    }


def _whole(one: Parked) -> dict[str, Any]:
    message = one.message
    assert message is not None  # noqa: S101  (asked by the caller)
    body = repr(message.body) if isinstance(message.body, bytes) else message.body
    return {"headers": message.headers(), "body": body}
