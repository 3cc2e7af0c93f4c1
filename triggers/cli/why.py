"""``doubtless why``: explain the facts about a message, and its next delivery."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import typer

from history.bridge import drive
from history.entry import Entry
from history.message import Message
from history.opening import local_parking_file
from history.store import HistoryStore
from history.store.journal import JournalLine
from history.store.parking import ParkedLabel, Parking, oldest_first
from triggers.cli.history.commands import entry_row
from triggers.cli.parked.deciding import decided_about, decider
from triggers.cli.shared.configured import configuration_of
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.journals import Journals, known_triggers, refuse_unknown_trigger
from triggers.cli.shared.loading import collect
from triggers.cli.shared.options import HISTORY_OPTION, TRIGGER_OPTION, opened, opened_local
from triggers.cli.shared.output import State, moment
from triggers.detection.sentences import explain, without_verdict
from triggers.detection.table import Count, Decision, HistoryUse, Policy, Word, decide
from triggers.pipeline.finding import Finding
from triggers.pipeline.run import Run


@dataclass(frozen=True, slots=True)
class Judging:
    """How the trigger judges: its settings, and whether it has a resolver."""

    policy: Policy
    asks: bool


@with_general_options
def why(
    context: typer.Context,
    uuid: str = typer.Argument(help="The uuid, or the JMSMessageID if the message has no uuid."),
    history: str | None = HISTORY_OPTION,
    trigger: str | None = TRIGGER_OPTION,
    module: str | None = typer.Option(None, help="Judge with the settings of the triggers in this module."),
    transacted: bool = typer.Option(False, "--transacted", help="Judge as a transacted trigger does."),
    resolver: bool = typer.Option(False, "--resolver", help="Judge as a trigger with a resolver does."),
    journal: str | None = typer.Option(
        None,
        metavar="URL",
        help="URL of the journals. By default: from module or configuration, else the history.",
    ),
) -> None:
    """Explain what is known about a uuid, and what happens at its next delivery.

    For a trigger with journal=, the command shows the journal's earlier verdicts as well. Messages that this
    user's services have parked in a file of this machine are marked --local.

    The verdict is for a trigger with default settings, unless you give --module, --transacted or --resolver.
    The command does not call the resolver, so it does not know the resolver's answer.
    """
    state = State.of(context)
    usual = Judging(Policy(transacted=transacted), resolver)
    configuration = configuration_of(state)
    triggers = [] if module is None else collect(module, configuration=configuration)
    known = {judged.name: Judging(judged.settings.policy, judged.resolver is not None) for judged in triggers}
    with opened(history) as store, opened_local(history) as local, ExitStack() as ends:
        journals = Journals(store, everywhere=journal, triggers=triggers, configuration=configuration)
        ends.callback(journals.close)
        if local is not None:
            state.note(
                f"looking into {local_parking_file()}, too: what this user's services parked on this machine"
            )
        found = stories(
            store,
            uuid,
            lambda name: known.get(name, usual),
            trigger=trigger,
            lots=[] if local is None else [local],
            lines_of=lambda name: _lines_of(state, journals, name, uuid),
        )
        if not found:
            refuse_unknown_trigger(store, trigger, triggers=triggers, journals=journals)
    if state.as_json:
        state.document(found)
    for row in found:
        _print(state, row)
    if not found:
        verdict = explain(_next(None, known.get(trigger or "", usual)))
        state.say(f"nothing is known of {uuid}; next delivery: {verdict}")
        raise typer.Exit(1)


def stories(
    store: HistoryStore,
    uuid: str,
    judging: Callable[[str], Judging],
    *,
    trigger: str | None = None,
    lots: Sequence[Parking] = (),
    lines_of: Callable[[str], Sequence[JournalLine]] | None = None,
) -> list[dict[str, Any]]:
    """Return the facts about a uuid in each trigger that has any: in one, or in all.

    It is found by its key: in the history, in its parking lot and in others, and in the journal of a trigger.
    ``lines_of`` returns the lines of a journal, by default the history's. The latest decisions are searched
    for it.
    """
    read = lines_of or partial(Journals(store).read, uuid=uuid)
    lots_of_all = [store.parking, *lots]
    parked = [
        (label.trigger_name, _parked_row(label, local=lot in lots))
        for lot in lots_of_all
        for label in oldest_first(drive(lot.of_uuid(uuid, trigger=trigger)))
    ]
    names = [trigger] if trigger is not None else known_triggers(store, drive(store.control.overview()))
    rows = (
        _story(
            store,
            name,
            uuid,
            judging(name),
            parked=[row for of, row in parked if of == name],
            lines=read(name),
            decisions=decided_about(lots_of_all, name, uuid=uuid),
        )
        for name in dict.fromkeys([*names, *(of for of, _ in parked)])
    )
    return [row for row in rows if row is not None]


def _lines_of(state: State, journals: Journals, trigger: str, uuid: str) -> Sequence[JournalLine]:
    """Return the lines about a uuid in the journal of a trigger; note its place if it is not the history."""
    lines, problem = journals.read_or_say(trigger, uuid)
    place = journals.place_of(trigger)
    if problem is not None:
        state.note(problem)
    elif place is not None:
        state.note(f"the journal of {trigger} was read at {place}")
    return lines


def _story(
    store: HistoryStore,
    trigger: str,
    uuid: str,
    judging: Judging,
    *,
    parked: Sequence[dict[str, Any]],
    lines: Sequence[JournalLine],
    decisions: Sequence[dict[str, Any]],
) -> dict[str, Any] | None:
    """Return one trigger's facts about a uuid and its next delivery; None if there are none."""
    entry = drive(store.lookup(trigger, [uuid]))[0]
    if entry is None and not parked and not lines and not decisions:
        return None
    shown = None if entry is None else entry_row(trigger, b"", entry)
    return {
        "trigger": trigger,
        "uuid": uuid,
        "entry": None
        if shown is None
        else {key: shown[key] for key in shown if key not in {"trigger", "digest"}},
        "next": explain(_next(entry, judging)),
        "parked": parked,
        "journal": [
            {
                "at": line.at,
                "verdict": line.verdict,
                "reason": line.reason,
                "delivery_count": line.delivery_count,
                "fence": line.fence,
                "by": line.by,
            }
            for line in lines
        ],
        "decisions": decisions,
    }


