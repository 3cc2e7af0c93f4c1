"""``doubtless why``: explain the facts about a message, and its next delivery."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import typer

from history.beside.journal import JournalLine
from history.errors import ConfigurationError
from history.identity import LONGEST
from history.opening import local_parking_file
from triggers.cli.shared.configured import configuration_of
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.loading import collect
from triggers.cli.shared.options import HISTORY_OPTION, TRIGGER_OPTION, opened, opened_local
from triggers.cli.shared.output import CliState, moment
from triggers.detection.sentences import explain, without_verdict
from triggers.detection.table import Policy
from triggers.operations.decisions import decider
from triggers.operations.entries import began
from triggers.operations.journals import Journals, refuse_unknown_trigger
from triggers.operations.stories import Judging, next_decision, stories


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
    state = CliState.of(context)
    _refuse_long(uuid)
    usual = Judging(Policy(transacted=transacted), resolver)
    configuration = configuration_of(state)
    triggers = [] if module is None else collect(module, configuration=configuration)
    judging = {judged.name: Judging.by(judged) for judged in triggers}
    with opened(history) as store, opened_local(history) as local, ExitStack() as ends:
        journals = Journals(store, everywhere=journal, triggers=triggers, configuration=configuration)
        ends.callback(journals.close)
        if local is not None:
            state.note(
                f"looking into {local_parking_file()}, too: what this user's services parked on this machine"
            )
        rows = stories(
            store,
            uuid,
            lambda name: judging.get(name, usual),
            trigger=trigger,
            lots=[] if local is None else [local],
            lines_of=lambda name: _lines_of(state, journals, name, uuid),
        )
        if not rows:
            refuse_unknown_trigger(store, trigger, triggers=triggers, journals=journals)
    if state.as_json:
        state.document(rows)
    for row in rows:
        _print(state, row)
    if not rows:
        verdict = explain(next_decision(None, judging.get(trigger or "", usual)))
        state.say(f"nothing is known of {uuid}; next delivery: {verdict}")
        raise typer.Exit(1)


def _refuse_long(uuid: str) -> None:
    """Refuse a uuid that no message can have.

    Raises:
        ConfigurationError: it is too long.
    """
    if len(uuid) > LONGEST:
        raise ConfigurationError("UUID", f"is {len(uuid):,} characters long", f"give at most {LONGEST:,}")


def _lines_of(state: CliState, journals: Journals, trigger: str, uuid: str) -> Sequence[JournalLine]:
    """Return the lines about a uuid in the journal of a trigger; note its place if it is not the history."""
    lines, problem = journals.read_or_say(trigger, uuid)
    journal_place = journals.place_of(trigger)
    if problem is not None:
        state.note(problem)
    elif journal_place is not None:
        state.note(f"the journal of {trigger} was read at {journal_place}")
    return lines


def _print(state: CliState, row: dict[str, Any]) -> None:
    state.say(f"{row['trigger']}: {row['uuid']}", style="bold")
    entry = row["entry"]
    if not row["known"]:
        state.say("  history: not known here")
    elif entry is None:
        state.say("  history: no entry")
    else:
        owner = f", owner {entry['owner']}" if entry["owner"] else ""
        state.say(f"  history: {began(entry, moment)}, fence {entry['fence']}{owner}")
    for parked in row["parked"]:
        where = ", --local" if parked["local"] else ""
        state.say(f"  parked {parked['id']} ({parked['kind']}{where}): {without_verdict(parked['reason'])}")
    for line in row["journal"]:
        when = moment(line["at"]) if line["at"] is not None else "some time ago"
        state.say(f"  {when} {line['verdict']}: {without_verdict(line['reason'])}")
    for decision in row["decisions"]:
        why = f" ({decision['reason']})" if decision["reason"] else ""
        state.say(
            f"  {moment(decision['at'])} {decider(decision)} decided: {decision['decision']}{why}: "
            f"{decision['outcome']}"
        )
    state.say(f"  next delivery: {row['next']}")
