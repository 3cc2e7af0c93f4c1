"""``doubtless run``: consume with the triggers of a module."""

import asyncio
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import typer

from history.bridge import drive
from history.opening import HISTORY_URLS, open_history
from triggers.cli.shared.configured import configuration_of, is_on_command_line
from triggers.cli.shared.embedded import URL, provider_or_file
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.loading import collect
from triggers.cli.shared.logs import LogFormat, log_as_consumer
from triggers.cli.shared.options import (
    DEFAULT_HISTORY_OPTION,
    LOG_FORMAT_OPTION,
    LOG_VERDICTS_OPTION,
    METRICS_OPTION,
    ONLY_OPTION,
    PROCESSES_OPTION,
    PROVIDER_OPTION,
)
from triggers.cli.shared.output import CliState
from triggers.cli.shared.sinks import SINKS_OPTION, listening
from triggers.configuration.hiding import hidden
from triggers.consumer.core import AsyncConsumer, Consumer
from triggers.consumer.options import AnyTrigger
from triggers.consumer.supervisor import supervise
from triggers.operations.looking import named, refuse_memory
from triggers.providers.opening import PROVIDER_URLS

#: What became of the messages of each trigger, and how many of them were parked.
Ran = tuple[Mapping[str, Counter[str]], Mapping[str, int]]

#: How the summary says what became of one message, and of several; in this order.
_VERBS = {
    "ok": ("succeeded", "succeeded"),
    "duplicate": ("was a duplicate", "were duplicates"),
    "failed": ("failed", "failed"),
    "rejected": ("was rejected", "were rejected"),
    "in doubt": ("is In Doubt", "are In Doubt"),
    "unreadable": ("was unreadable", "were unreadable"),
    "waiting": ("waited for a join", "waited for a join"),
    "discarded": ("was not needed by its join", "were not needed by their joins"),
    "expired": ("had expired", "had expired"),
    "unmatched": ("matched no rule", "matched no rule"),
}
_KNOWN = {*_VERBS, "recovered"}


@with_general_options
def run(
    context: typer.Context,
    module: str = typer.Argument(help="A module with triggers, such as examples.orders."),
    provider: str | None = PROVIDER_OPTION,
    history: str | None = DEFAULT_HISTORY_OPTION,
    name: str | None = typer.Option(
        None, help="The name of this consumer. It must be unique among running consumers."
    ),
    processes: int = PROCESSES_OPTION,
    until_idle: float | None = typer.Option(
        None, min=0, help="End after this many seconds without a message."
    ),
    only: list[str] | None = ONLY_OPTION,
    sink: list[str] | None = SINKS_OPTION,
    metrics: str | None = METRICS_OPTION,
    log_format: LogFormat = LOG_FORMAT_OPTION,
    log_verdicts: bool = LOG_VERDICTS_OPTION,
    parent: int | None = typer.Option(None, hidden=True),
) -> None:
    """Run the triggers of a module until a signal stops them.

    SIGTERM, SIGINT and SIGHUP drain the consumer. It finishes and acknowledges running messages, and gives
    back messages that it has only fetched. A second SIGTERM or SIGINT ends it immediately. If the broker or
    the history is away, even at the start, the triggers wait and then continue automatically.

    If no provider is named, messages and history are in the file doubtless.sqlite3 in this folder. "doubtless
    send" uses the same file.
    """
    state = CliState.of(context)
    consumer = log_as_consumer(name, log_format, verdicts=log_verdicts)
    # First, so that a module that is not there leaves no file behind; of several processes, each does it.
    triggers = [] if processes > 1 else collect(module, only, configuration=configuration_of(state))
    if not provider:
        history = history or URL
    provider = provider_or_file(provider, state, say=parent is None)
    with named("--provider", PROVIDER_URLS):
        refuse_memory("--provider", provider)
    if history:
        with named("--history", HISTORY_URLS):  # here: what the consumer opens would be blamed on --provider
            drive(open_history(history).close())
    if processes > 1:
        raise typer.Exit(supervise(processes, name, metrics))
    options = {"history": history, "name": consumer, "parent": parent, "metrics": metrics}
    typed = is_on_command_line(context, "history")
    ran = _consume(state, triggers, provider, until_idle, sink or [], **options)
    report(
        state,
        "trigger",
        ran,
        prefix="" if parent is None else f"{consumer}: ",
        places={trigger.name: _parked_at(trigger, history if typed else None) for trigger in triggers},
    )


