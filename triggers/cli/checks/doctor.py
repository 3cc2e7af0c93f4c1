"""``doubtless doctor``: what is wrong with a set-up, before a message finds out."""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, Protocol, runtime_checkable
from uuid import uuid4

import typer

from history.bridge import drive
from history.entry import Settlement
from history.errors import ConfigurationError, UnavailableError
from history.message import Uuid
from history.opening import HISTORY_URLS, local_parking_file, open_history
from history.store import HistoryStore
from history.store.owners import owner_token
from history.support.rendering import text_of
from triggers.cli.shared.configured import configuration_of
from triggers.cli.shared.embedded import FILE, URL
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.guarantee_levels import GUARANTEES, guarantee_of
from triggers.cli.shared.loading import collect
from triggers.cli.shared.options import (
    DEFAULT_HISTORY_OPTION,
    ONLY_OPTION,
    PROVIDER_OPTION,
    connected,
    named,
)
from triggers.cli.shared.output import State, first_line
from triggers.cli.shared.sinks import SINKS_OPTION, listening
from triggers.consumer.options import AnyTrigger
from triggers.providers.provider import Answering, Bounded, GivingUp, Provider

#: How far the clocks of this machine and of a history may be apart before somebody is told.
CLOCKS_APART = timedelta(seconds=5)

#: A history that takes longer for one call, in seconds, makes every message wait for it.
SLOW = 0.05


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "PROBLEM"


class Finding(NamedTuple):
    """What was seen, of what, and what to do."""

    of: str
    level: Level
    finding: str
    remedy: str = ""


@runtime_checkable
class Remarking(Protocol):
    """A history that says what is as most have it, and may lose something all the same."""

    async def remarks(self) -> Sequence[str]:
        """Return a sentence for each such thing, with what would be safer."""
        ...


#: What looks at one thing; whatever it raises is a finding, too.
Check = Callable[[], Iterable[Finding]]


@with_general_options
def doctor(
    context: typer.Context,
    module: str = typer.Argument(help="A module with triggers, such as examples.orders."),
    provider: str | None = PROVIDER_OPTION,
    history: str | None = DEFAULT_HISTORY_OPTION,
    only: list[str] | None = ONLY_OPTION,
    sink: list[str] | None = SINKS_OPTION,
) -> None:
    """Look for what is wrong with a set-up: servers, their settings, clocks, permissions, triggers.

    Give it what "doubtless run" is given. It consumes and sends nothing. In each history it claims one random
    uuid and lets it go again. It ends with 1 when there is a problem.
    """
    state = State.of(context)
    triggers = collect(module, only, configuration=configuration_of(state), guards=True)
    findings = list(_all(triggers, provider, history or (None if provider else URL), sink or []))
    rows: list[dict[str, Any]] = [finding._asdict() for finding in findings]
    state.show("what was looked at", ["level", "of", "finding", "remedy"], rows)
    if any(finding.level is Level.PROBLEM for finding in findings):
        raise typer.Exit(1)


def _all(
    triggers: Sequence[AnyTrigger], provider: str | None, history: str | None, sinks: Sequence[str]
) -> Iterator[Finding]:
    yield from _looked("provider", partial(_of_provider, provider, triggers))
    for trigger in triggers:
        name = trigger.name
        yield from _looked(f"trigger {name}", partial(_of_trigger, trigger))
        yield from _looked(f"history of {name}", partial(_of_history, trigger, history))
    for number, sink in enumerate(sinks, 1):
        yield from _looked(f"sink {number}", partial(_of_sink, number, sink, provider))
    yield from _looked("local parking file", _of_parking_file)


def _looked(of: str, check: Check) -> Iterator[Finding]:
    """Return what a check finds; one that fails is a finding and stops no other."""
    try:
        yield from check()
    except ConfigurationError as error:
        yield Finding(of, Level.PROBLEM, f"{error.setting}: {error.problem}", error.remedy)
    except UnavailableError as error:
        why = f" ({first_line(error.__cause__)})" if error.__cause__ is not None else ""
        remedy = "start the server, or correct its address in the URL; triggers wait for it until then"
        yield Finding(of, Level.PROBLEM, f"{text_of(error)}{why}", remedy)
    except Exception as error:  # noqa: BLE001  (whatever it is, the other checks go on)
        yield Finding(of, Level.PROBLEM, f"{type(error).__name__}: {text_of(error)}", "see --verbose")


def _of_provider(url: str | None, triggers: Sequence[AnyTrigger]) -> Iterator[Finding]:
    of = "provider"
    if url is None and not FILE.exists():
        yield Finding(of, Level.OK, f"none is named: messages will be in {FILE}, in this folder")
        return
    with connected(url or URL) as provider:
        yield from _answers(of, provider)
        if isinstance(provider, Bounded):
            receivers = sum(
                trigger.settings.concurrency * len(trigger.settings.destinations) for trigger in triggers
            )
            drive(provider.check_room(receivers))
            yield Finding(of, Level.OK, f"it has room for the {receivers} receivers of a consumer")
        if isinstance(provider, GivingUp):
            for trigger in triggers:
                yield from _limits(provider, trigger)


