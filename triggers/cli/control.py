"""``doubtless suspend``, ``resume``, ``disable``, ``enable``, ``status`` and ``statistics``."""

from collections.abc import Sequence
from typing import Any

import typer

from history.beside.security import SecurityEvent
from history.bridge import drive
from history.store.control import Counts, Verb
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.options import HISTORY_OPTION, TRIGGER_OPTION, opened
from triggers.cli.shared.output import CliState
from triggers.configuration.nearest import listed
from triggers.events.hearing import wildcard
from triggers.operations.journals import known_triggers, refuse_unknown, refuse_unknown_trigger
from triggers.operations.status import named_counts, order_and_wait, status_rows
from triggers.security.commands import command_record, recorded

_STATUS = ["trigger", "consumer", "state", "busy", "reason", "since", "last_beat", "counts"]
_ANSWERS = ["trigger", "consumer", "obeyed", "state", "busy", "reason"]
_STATISTICS = [
    "trigger",
    "new",
    "duplicate",
    "in_doubt",
    "rejected",
    "unreadable",
    "failed",
    "retried",
    "recovered",
    "seconds",
    "mean_ms",
]


_NAMES: Any = typer.Argument(
    metavar="TRIGGER", help="Names of triggers. * matches any text in the known names. Put it in quotes."
)
_REASON: Any = typer.Option(None, "--reason", help="The reason. Status and the log show it.")
_WAIT: Any = typer.Option(10.0, "--wait", min=0, help="How many seconds to wait until the consumers obey.")


@with_general_options
def suspend(
    context: typer.Context,
    triggers: list[str] = _NAMES,
    history: str | None = HISTORY_OPTION,
    reason: str | None = _REASON,
    wait: float = _WAIT,
) -> None:
    """Stop running consumers from receiving for these triggers until "resume".

    They stay connected. Running messages may finish. Consumers that start later receive. The exit code is 1
    if one of the triggers has no running consumer, or if a consumer has not obeyed in time.
    """
    _give_order(context, Verb.SUSPEND, triggers, history, wait, reason)


@with_general_options
def resume(
    context: typer.Context,
    triggers: list[str] = _NAMES,
    history: str | None = HISTORY_OPTION,
    wait: float = _WAIT,
) -> None:
    """Let running consumers receive again after a command or an error suspended their triggers.

    The exit code is 1 if one of the triggers has no running consumer, or if a consumer has not obeyed in
    time.
    """
    _give_order(context, Verb.RESUME, triggers, history, wait)


@with_general_options
def disable(
    context: typer.Context,
    triggers: list[str] = _NAMES,
    history: str | None = HISTORY_OPTION,
    reason: str | None = _REASON,
    wait: float = _WAIT,
) -> None:
    """Disconnect these triggers from the provider until "enable", even in consumers that start later.

    Running messages may finish. The exit code is 1 if a running consumer has not obeyed in time.
    """
    _give_order(context, Verb.DISABLE, triggers, history, wait, reason)


@with_general_options
def enable(
    context: typer.Context,
    triggers: list[str] = _NAMES,
    history: str | None = HISTORY_OPTION,
    wait: float = _WAIT,
) -> None:
    """Connect these triggers again and let them receive, no matter what stopped them.

    The exit code is 1 if a running consumer has not obeyed in time.
    """
    _give_order(context, Verb.ENABLE, triggers, history, wait)


@with_general_options
def status(
    context: typer.Context, history: str | None = HISTORY_OPTION, trigger: str | None = TRIGGER_OPTION
) -> None:
    """Show what consumers report about their triggers. They report once a second.

    If a consumer stopped reporting without a goodbye, it is shown as LOST for a day. The exit code
    is 1 if nothing is known.
    """
    state = CliState.of(context)
    with opened(history) as store:
        overview = drive(store.control.overview())
        names = known_triggers(store, overview)
        if trigger not in names:
            refuse_unknown_trigger(store, trigger)
    rows = [row for name in names if trigger in {None, name} for row in status_rows(name, overview)]
    if state.as_json:
        state.document(rows)
    else:
        state.show(
            "status",
            _STATUS,
            [row | {"counts": _counts_in_words(row), "reason": _reason_in_words(row)} for row in rows],
            none="nothing is known",
        )
    if not rows:
        raise typer.Exit(1)


