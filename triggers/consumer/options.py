"""Checking what a consumer is told, whether blocking or asyncio."""

from collections.abc import Sequence
from typing import Any, cast

from history.errors import ConfigurationError
from triggers.declaration.decorator import Trigger
from triggers.service.checking import (
    check_able,
    check_callable,
    check_least,
    check_name,
    check_seconds,
    check_switch,
    check_text,
    pointing,
)


def check_options(
    triggers: Any, provider: Any, *, history: Any, name: Any, observe: Any, parent: Any
) -> None:
    """Refuse options of a consumer that are of another type.

    Raises:
        ConfigurationError: naming the first one.
    """
    several = isinstance(triggers, Sequence) and not isinstance(triggers, str)
    if not several or not all(isinstance(one, Trigger) for one in cast("Sequence[Any]", triggers)):
        raise ConfigurationError(
            "triggers", f"{triggers!r:.60} is no list of triggers", "write Consumer([book], ...)"
        )
    if isinstance(provider, str):
        check_text("provider", provider, "give a URL, such as 'redis://...'")
    else:
        check_able("provider", provider, ("send", "open_receiver"), "give a URL or a provider")
    if isinstance(history, str):
        check_text("history", history, "give a URL, such as 'redis://...'")
    elif history is not None:
        check_able("history", history, ("claim", "settle"), "give a URL or a store")
    if name is not None:
        check_name("name", name)
    if observe is not None:
        check_callable("observe", observe, "give a function of a Step")
    if parent is not None:
        check_least("parent", parent, 1)


def check_run(*, signals: Any, until_idle: Any) -> None:
    """Refuse options of a consumer's run that are of another type.

    Raises:
        ConfigurationError: naming the first one.
    """
    with pointing():
        check_switch("signals", signals)
        if until_idle is not None:
            check_seconds("until_idle", until_idle)