def _answers(of: str, provider: Provider) -> Iterator[Finding]:
    if not isinstance(provider, Answering):
        yield Finding(of, Level.OK, "it was not asked: it cannot be without receiving")
        return
    begun = perf_counter()
    drive(provider.ping())
    yield Finding(of, Level.OK, f"it answers, in {_milliseconds(begun)}")


def _limits(provider: GivingUp, trigger: AnyTrigger) -> Iterator[Finding]:
    """Look whether the provider gives a message up before the trigger does, which parks it."""
    most = trigger.settings.policy.max_delivery_count
    for destination in trigger.settings.destinations:
        limit = drive(provider.delivery_limit(destination, trigger.settings.name))
        if limit is not None and limit <= most:
            yield Finding(
                f"trigger {trigger.name}",
                Level.PROBLEM,
                f"the provider gives a message of {destination} up after {limit} deliveries, before "
                f"max_delivery_count ({most}): it is not parked, and no event tells of it",
                f"set max_delivery_count to {limit - 1} or less, or raise the provider's limit",
            )


def _of_trigger(trigger: AnyTrigger) -> Iterator[Finding]:
    of, settings = f"trigger {trigger.name}", trigger.settings
    reached = guarantee_of(trigger)
    is_level = any(reached.promise.startswith(one.level) for one in GUARANTEES)
    remedy = "" if is_level else "see docs/guarantees.md; leave it where that is what you want"
    level = Level.OK if is_level else Level.WARNING
    yield Finding(of, level, f"it promises {reached.promise}: {reached.why}", remedy)
    horizon, remembered = settings.redelivery_horizon, settings.history_time_to_live
    if horizon is not None and horizon > remembered and settings.policy.forgotten != "in_doubt":
        yield Finding(
            of,
            Level.WARNING,
            f"copies may come for {horizon}, and are forgotten after {remembered}: then they run twice",
            "raise history_time_to_live, or set forgotten='in_doubt'",
        )


def _of_history(trigger: AnyTrigger, history: str | None) -> Iterator[Finding]:
    of = f"history of {trigger.name}"
    if not trigger.has_history:
        yield Finding(of, Level.OK, "it has none, as it was told")
        return
    if trigger.needs_history and history == URL and not FILE.exists():
        yield Finding(of, Level.OK, f"none is named: it will be in {FILE}, in this folder")
        return
    with _store_of(trigger, history) as store:
        for warning in drive(store.check()):
            yield Finding(of, Level.WARNING, warning, "change that setting, unless this is what you want")
        if isinstance(store, Remarking):
            for remark in drive(store.remarks()):
                yield Finding(of, Level.OK, remark)
        yield from _claims(of, trigger.name, store)


@contextmanager
def _store_of(trigger: AnyTrigger, history: str | None) -> Generator[HistoryStore]:
    """Open the history that a consumer would open for a trigger, and close it."""
    if not trigger.needs_history or not history:
        store = trigger.open_store()  # raises where there is none, and says what to do
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


def _claims(of: str, name: str, store: HistoryStore) -> Iterator[Finding]:
    """Claim a random uuid, read it, and let it go: what every message needs, with what it costs."""
    uuid, owner = f"doctor-{uuid4()}", owner_token()
    begun = perf_counter()
    (claim,) = drive(store.claim(name, [uuid], owner, time_to_live=timedelta(minutes=1)))
    (entry,) = drive(store.lookup(name, [uuid]))
    asked_at = datetime.now(UTC)
    drive(store.settle(name, [Settlement(Uuid(uuid), claim.fence, None, owner)]))
    calls, seconds = 3, perf_counter() - begun
    slow = seconds / calls > SLOW
    yield Finding(
        of,
        Level.WARNING if slow else Level.OK,
        f"it takes claims and lets them go, in {_milliseconds(begun, calls)} a call",
        "every message waits for two calls: move it nearer, or use batch= or concurrency=" if slow else "",
    )
    apart = timedelta(0) if entry is None else abs(entry.read_at - asked_at)
    if apart > CLOCKS_APART:
        yield Finding(
            of,
            Level.WARNING,
            f"its clock and this machine's are {apart.total_seconds():.0f} s apart",
            "let both follow one time server: JMSExpiration and forgotten= compare them",
        )


def _of_sink(number: int, url: str, provider: str | None) -> Iterator[Finding]:
    with connected(provider or URL) as link, listening([url], link):
        yield Finding(f"sink {number}", Level.OK, "its URL can be used; it was not asked")


def _of_parking_file() -> Iterator[Finding]:
    """Look whether messages could be kept on this machine while no server takes them."""
    file = local_parking_file()
    folder = file.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    place = file if file.exists() else folder
    if os.access(place, os.W_OK) and (place is file or folder.is_dir()):
        yield Finding("local parking file", Level.OK, f"{file} can be written")
        return
    yield Finding(
        "local parking file",
        Level.PROBLEM,
        f"{place} cannot be written: what is given up while the history is away would be given back",
        "set local_parking_file= or XDG_STATE_HOME to a folder that this user may write to",
    )


def _milliseconds(begun: float, calls: int = 1) -> str:
    return f"{1000 * (perf_counter() - begun) / calls:.1f} ms"