def report(
    state: CliState,
    title: str,
    ran: Ran,
    *,
    prefix: str = "",
    places: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Print what became of the messages: a summary for people, or one row for each trigger as JSON.

    ``prefix`` is what each line begins with. ``places`` are the options with which the commands find the
    parked messages of a trigger.
    """
    counts, parked = ran
    rows = [{title: name, "messages": _messages(count), **count} for name, count in counts.items()]
    state.report(rows, *(prefix + line for line in _summary(counts, parked, places)))


def _summary(
    counts: Mapping[str, Counter[str]], parked: Mapping[str, int], places: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield the lines of the summary: the verdict on all triggers, then each of several, then what to do."""
    total, waiting = sum(counts.values(), Counter[str]()), sum(parked.values())
    number = _messages(total)
    if waiting:
        yield f"Parked: {waiting} of {_several(number, 'message')}. {_verdicts_of(total)}"
    elif total["failed"]:
        yield f"Failed: {total['failed']} of {_several(number, 'message')}. {_verdicts_of(total)}"
    else:
        yield f"Done: {_several(number, 'message')}. {_verdicts_of(total)}".rstrip()
    if len(counts) > 1 and total:
        for name, count in counts.items():
            kept = f" Parked: {parked[name]}." if parked[name] else ""
            yield f"  {name}: {_verdicts_of(count) or 'no messages.'}{kept}"
    asked = [name for name, number in parked.items() if number]
    for place in sorted({tuple(places.get(name, ())) for name in asked}):
        here = [name for name in asked if tuple(places.get(name, ())) == place]
        command = ["doubtless", "parked", "list", *["--trigger", here[0]] * (len(here) == 1), *place]
        yield f"Next: {shlex.join(command)}"


def _messages(count: Counter[str]) -> int:
    """Return how many messages were handled: the deliveries without those that went back to the broker."""
    return count.total() - count["recovered"]


def _verdicts_of(count: Counter[str]) -> str:
    """Return what became of messages, as sentences; empty if there was none."""
    verdicts = [
        f"{count[outcome]} {verb if count[outcome] == 1 else verbs}"
        for outcome, (verb, verbs) in _VERBS.items()
        if count[outcome]
    ]
    verdicts += [
        f"{number} {outcome}" for outcome, number in count.items() if number and outcome not in _KNOWN
    ]
    back = count["recovered"]
    sentences = [f"{', '.join(verdicts)}."] * bool(verdicts)
    sentences += [f"{_several(back, 'delivery', 'deliveries')} went back to the broker."] * bool(back)
    return " ".join(sentences)


def _several(number: int, noun: str, nouns: str | None = None) -> str:
    return f"{number} {noun}" if number == 1 else f"{number or 'no'} {nouns or noun + 's'}"


def _parked_at(trigger: AnyTrigger, history: str | None) -> Sequence[str]:
    """Return the options with which the commands find the parked messages of a trigger, if they need any.

    A URL with an account or a secret option is not printed.
    """
    own = trigger.settings.parking or trigger.history_source
    if own is None:
        file = trigger.settings.local_parking_file
        return ["--local"] if file is None else ["--history", f"sqlite:///{file}"]
    url = own if isinstance(own, str) else history
    if url is None or url == URL:
        return []
    return ["--history", url if hidden(url) == url else "URL"]


def _consume(
    state: CliState,
    triggers: Sequence[AnyTrigger],
    provider: str,
    until_idle: float | None,
    sinks: Sequence[str],
    **options: Any,
) -> Ran:
    """Run a consumer with these options, of the class that the services need, until it is over."""
    options_of_run: Any = {
        "signals": True,
        "until_idle": until_idle,
        "started": partial(state.say_running, [trigger.name for trigger in triggers]),
    }
    if not any(trigger.is_async for trigger in triggers):
        with named("--provider", PROVIDER_URLS):
            consumer = Consumer(triggers, provider, **options)
        with listening(sinks, consumer.provider):
            consumer.run(**options_of_run)
        return consumer.counts, consumer.parked

    async def consume() -> Ran:
        with named("--provider", PROVIDER_URLS):
            consumer = AsyncConsumer(triggers, provider, **options)
        with listening(sinks, consumer.provider):
            await consumer.run(**options_of_run)
        return consumer.counts, consumer.parked

    return asyncio.run(consume())