def _parked_row(label: ParkedLabel, *, local: bool) -> dict[str, Any]:
    return {"id": label.id, "kind": label.kind, "reason": label.reason, "at": label.parked_at, "local": local}


def _next(entry: Entry | None, judging: Judging) -> Decision:
    """Decide about a next delivery as the pipeline would."""
    run = Run(Message(body="", uuid="-"), Finding(HistoryUse.ON, found=entry))
    return decide(run.facts(Count.AGAIN, Word.NOT_ASKED if judging.asks else Word.NONE), judging.policy)


def _print(state: State, row: dict[str, Any]) -> None:
    state.say(f"{row['trigger']}: {row['uuid']}", style="bold")
    entry = row["entry"]
    if entry is None:
        state.say("  history: no entry")
    else:
        owner = f", owner {entry['owner']}" if entry["owner"] else ""
        state.say(f"  history: {entry['state']} at {moment(entry['started'])}, fence {entry['fence']}{owner}")
    for parked in row["parked"]:
        where = ", --local" if parked["local"] else ""
        state.say(f"  parked {parked['id']} ({parked['kind']}{where}): {without_verdict(parked['reason'])}")
    for line in row["journal"]:
        when = moment(line["at"]) if line["at"] is not None else "some time ago"
        state.say(f"  {when} {line['verdict']}: {without_verdict(line['reason'])}")
    for one in row["decisions"]:
        why = f" ({one['reason']})" if one["reason"] else ""
        state.say(f"  {moment(one['at'])} {decider(one)} decided: {one['decision']}{why}: {one['outcome']}")
    state.say(f"  next delivery: {row['next']}")
