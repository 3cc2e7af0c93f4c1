"""``doubtless run``: consume with the triggers of a module."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import typer

from history.bridge import drive
from history.opening import HISTORY_URLS, open_history
from triggers.cli.shared.configured import configuration_of
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
    named,
    refuse_memory,
)
from triggers.cli.shared.output import State
from triggers.cli.shared.sinks import SINKS_OPTION, listening
from triggers.consumer.options import AnyTrigger
from triggers.consumer.supervisor import supervise
from triggers.consumer.tasks import AsyncConsumer
from triggers.consumer.threads import Consumer
from triggers.providers.opening import PROVIDER_URLS


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
    state = State.of(context)
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
    counts = _consume(state, triggers, provider, until_idle, sink or [], **options)
    columns = sorted({kind for count in counts.values() for kind in count})
    rows: list[dict[str, Any]] = [
        {"trigger": key, "messages": count.total(), **count} for key, count in counts.items()
    ]
    state.show("handled", ["trigger", "messages", *columns], rows)


def _consume(
    state: State,
    triggers: Sequence[AnyTrigger],
    provider: str,
    until_idle: float | None,
    sinks: Sequence[str],
    **options: Any,
) -> dict[str, Counter[str]]:
    """Run a consumer with these options, of the class that the services need, until it is over."""
    started = f"running {', '.join(trigger.name for trigger in triggers)}; Ctrl-C drains"
    if not any(trigger.is_async for trigger in triggers):
        with named("--provider", PROVIDER_URLS):
            consumer = Consumer(triggers, provider, **options)
        with listening(sinks, consumer.provider):
            state.say(started)
            consumer.run(signals=True, until_idle=until_idle)
        return consumer.counts

    async def consume() -> dict[str, Counter[str]]:
        with named("--provider", PROVIDER_URLS):
            consumer = AsyncConsumer(triggers, provider, **options)
        with listening(sinks, consumer.provider):
            state.say(started)
            await consumer.run(signals=True, until_idle=until_idle)
        return consumer.counts

    return asyncio.run(consume())
