"""Check the arguments of a consumer, and compute their defaults."""

import logging
import os
import socket
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from history.errors import ConfigurationError
from triggers.declaration.decorator import Trigger
from triggers.providers.backlog import Place
from triggers.service.checking import (
    check_able,
    check_name,
    check_plain,
    check_provider,
    check_seconds,
    check_switch,
    check_text,
    check_whole,
    pointing,
)
from triggers.service.settings import Settings

_log = logging.getLogger(__name__)

AnyTrigger = Trigger[..., Any]


def places_of(triggers: Sequence[AnyTrigger]) -> list[Place]:
    """Return where triggers receive from, each place once."""
    return list(dict.fromkeys((place, one.name) for one in triggers for place in one.destinations))


def check_options(
    triggers: Any, provider: Any, *, history: Any, name: Any, observe: Any, parent: Any, metrics: Any
) -> None:
    """Refuse arguments of a consumer that have a wrong type.

    Raises:
        ConfigurationError: naming the first one.
    """
    several = isinstance(triggers, Sequence) and not isinstance(triggers, str)
    if not several or not all(isinstance(each, Trigger) for each in cast("Sequence[Any]", triggers)):
        raise ConfigurationError(
            "triggers", f"{triggers!r:.60} is not a list of triggers", "write Consumer([book], ...)"
        )
    check_provider(provider)
    check_process(history=history, name=name, observe=observe, parent=parent, metrics=metrics)


def check_process(*, history: Any, name: Any, observe: Any, parent: Any, metrics: Any) -> None:
    """Refuse arguments of a wrong type that a consumer and a Patch Bay share.

    Raises:
        ConfigurationError: naming the first one.
    """
    if isinstance(history, str):
        check_text("history", history, "give a URL, such as 'redis://...'")
    elif history is not None:
        check_able("history", history, ("claim", "settle"), "give a URL or a store")
    if name is not None:
        check_name("name", name)
    if observe is not None:
        check_plain("observe", observe, "a Step", remedy="give a function of a Step")
    if parent is not None:
        check_whole("parent", parent, 1)
    if metrics is not None:
        check_text("metrics", metrics, "write host:port, such as '127.0.0.1:9464'")


def check_run(*, signals: Any, until_idle: Any, started: Any) -> None:
    """Refuse arguments of a consumer's run that have a wrong type.

    Raises:
        ConfigurationError: naming the first one.
    """
    with pointing():
        check_switch("signals", signals)
        if until_idle is not None:
            check_seconds("until_idle", until_idle)
        if started is not None:
            check_plain("started", started, remedy="give a function without parameters")


def check_triggers(triggers: Sequence[AnyTrigger], history: object) -> None:
    """Refuse what cannot run in one consumer: no trigger, a name used twice, or a missing history."""
    if not triggers:
        raise ConfigurationError("triggers", "the list is empty", "decorate a function with @trigger")
    for name, times in Counter(trigger.name for trigger in triggers).items():
        if times > 1:
            raise ConfigurationError(
                f"trigger {name}", f"{times} triggers have this name", "give each its own name="
            )
    for trigger in triggers:
        if history is None and trigger.needs_history:
            trigger.open_store()  # raises with a remedy
        _warn_of_forgetting(trigger.settings)


def _warn_of_forgetting(settings: Settings) -> None:
    """Warn at the start if the history forgets a message that may still come again."""
    horizon, remembered = settings.redelivery_horizon, settings.history_time_to_live
    if horizon is not None and horizon > remembered:
        _log.warning(
            "trigger %s: messages may be delivered again for %s, but the history forgets them after %s, "
            "and they would run twice: raise history_time_to_live, or set forgotten='in_doubt'",
            settings.name,
            horizon,
            remembered,
            extra={"trigger": settings.name},
        )


def default_consumer_name() -> str:
    """Return a name that no other running consumer has: host, process and random bytes.

    Not the time: copies of one container start together, and each is process 1.
    """
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(5).hex()}"
