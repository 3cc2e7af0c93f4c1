"""The demands of a join and of an order on the other settings of a trigger, checked once."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal, cast

from history.errors import ConfigurationError
from history.support.rendering import shown
from triggers.detection.table import Policy

#: Every message runs the service; one of each destination runs it, together; the first of an activation does.
JoinKind = Literal["any", "all", "one"]

#: When a delivery is acknowledged: after it was processed, before, or after it but lazily.
AcknowledgeMode = Literal["client", "auto", "dups_ok"]

#: How long a join waits for its other parts, or discards further messages, as in webMethods.
DEFAULT_JOIN_TIMEOUT = timedelta(days=1)

#: The property that says which messages belong together.
ACTIVATION = "activation"


def listed(destination: Any) -> Sequence[str]:
    """Return a trigger's destinations as a list of at least one.

    Raises:
        ConfigurationError: it is neither a text nor a list of texts.
    """
    names = [destination] if isinstance(destination, str) else destination
    if isinstance(names, list | tuple):
        listed_names = cast("Sequence[Any]", names)
        if listed_names and all(isinstance(name, str) for name in listed_names):
            return listed_names
    raise ConfigurationError(
        "destination", f"must be text or a list of it, not {shown(destination)}", 'write @trigger("orders")'
    )


def check_join(join: JoinKind, destinations: Sequence[str], *, policy: Policy, batch: int) -> None:
    """Refuse a join that cannot keep its promise.

    Raises:
        ConfigurationError: naming what is wrong and the remedy.
    """
    twice = [name for name, times in Counter(destinations).items() if times > 1]
    if twice:
        raise ConfigurationError("destination", f"{twice[0]!r} stands twice", "name each destination once")
    if join == "any":
        return
    setting = f"join={join!r}"
    for wrong, problem, remedy in (
        (
            len(destinations) == 1,
            f"{setting} joins several destinations, and there is one",
            'write @trigger(["orders", ...])',
        ),
        (
            policy.transacted,
            f"{setting} acknowledges a message before the service runs, and a transacted trigger after it",
            "leave transacted out, or join",
        ),
        (batch > 1, f"{setting} takes one message at a time", "leave batch out, or join"),
        (
            not policy.detect_duplicates,
            f"{setting} would join copies of a message",
            "leave detect_duplicates out",
        ),
        (
            policy.on_history_error == "resolve",
            f"{setting} keeps messages beside the history, and cannot do without it",
            'leave on_history_error="resolve" out',
        ),
    ):
        if wrong:
            raise ConfigurationError("join", problem, remedy)


def check_history(join: JoinKind, history: object) -> None:
    """Refuse a join that has no place to store its messages.

    Raises:
        ConfigurationError: the history is missing.
    """
    if join != "any" and history is None:
        raise ConfigurationError(
            "join",
            f"join={join!r} keeps messages beside the history, and there is none",
            "give it one, such as history='redis://...'",
        )


def check_ordering(
    history: object, *, destinations: Sequence[str], batch: int, acknowledge_mode: AcknowledgeMode
) -> None:
    """Refuse an ordered trigger if its order cannot be kept.

    Raises:
        ConfigurationError: naming what is wrong and the remedy.
    """
    for setting, wrong, problem, remedy in (
        (
            "history",
            history is None,
            "which process receives is settled in the document history, and there is none",
            "give it one, such as history='redis://...'",
        ),
        (
            "destination",
            len(destinations) > 1,
            "ordered=True keeps the order of one destination, and there are several",
            "name one destination, and have the senders use it",
        ),
        ("batch", batch > 1, "ordered=True takes one message at a time", "leave batch out"),
        (
            "acknowledge_mode",
            acknowledge_mode != "client",
            "ordered=True needs to know what was processed before what comes after it",
            "leave acknowledge_mode out",
        ),
    ):
        if wrong:
            raise ConfigurationError(setting, problem, f"{remedy}, or leave ordered out")
