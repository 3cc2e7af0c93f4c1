"""``doubtless parked``: decide about parked messages."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

from history.beside.comments import Comment
from history.beside.kept import KeepsBeside, needed_beside
from history.beside.parking import Parking
from history.beside.sealing import why_locked
from history.beside.security import SecurityEvent
from history.bridge import drive
from history.errors import ConfigurationError
from history.store.decisions import DecisionKind
from history.store.parking import ParkedLabel
from triggers.cli.parked.deciding import COLUMNS, carry_out, login, preview
from triggers.cli.parked.options import LOCAL_OPTION, DecisionRequest, with_request, with_selection
from triggers.cli.parked.running import described, refuse_lot_as_history, run_all
from triggers.cli.shared.arguments import rate_of
from triggers.cli.shared.configured import configuration_of
from triggers.cli.shared.embedded import history_or_file, provider_to_look_into
from triggers.cli.shared.general_options import CommandGroup
from triggers.cli.shared.options import (
    HISTORY_OPTION,
    ONLY_OPTION,
    PROVIDER_OPTION,
    TRIGGER_OPTION,
    confirm,
    connected,
    limit_option,
    opened,
    opened_local,
    trigger_names,
)
from triggers.cli.shared.output import CliState
from triggers.configuration.limits import LARGEST
from triggers.operations.choosing import Selection, chosen, get, nothing_like, oldest, summary
from triggers.operations.decisions import decider, decision_rows
from triggers.operations.journals import refuse_unknown_trigger
from triggers.operations.messages import comments_about, row_of, whole
from triggers.security.commands import command_record, os_user, recorded

if TYPE_CHECKING:
    from triggers.consumer.options import AnyTrigger

app = CommandGroup(
    no_args_is_help=True,
    help="Look at parked messages (In Doubt, rejected, unreadable), and run, settle or discard them.",
)

#: The name that takes an assignment back.
NOBODY = "nobody"

_ID: Any = typer.Argument(help="The id, or the beginning of the id if that is unique.")
_TEXT: Any = typer.Argument(None, help="The comment.")
_ASSIGN: Any = typer.Option(None, "--assign", help=f"Assign the message to this person, or to {NOBODY}.")
_WRITER: Any = typer.Option(None, "--by", help="Who writes. By default: the name of the login.")
_IMPORTER: Any = typer.Option(None, "--by", help="Who imports them. By default: the name of the login.")
_IMPORTED = ["trigger", "parked"]
_DECISION_COLUMNS = ["at", "trigger", "decision", "by", "messages", "reason", "outcome"]


@app.command()
def comment(
    context: typer.Context,
    parked_id: str = _ID,
    text: str | None = _TEXT,
    assign: str | None = _ASSIGN,
    by: str | None = _WRITER,
    history: str | None = HISTORY_OPTION,
) -> None:
    """Write a comment on a parked message, or assign the message to somebody.

    Comments are never deleted. "parked show" and the page of the message show them.
    """
    with opened(history) as store:
        parked = get(store.parking, parked_id)
        written = Comment.checked(
            parked.id,
            by=by or login(),
            as_user=str(os_user()),
            text=text,
            assigned_to="" if assign == NOBODY else assign,
        )
        target = {"trigger": parked.trigger_name, "message": parked.uuid or parked.id}
        with recorded(store, [command_record(SecurityEvent.COMMENT, by=by, **target)]):
            drive(needed_beside(store, "history", "comments").comments.add(parked.trigger_name, written))
    CliState.of(context).say(f"{parked.uuid or parked.id}: noted")


@app.command("import")
def import_(
    context: typer.Context,
    module: str = typer.Argument(help="The module of the triggers."),
    destination: str = typer.Argument(help="The dead-letter queue or topic, as a trigger would name it."),
    provider: str | None = PROVIDER_OPTION,
    history: str | None = HISTORY_OPTION,
    only: list[str] | None = ONLY_OPTION,
    subscription: str = typer.Option(
        "letters", "--subscription", "-s", help="The subscription, or the consumer group, that receives them."
    ),
    limit: int | None = typer.Option(None, min=1, max=LARGEST, help="Park at most this many."),
    until_idle: float = typer.Option(5.0, min=0, help="End after this many seconds without a message."),
    by: str | None = _IMPORTER,
) -> None:
    """Park the messages of a dead-letter queue or topic, so that people can decide about them.

    A message is acknowledged there after it is parked. Messages keep their uuids, so a message that has run
    is a duplicate. The exit code is 1 if messages stay there, because no trigger of the module is theirs.
    """
    from triggers.cli.shared.loading import collect  # noqa: PLC0415  (as above)
    from triggers.operations.importing import Import  # noqa: PLC0415  (as above)

    state = CliState.of(context)
    triggers = collect(module, only, configuration=configuration_of(state), tasks=True)
    url = provider_to_look_into(provider, state, "give the provider of the dead letters")
    with opened(history, makes=True) as store, connected(url) as link:
        work = Import(
            destination=destination,
            triggers=triggers,
            stores=lambda _: store,
            limit=limit,
            until_idle=until_idle,
        )
        records = [command_record(SecurityEvent.IMPORT, by=by, trigger=trigger.name) for trigger in triggers]
        with recorded(store, records):
            imported = work.run_on(link, subscription=subscription)
    rows = [{"trigger": name, "parked": count} for name, count in sorted(imported.parked.items())]
    state.show("parked", _IMPORTED, rows, none=f"{destination} has no message for these triggers")
    if imported.left:
        state.note(f"{imported.left} messages stay there: they name no trigger of {module}, or several fit")
        raise typer.Exit(1)


@app.command("list")
@with_selection
def list_(
    context: typer.Context,
    selection: Selection,
    history: str | None = HISTORY_OPTION,
    limit: int = limit_option(),
    local: bool = LOCAL_OPTION,
) -> None:
    """List parked messages, the oldest first.

    Before that, the command closes In Doubt messages if their original has completed.
    """
    trigger = selection.trigger
    with _lot(history, local=local) as (lot, store):
        if store is not None and not local:
            from triggers.pipeline.parking.sweep import LOOKED_AT, close_settled  # noqa: PLC0415  (loads the pipeline)

            for name in trigger_names(store, trigger):
                drive(close_settled(name, store, lot, limit=LOOKED_AT))
        if selection.filters:
            labels, total = oldest(lot, selection, limit)
        else:
            labels = [ParkedLabel.of(parked) for parked in drive(lot.list(trigger=trigger, limit=limit))]
            total = drive(lot.count(trigger=trigger))
        if not labels and store is not None:
            refuse_unknown_trigger(store, trigger)
        none = "" if labels else nothing_like(lot, selection, local=local)
    rows = [row_of(label) for label in labels]
    CliState.of(context).show("parked", COLUMNS, rows, total=total, none=none)


@app.command()
def show(
    context: typer.Context,
    parked_id: str = _ID,
    history: str | None = HISTORY_OPTION,
    local: bool = LOCAL_OPTION,
) -> None:
    """Show one whole parked message as JSON: headers, body, evidence, error and its traceback.

    A body of bytes is shown as text if it is UTF-8, else in base64. "body-kind" says which. Without --json,
    the traceback ("error_trace") is printed line by line on standard error as well.
    """
    with _lot(history, local=local) as (lot, store):
        parked = get(lot, parked_id)
        written = () if store is None or local else comments_about(store, parked.trigger_name, parked.id)
    shown = parked.model_dump(mode="json") | {"comments": written}
    state = CliState.of(context)
    state.document(shown | {"message": None if parked.message is None else whole(parked.message)})
    if (locked := why_locked(parked)) is not None:
        raise ConfigurationError(parked.id, "its message cannot be shown", locked)
    if parked.error_trace is not None and not state.as_json:
        for line in parked.error_trace.splitlines():
            state.note(line)


@app.command()
@with_request
def run(
    context: typer.Context,
    request: DecisionRequest,
    module: str = typer.Argument(help="The module of the trigger."),
    rate: str | None = typer.Option(None, help="Run at most so many messages a second, such as 50/s."),
) -> None:
    """Run the service on parked messages, after a person has decided that they are NEW.

    The command takes the entry over, so a run that is still alive elsewhere cannot complete it as well. If a
    message has completed in the meantime, it is a DUPLICATE and is closed. If filters select a message that
    the module cannot run, it stays parked. The exit code is 1 if a message stays parked.

    SIGTERM, SIGINT (Ctrl-C) and SIGHUP stop the command after the running message. All others stay parked,
    and the same command continues with them. A second SIGTERM or SIGINT ends the command immediately.
    """
    from triggers.cli.shared.loading import collect  # noqa: PLC0415  (as above)
    from triggers.operations.pacing import RunPace  # noqa: PLC0415  (as above)
    from triggers.operations.running import planned  # noqa: PLC0415  (others run nothing)

    state, pace = CliState.of(context), None if rate is None else RunPace(rate_of(rate))
    triggers = collect(module, configuration=configuration_of(state), tasks=True)
    if not request.local:  # a file of this folder is also the history in which the service runs
        request = replace(request, history=history_or_file(request.history, state))
    with _lot(request.history, local=request.local) as (lot, store):
        runs, barred = planned(_chosen(lot, store, request, triggers), triggers)
        if barred and (request.parked_ids or not runs):
            raise barred[0][1]
        if barred:
            state.note(f"{module} cannot run, and leaves parked: {summary([label for label, _ in barred])}")
        if store is not None and not request.local:
            refuse_lot_as_history(store, runs)
        labels = [label for label, _ in runs]
        if request.dry_run or not labels:
            return preview(state, labels, request, lot=lot)
        confirm(f"Run {described(labels)}?", yes=request.yes)
        is_all_closed = run_all(state, request, runs, barred, lot=lot, store=store, pace=pace)
    if not is_all_closed:
        raise typer.Exit(1)
    return None


@app.command()
@with_request
def done(context: typer.Context, request: DecisionRequest) -> None:
    """Settle parked messages as done, after a person has found that their effects are there.

    The command completes their entries, so that further copies are duplicates, and removes the messages. A
    message stays parked if it is running, or was started again since it was parked. The exit code is then 1.
    """
    with _lot(request.history, local=request.local, entries=True) as (lot, store):
        if store is None:
            raise ConfigurationError(
                "--history", "is missing: it has the entries of what was parked in the local file", "give it"
            )
        labels = _chosen(lot, store, request)
        carry_out(
            CliState.of(context), DecisionKind.DONE, request, labels, lot=lot, store=store, security=store
        )


@app.command()
@with_request
def discard(context: typer.Context, request: DecisionRequest) -> None:
    """Delete parked messages permanently, after a person has decided that they are not wanted.

    Their entries stay as they are, so a further copy of an In Doubt message is In Doubt again. If the effect
    is there, settle the message with "parked done" instead.
    """
    with _lot(request.history, local=request.local) as (lot, store):
        labels = _chosen(lot, store, request)
        carry_out(
            CliState.of(context), DecisionKind.DISCARD, request, labels, lot=lot, store=None, security=store
        )


@app.command()
def resolve(
    context: typer.Context,
    module: str = typer.Argument(help="The module of the trigger."),
    parked_id: str = _ID,
    history: str | None = HISTORY_OPTION,
    local: bool = LOCAL_OPTION,
) -> None:
    """Ask the trigger's resolver what a parked message is now, and change nothing.

    The resolver gets the parked evidence. The exit code is 1 if the resolver fails.
    """
    from triggers.cli.shared.loading import collect  # noqa: PLC0415  (as above)
    from triggers.operations.resolving import answer_now  # noqa: PLC0415  (the others ask no resolver)
    from triggers.operations.running import trigger_of  # noqa: PLC0415  (as above)

    state = CliState.of(context)
    triggers = collect(module, configuration=configuration_of(state), tasks=True)
    with _lot(history, local=local) as (lot, _):
        parked = get(lot, parked_id)
    answer = answer_now(trigger_of(ParkedLabel.of(parked), triggers), parked)
    document = {"id": parked.id, "uuid": parked.uuid}
    document |= {"resolution": answer.resolution, "reason": answer.reason}
    parts = [parked.uuid or parked.id, answer.resolution or "the resolver failed", answer.reason]
    state.report(document, ": ".join(filter(None, parts)))
    if answer.resolution is None:
        raise typer.Exit(1)


@app.command()
def decisions(
    context: typer.Context,
    history: str | None = HISTORY_OPTION,
    trigger: str | None = TRIGGER_OPTION,
    limit: int = limit_option(),
    local: bool = LOCAL_OPTION,
) -> None:
    """Show who has run, settled or discarded parked messages, why, and the result, the newest first.

    Decisions are never deleted. --json names the messages.
    """
    with _lot(history, local=local) as (lot, store):
        rows = [row for name in drive(lot.names(trigger)) for row in islice(decision_rows(lot, name), limit)]
        if not rows and store is not None:
            refuse_unknown_trigger(store, trigger)
    newest = sorted(rows, key=lambda row: row["at"], reverse=True)[:limit]
    state = CliState.of(context)
    if not state.as_json:
        newest = [row | {"messages": len(row["messages"]), "by": decider(row)} for row in newest]
    state.show("decisions", _DECISION_COLUMNS, newest, none="nothing was decided")


def _chosen(
    lot: Parking, store: KeepsBeside | None, request: DecisionRequest, triggers: "Sequence[AnyTrigger]" = ()
) -> Sequence[ParkedLabel]:
    """Find the messages of a request; if there are none, its trigger must be a known one."""
    labels = chosen(lot, request.parked_ids, request.selection)
    if not labels and store is not None:
        refuse_unknown_trigger(store, request.selection.trigger, triggers=triggers)
    return labels


@contextmanager
def _lot(
    history: str | None, *, local: bool, entries: bool = False
) -> Generator[tuple[Parking, KeepsBeside | None]]:
    """Open a lot, and the history beside it; for the local file only if its entries are needed."""
    if not local:
        with opened(history) as store:
            yield store.parking, store
        return
    with opened_local(history) as lot:
        if lot is None:
            raise ConfigurationError("--local", "this machine has parked nothing", "leave it out")
        if not history or not entries:
            yield lot, None
            return
        with opened(history) as store:
            yield lot, store
