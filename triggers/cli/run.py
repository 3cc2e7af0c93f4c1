"""``doubtless run``: consume with the triggers of a module."""

import asyncio
import importlib
import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import typer

from history.errors import ConfigurationError
from history.opening import HISTORY_URLS
from triggers.async_consumer import AsyncConsumer
from triggers.cli.output import State
from triggers.consumer import AnyTrigger, Consumer
from triggers.providers.opening import PROVIDER_URLS
from triggers.supervisor import supervise
from triggers.trigger import Trigger


def run(
    context: typer.Context,
    module: str = typer.Argument(help="A module with triggers, such as examples.booking."),
    provider: str = typer.Option(..., envvar="DOUBTLESS_PROVIDER", help=PROVIDER_URLS),
    history: str | None = typer.Option(
        None, envvar="DOUBTLESS_HISTORY", help=f"For triggers that name none: {HISTORY_URLS}"
    ),
    name: str | None = typer.Option(None, help="This consumer's name, unique among the living."),
    processes: int = typer.Option(1, min=1, help="How many processes to run; crashed ones start again."),
    until_idle: float | None = typer.Option(None, help="End after so many seconds without a message."),
    only: list[str] | None = typer.Option(None, "--trigger", "-t", help="Only these triggers."),
    parent: int | None = typer.Option(None, hidden=True),
) -> None:
    """Run the triggers of a module until SIGTERM or SIGINT; once more ends it at once.

    What runs when the signal comes is finished and acknowledged; what was only fetched is given back. When
    the broker or the history goes away, the triggers wait and go on by themselves.
    """
    if processes > 1:
        sys.exit(supervise(processes, name))
    triggers = collect(module, only)
    state = State.of(context)
    state.say(f"running {', '.join(trigger.name for trigger in triggers)}; Ctrl-C drains")
    counts = _consume(triggers, provider, history, name, until_idle, parent)
    columns = sorted({kind for count in counts.values() for kind in count})
    rows: list[dict[str, Any]] = [{"trigger": key, **count} for key, count in counts.items()]
    state.show("handled", ["trigger", *columns], rows)


def _consume(
    triggers: Sequence[AnyTrigger],
    provider: str,
    history: str | None,
    name: str | None,
    until_idle: float | None,
    parent: int | None,
) -> dict[str, Counter[str]]:
    if not any(trigger.is_async for trigger in triggers):
        consumer = Consumer(triggers, provider, history=history, name=name, parent=parent)
        consumer.run(signals=True, until_idle=until_idle)
        return consumer.counts

    async def consume() -> dict[str, Counter[str]]:
        consumer = AsyncConsumer(triggers, provider, history=history, name=name)
        await consumer.run(signals=True, until_idle=until_idle)
        return consumer.counts

    return asyncio.run(consume())


def collect(module: str, only: Sequence[str] | None = None) -> list[AnyTrigger]:
    """Import a module, from the current folder too, and return the triggers it holds.

    Raises:
        ConfigurationError: the module cannot be imported, or has no such trigger.
    """
    if os.getcwd() not in sys.path:  # noqa: PTH109  (sys.path holds text)
        sys.path.insert(0, os.getcwd())  # noqa: PTH109  (as above)
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(error.name + ".")):
            raise
        raise ConfigurationError("MODULE", f"no module named {error.name!r}", "give a dotted path") from error
    triggers: list[AnyTrigger] = list(
        dict.fromkeys(value for value in vars(found).values() if isinstance(value, Trigger))
    )
    if not only:
        if not triggers:
            raise ConfigurationError(
                "MODULE", f"{module} has no triggers", "decorate a function with @trigger"
            )
        return triggers
    known = {trigger.name: trigger for trigger in triggers}
    for name in only:
        if name not in known:
            raise ConfigurationError(
                "--trigger", f"{name!r} is not in {module}", f"use one of {sorted(known)}"
            )
    return [known[name] for name in only]
