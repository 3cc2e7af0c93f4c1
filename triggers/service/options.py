"""The types of a trigger's options: the keywords of ``@trigger``, and the options that others share.

The docstring of :func:`triggers.trigger` explains them. :class:`~triggers.service.settings.Settings` has
their defaults and checks their values.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from history.beside.parking import Parking
from history.errors import ConfigurationError
from history.store import HistoryStore
from history.support.redaction import Redact
from resolvers.resolution import Resolver
from triggers.detection.table import (
    FailurePolicy,
    ForgottenPolicy,
    HistoryErrorPolicy,
    InDoubtPolicy,
    ResolvedDuplicatePolicy,
    RollbackPolicy,
)
from triggers.service.checking import LARGEST
from triggers.service.failures import Redelivery, Retry, Transient
from triggers.service.filters import MessageFilter
from triggers.service.fingerprints import FingerprintSource
from triggers.service.identity import IdentitySource
from triggers.service.keeping import Keep
from triggers.service.outcome import DuplicateHook
from triggers.service.terms import AcknowledgeMode, JoinKind

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ConsumersDefault:
    """The value of a history option that was left out: use the consumer's history."""


#: The history of a trigger that does not name a history.
CONSUMERS_DEFAULT = ConsumersDefault()

#: The largest body of a guard's message: unlimited. It shows the call, and no broker of ours receives it; the
#: framework has its own limits.
LARGEST_BODY = LARGEST

#: Where a trigger's history comes from.
HistorySource = str | HistoryStore | ConsumersDefault | None


class DetectionOptions(TypedDict, total=False):
    """The options of everything that detects duplicates."""

    max_delivery_count: int
    history_time_to_live: timedelta
    in_doubt: InDoubtPolicy
    redact: Redact


class CommonOptions(DetectionOptions, total=False):
    """The options that ``@trigger`` shares with what Spark calls with a batch."""

    name: str | None
    transient: Transient


class HostOptions(DetectionOptions, total=False):
    """The options of ``guarded`` for a framework with its own retries: a guard's options without retries."""

    resolver: Resolver | str | None
    lease: timedelta | None
    on_history_error: HistoryErrorPolicy
    forgotten: ForgottenPolicy
    resolved_duplicate: ResolvedDuplicatePolicy
    redelivery_horizon: timedelta | None
    parking: str | Parking | None
    local_parking_file: Path | None
    raise_event_on_exception: bool
    shadow: bool
    journal: bool | str


class GuardOptions(HostOptions, total=False):
    """The options of :func:`~triggers.guards.protect`, except its name and its history."""

    transient: Transient
    retry: Retry | None
    on_retry_failure: FailurePolicy
    transacted: bool
    raise_event_on_retry_failure: bool
    keep_result: bool | Keep
    fingerprint: FingerprintSource | None


class TriggerOptions(GuardOptions, total=False):
    """The options of ``@trigger``, except its destination: a guard's options, and those of a consumer."""

    name: str | None
    history: HistorySource
    uuid: IdentitySource | None
    on_duplicate: DuplicateHook | str | None
    detect_duplicates: bool
    redelivery: Redelivery | None
    on_rollback: RollbackPolicy
    suspend_on_error: bool
    monitor: Callable[[], bool] | None
    monitor_interval: timedelta
    concurrency: int
    prefetch: int
    batch: int
    acknowledge_mode: AcknowledgeMode
    max_body_size: int
    join: JoinKind
    join_timeout: timedelta | None
    ordered: bool
    selector: str | None
    filter: MessageFilter | None
    tracing: bool


def showing_options(options: type, defaults: Mapping[str, Any]) -> Callable[[F], F]:
    """Have ``help()`` and notebooks show each option with its default, as a type checker shows them."""
    keywords = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=annotation)
        for name, annotation in options.__annotations__.items()
    ]

    def show(function: F) -> F:
        signature = inspect.signature(function)
        named = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        vars(function)["__signature__"] = signature.replace(parameters=[*named, *keywords])
        return function

    return show


#: Options that belong to the consumer of a trigger, and where to set them.
_OF_CONSUMERS = {
    "provider": "give its URL to the consumer: Consumer([...], URL), doubtless run --provider, or "
    "DOUBTLESS_PROVIDER",
    "metrics": "give it to the consumer, whose triggers all are in its metrics: "
    "Consumer([...], metrics='127.0.0.1:9464'), or doubtless run --metrics",
}


def check_names(called: str, chosen: Iterable[str], offered: Iterable[str]) -> None:
    """Refuse options that ``called`` does not have.

    Raises:
        ConfigurationError: naming the first of them, and the option that may have been meant.
    """
    names = list(offered)
    for name in chosen:
        if name not in names:
            if called == "@trigger" and name in _OF_CONSUMERS:
                raise ConfigurationError(name, f"{called} has no such option", _OF_CONSUMERS[name])
            near = get_close_matches(name, names, n=3)
            meant = " or ".join(near) if near else f"one of {', '.join(sorted(names))}"
            raise ConfigurationError(name, f"{called} has no such option", f"use {meant}")
