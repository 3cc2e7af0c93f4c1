"""``doubtless doctor``: find problems of a set-up before a message does."""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from history.bridge import drive
from history.errors import ConfigurationError
from history.opening import HISTORY_URLS, open_history
from history.store import HistoryStore
from history.support.references import dereferenced
from triggers.cli.checks.findings import Away, CheckFinding, Level
from triggers.cli.checks.lines import of_line
from triggers.cli.checks.places import of_journal, of_local_file, of_parking, of_sink
from triggers.cli.checks.providers import of_provider
from triggers.cli.checks.rooms import Rooms
from triggers.cli.checks.stores import of_history
from triggers.cli.shared.configured import configuration_of
from triggers.cli.shared.embedded import FILE, URL
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.loading import collect
from triggers.cli.shared.options import DEFAULT_HISTORY_OPTION, MOST_PROCESSES, ONLY_OPTION, PROVIDER_OPTION
from triggers.cli.shared.output import CliState
from triggers.cli.shared.sinks import SINKS_OPTION
from triggers.consumer.options import AnyTrigger
from triggers.operations.guarantees import GUARANTEES, guarantee_of
from triggers.operations.looking import named

if TYPE_CHECKING:
    from triggers.configuration import Configuration


@with_general_options
def doctor(
    context: typer.Context,
    module: str = typer.Argument(help="A module with triggers, such as examples.orders."),
    provider: str | None = PROVIDER_OPTION,
    history: str | None = DEFAULT_HISTORY_OPTION,
    only: list[str] | None = ONLY_OPTION,
    sink: list[str] | None = SINKS_OPTION,
    processes: int = typer.Option(
        1, min=1, max=MOST_PROCESSES, help="How many processes doubtless run will start."
    ),
) -> None:
    """Check a set-up for problems: servers, their settings, clocks, permissions and triggers.

    Give it the servers of "doubtless run". It consumes and sends nothing. In each history, it claims
    one random uuid and releases it again. The exit code is 1 if there is a problem.
    """
    state = CliState.of(context)
    configuration = configuration_of(state)
    triggers = collect(module, only, configuration=configuration, guards=True)
    history = history or (None if provider else URL)
    away, rooms = Away(), Rooms(processes)
    consumed = _consumed(module, triggers, configuration)
    findings = [
        *of_provider(away, provider, consumed, rooms),
        *_of_triggers(away, triggers, {trigger.name for trigger in consumed}, history, rooms),
        *_of_sinks(away, consumed, provider, sink or []),
        *away.looked("connections", [rooms.findings]),
        *_of_local_files(away, triggers),
    ]
    rows: list[dict[str, Any]] = [finding._asdict() for finding in findings]
    state.show("what was looked at", ["level", "of", "finding", "remedy"], rows)
    if any(finding.level is Level.PROBLEM for finding in findings):
        raise typer.Exit(1)


def _consumed(
    module: str, triggers: Sequence[AnyTrigger], configuration: "Configuration"
) -> Sequence[AnyTrigger]:
    """Return the triggers that receive from a provider; guards do not."""
    try:
        names = {trigger.name for trigger in collect(module, configuration=configuration)}
    except ConfigurationError:  # it has only guards
        return []
    return [trigger for trigger in triggers if trigger.name in names]


def _of_triggers(
    away: Away,
    triggers: Sequence[AnyTrigger],
    consumed: Collection[str],
    history: str | None,
    rooms: Rooms,
) -> Iterator[CheckFinding]:
    for trigger in triggers:
        of = f"history of {trigger.name}"
        yield from away.looked(f"trigger {trigger.name}", [partial(_of_trigger, trigger)])
        # A consumer reports over its own connections, and guards over one more.
        reports_to = None if trigger.name in consumed else trigger.history_source
        note = partial(rooms.noted, reports_to=reports_to)
        yield from away.looked(of, [partial(_of_history, away, of, trigger, history, note)])
        yield from of_parking(away, trigger.settings, rooms)
        yield from of_journal(away, trigger.settings, rooms)


def _of_sinks(
    away: Away, triggers: Sequence[AnyTrigger], provider: str | None, sinks: Sequence[str]
) -> Iterator[CheckFinding]:
    for number, sink in enumerate(sinks, 1):
        yield from away.looked(f"sink {number}", [partial(of_sink, away, number, sink, provider, triggers)])


def _of_local_files(away: Away, triggers: Sequence[AnyTrigger]) -> Iterator[CheckFinding]:
    for file in dict.fromkeys(trigger.settings.local_parking_file for trigger in triggers):
        yield from away.looked("local parking file", [partial(of_local_file, file)])


def _of_trigger(trigger: AnyTrigger) -> Iterator[CheckFinding]:
    of, settings = f"trigger {trigger.name}", trigger.settings
    reached = guarantee_of(trigger)
    is_level = any(reached.promise.startswith(guarantee.level) for guarantee in GUARANTEES)
    remedy = "" if is_level else "see docs/guarantees.md; leave it where that is what you want"
    level = Level.OK if is_level else Level.WARNING
    yield CheckFinding(of, level, f"it promises {reached.promise}: {reached.why}", remedy)
    horizon, remembered = settings.redelivery_horizon, settings.history_time_to_live
    if horizon is not None and horizon > remembered and settings.policy.forgotten != "in_doubt":
        yield CheckFinding(
            of,
            Level.WARNING,
            f"copies may come for {horizon}, and are forgotten after {remembered}: then they run twice",
            "raise history_time_to_live, or set forgotten='in_doubt'",
        )


def _of_history(
    away: Away, of: str, trigger: AnyTrigger, history: str | None, note: Callable[..., Iterable[CheckFinding]]
) -> Iterator[CheckFinding]:
    if not trigger.has_history:
        yield CheckFinding(of, Level.OK, "none is used, as configured")
        return
    if trigger.needs_history and history == URL and not FILE.exists():
        yield CheckFinding(of, Level.OK, f"none is named: it will be in {FILE}, in this folder")
        return
    source = history if trigger.needs_history else trigger.history_source
    if isinstance(source, str):
        yield from of_line(of, dereferenced(source, "history"))
    settings = trigger.settings
    workers = settings.concurrency * len(settings.destinations)
    with _store_of(trigger, history) as store:
        last = partial(note, store, of, workers, shared=trigger.needs_history)
        yield from of_history(away, of, store, settings, last)


@contextmanager
def _store_of(trigger: AnyTrigger, history: str | None) -> Generator[HistoryStore]:
    """Open the history that a consumer would open for a trigger, and close it."""
    if not trigger.needs_history or not history:
        store = trigger.open_store()  # raises with a remedy if there is none
        closes = trigger.opens_its_history
    else:
        with named("--history", HISTORY_URLS):
            store, closes = open_history(history), True
    assert store is not None  # noqa: S101  (it has one)
    try:
        yield store
    finally:
        if closes:
            drive(store.close())
