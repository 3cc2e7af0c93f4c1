"""What a trigger may say of its join, checked once."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

from history.errors import ConfigurationError

if TYPE_CHECKING:
    from triggers.service.settings import Settings

#: Every message runs the service; one of each destination does, together; the first of an activation does.
JoinKind = Literal["any", "all", "one"]

#: How long a join waits for its other parts, or keeps the first message's rivals out, as in the reference
#: system.
DEFAULT_JOIN_TIMEOUT = timedelta(days=1)

#: The property by which messages belong together.
ACTIVATION = "activation"


def listed(destination: Any) -> Sequence[str]:
    """Return a trigger's destinations as a list, of which there is one at least.

    Raises:
        ConfigurationError: it is neither a text nor a list of them.
    """
    names = [destination] if isinstance(destination, str) else destination
    if isinstance(names, list | tuple):
        told = cast("Sequence[Any]", names)
        if told and all(isinstance(name, str) for name in told):
            return told
    raise ConfigurationError("destination", f"{destination!r:.60} is no text", 'write @trigger("orders")')


def check_join(settings: "Settings") -> None:
    """Refuse a join that cannot hold what it promises.

    Raises:
        ConfigurationError: naming what is wrong and the remedy.
    """
    twice = [name for name, times in Counter(settings.destinations).items() if times > 1]
    if twice:
        raise ConfigurationError("destination", f"{twice[0]!r} stands twice", "name each destination once")
    if settings.join == "any":
        return
    told = f"join={settings.join!r}"
    policy = settings.policy
    if len(settings.destinations) == 1:
        raise ConfigurationError(
            "join", f"{told} joins several destinations, and there is one", 'write @trigger(["orders", ...])'
        )
    if policy.transacted:
        raise ConfigurationError(
            "join",
            f"{told} acknowledges a message before the service runs, and a transacted trigger after it",
            "leave transacted out, or join",
        )
    if settings.batch > 1:
        raise ConfigurationError("join", f"{told} takes one message at a time", "leave batch out, or join")
    if not policy.detect_duplicates:
        raise ConfigurationError(
            "join", f"{told} would join copies of a message", "leave detect_duplicates out"
        )
    if policy.on_history_error == "resolve":
        raise ConfigurationError(
            "join",
            f"{told} keeps messages beside the history, and cannot do without it",
            'leave on_history_error="resolve" out',
        )


def check_history(settings: "Settings", history: object) -> None:
    """Refuse a join that has nowhere to keep its messages.

    Raises:
        ConfigurationError: there is no history.
    """
    if settings.join != "any" and history is None:
        raise ConfigurationError(
            "join",
            f"join={settings.join!r} keeps messages beside the history, and there is none",
            "give it one, such as history='redis://...'",
        )