@with_general_options
def statistics(
    context: typer.Context,
    history: str | None = HISTORY_OPTION,
    trigger: str | None = TRIGGER_OPTION,
    clear: bool = typer.Option(False, "--clear", help="Show the counts, then set them to zero."),
) -> None:
    """Show the counts of each trigger over all its consumers, including consumers that have ended.

    The exit code is 1 if nothing was counted.
    """
    with opened(history) as store:
        counted = drive(store.control.overview()).statistics
        if trigger not in counted:
            refuse_unknown_trigger(store, trigger)
        if clear:
            drive(store.control.clear(trigger=trigger))
    rows = [_counted(name, counted[name]) for name in sorted(counted) if trigger in {None, name}]
    CliState.of(context).show("statistics", _STATISTICS, rows, none="nothing was counted")
    if not rows:
        raise typer.Exit(1)


def _give_order(
    context: typer.Context,
    verb: Verb,
    patterns: Sequence[str],
    history: str | None,
    wait: float,
    reason: str | None = None,
) -> None:
    """Send a command, wait for the consumers, and show which of them have obeyed."""
    state = CliState.of(context)
    with opened(history) as store:
        overview = drive(store.control.overview())
        known_names = known_triggers(store, overview)
        names = _chosen(patterns, known_names)
        if verb.lasts:  # a trigger may be disabled before its first run
            _note_unknown(state, names, known_names)
        else:
            for name in names:
                refuse_unknown("TRIGGER", "trigger", name, known_names)
            names = [name for name in names if name in known_names]
        on_hold = [name for name in names if verb is Verb.RESUME and overview.held(name)]
        records = [command_record(SecurityEvent(verb.value), trigger=name) for name in names]
        with recorded(store, records):
            rows = order_and_wait(store.control, verb, names, reason, wait) if names else []
    idle = [name for name in names if name not in {row["trigger"] for row in rows}]
    state.show(verb.value, _ANSWERS, rows, none="no consumer runs it" if names else "no trigger is called so")
    for name in idle if rows else []:
        state.note(f"no consumer runs {name}")
    # A command for consumers that start later has an effect without a consumer.
    if not names or not all(row["obeyed"] for row in rows) or (set(idle) - set(on_hold) and not verb.lasts):
        raise typer.Exit(1)


def _note_unknown(state: CliState, names: Sequence[str], known_names: Sequence[str]) -> None:
    for name in names:
        if name not in known_names:
            state.note(f"the history knows no trigger {name}, only: {listed(known_names)}")


def _chosen(patterns: Sequence[str], known_names: Sequence[str]) -> list[str]:
    """Return the named triggers, each once; a name without ``*`` need not be known."""
    chosen: dict[str, None] = {}
    for pattern in patterns:
        expression = wildcard(pattern)
        matching = (
            [name for name in known_names if expression.fullmatch(name)] if "*" in pattern else [pattern]
        )
        chosen.update(dict.fromkeys(matching))
    return list(chosen)


def _counted(trigger: str, counts: Counts) -> dict[str, Any]:
    return {"trigger": trigger, **named_counts(counts)}


def _reason_in_words(row: dict[str, Any]) -> str | None:
    """Return the reason for the state, or else what goes wrong in it, as the text of one cell."""
    troubles = [f"{trouble['kind']}: {trouble['cause']}" for trouble in row["troubles"]]
    return row["reason"] or "; ".join(troubles) or None


def _counts_in_words(row: dict[str, Any]) -> str:
    """Return the counts of verdicts and failures as the text of one cell."""
    left_out = {"runs", "seconds", "mean_ms"}
    some = [f"{count} {name}" for name, count in row["counts"].items() if count and name not in left_out]
    return ", ".join(some).replace("_", " ") or "-"
