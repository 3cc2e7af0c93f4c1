"""The settings of a trigger, checked once, with errors that name the setting and the remedy."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self, cast

from history.beside.parking import Parking
from history.entry import DEFAULT_TIME_TO_LIVE, check_held
from history.errors import ConfigurationError
from history.message import Message
from history.support.redaction import Redact, Redaction, redaction_of
from history.support.rendering import shown
from triggers.detection.causes import EXCEPTION_CAUSES, RETRY_FAILURE_CAUSES, Cause
from triggers.detection.table import (
    FailurePolicy,
    ForgottenPolicy,
    HistoryErrorPolicy,
    InDoubtPolicy,
    Policy,
    ResolvedDuplicatePolicy,
    RollbackPolicy,
)
from triggers.selectors import Selector
from triggers.service.checking import (
    LARGEST,
    MOST_AT_ONCE,
    check_able,
    check_choice,
    check_duration,
    check_history_url,
    check_kind,
    check_name,
    check_redact,
    check_switch,
    check_takes,
    check_text,
    check_tracing,
    check_whole,
    refuse_beside,
)
from triggers.service.failures import Redelivery, Retry, Transient, is_transient
from triggers.service.filters import MessageFilter
from triggers.service.fingerprints import FingerprintSource, read_fingerprint
from triggers.service.identity import IdentitySource, read_identity
from triggers.service.keeping import Keep, keep_of
from triggers.service.outcome import DuplicateHook
from triggers.service.terms import DEFAULT_JOIN_TIMEOUT, AcknowledgeMode, JoinKind, check_join

#: The default for the largest body that a service receives, in bytes.
DEFAULT_MAX_BODY_SIZE = 1024 * 1024

#: How often a suspended trigger asks its monitor whether it may resume.
DEFAULT_MONITOR_INTERVAL = timedelta(seconds=60)

#: The default for how long a started run is presumed alive; renewed while the run goes on.
DEFAULT_LEASE = timedelta(seconds=30)

#: With a short history_time_to_live, the default lease is at most this part of it.
LEASES_PER_TIME_TO_LIVE = 3

#: One run, without a repetition.
NO_RETRY, GROWING = Retry(), Redelivery()

#: By the two switches, in this order.
_SILENCED: dict[tuple[bool, bool], frozenset[Cause]] = {
    (True, True): frozenset(),
    (True, False): RETRY_FAILURE_CAUSES,
    (False, True): EXCEPTION_CAUSES,
    (False, False): EXCEPTION_CAUSES | RETRY_FAILURE_CAUSES,
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of ``@trigger``, except the history and the resolver, which the trigger opens."""

    name: str
    destination: str
    policy: Policy
    history_time_to_live: timedelta = DEFAULT_TIME_TO_LIVE
    lease: timedelta | None = None
    retry: Retry = NO_RETRY
    redelivery: Redelivery | None = GROWING
    transient: Transient = (ConnectionError, TimeoutError)
    monitor: Callable[[], bool] | None = None
    monitor_interval: timedelta = DEFAULT_MONITOR_INTERVAL
    concurrency: int = 1
    prefetch: int = 10
    batch: int = 1
    max_body_size: int = DEFAULT_MAX_BODY_SIZE
    parking: str | Parking | None = field(default=None, repr=False)  # a URL may have a password
    local_parking_file: Path | None = None
    raise_event_on_exception: bool = True
    raise_event_on_retry_failure: bool = True
    acknowledge_mode: AcknowledgeMode = "client"
    redelivery_horizon: timedelta | None = None
    more_destinations: tuple[str, ...] = ()
    join: JoinKind = "any"
    join_timeout: timedelta | None = DEFAULT_JOIN_TIMEOUT
    ordered: bool = False
    selector: Selector | None = None
    filter: MessageFilter | None = None
    resolved_duplicate: ResolvedDuplicatePolicy = "complete"
    uuid: IdentitySource | None = None
    on_duplicate: DuplicateHook | str | None = None
    shadow: bool = False
    keep_result: bool | Keep = False
    fingerprint: FingerprintSource | None = None
    journal: bool | str = field(default=False, repr=False)
    tracing: bool = False
    redact: Redact = None

    @classmethod
    def of(cls, destinations: Sequence[str], options: Mapping[str, Any], service: Any) -> Self:
        """Return the settings for a user's options; an option that is left out has its default here.

        ``options`` are some of :class:`~triggers.service.options.TriggerOptions`. The caller opens
        ``history`` and ``resolver``, and handles names that are not settings. ``service`` gives the default
        name. ``lease`` is None by default: add :data:`TRIGGER_DEFAULTS` for the usual lease.

        Raises:
            ConfigurationError: naming what is wrong and the remedy.
        """
        chosen = {name: options[name] for name in options if name in _OPTIONS}
        chosen["policy"] = _policy_of(options)
        chosen["destination"], *more = destinations
        chosen["more_destinations"] = tuple(more)
        name, selector = options.get("name"), options.get("selector")
        chosen["name"] = default_name(service) if name is None else name
        chosen["selector"] = None if selector is None else Selector.parse(selector)
        chosen["retry"] = retry_of(options.get("retry"))
        if "lease" in chosen:
            chosen["lease"] = lease_of(
                chosen["lease"], chosen.get("history_time_to_live", DEFAULT_TIME_TO_LIVE)
            )
        return cls(**chosen)

    def __post_init__(self) -> None:
        check_name("name", self.name)
        for name in self.destinations:
            check_name("destination", name)
        self._check_policy()
        self._check_numbers()
        self._check_durations()
        self._check_kinds()
        self._check_what_recovers()
        self._check_shadow()
        if self.keep is not None:
            refuse_beside(
                "keep_result keeps one message's result beside its entry",
                shadow=self.shadow,
                join=self.join != "any",
                batch=self.batch > 1,
                detect_duplicates=not self.policy.detect_duplicates,
            )
        if read_fingerprint(self.fingerprint) is not None:
            refuse_beside(
                "fingerprint compares the bodies of one uuid, one by one",
                shadow=self.shadow,
                join=self.join != "any",
                detect_duplicates=not self.policy.detect_duplicates,
            )
        _check_memory(self.history_time_to_live, self.lease)
        if self.policy.transacted and self.retry.max_attempts:
            raise ConfigurationError(
                "retry",
                "a transacted trigger is tried again by redelivery, not in process",
                "leave retry out, or transacted",
            )
        if self.uuid is not None:
            read_identity(self.uuid, self.max_body_size)
        check_join(self.join, self.destinations, policy=self.policy, batch=self.batch)
        object.__setattr__(self, "policy", _the(self.policy))  # only now: unchecked values may be unhashable

    def _check_policy(self) -> None:
        policy = self.policy
        check_whole("max_delivery_count", policy.max_delivery_count, 1)
        check_choice("in_doubt", policy.in_doubt, InDoubtPolicy)
        check_choice("on_retry_failure", policy.on_retry_failure, FailurePolicy)
        check_choice("on_history_error", policy.on_history_error, HistoryErrorPolicy)
        check_choice("forgotten", policy.forgotten, ForgottenPolicy)
        check_switch("detect_duplicates", policy.detect_duplicates)
        check_switch("transacted", policy.transacted)
        check_switch("suspend_on_error", policy.suspend_on_error)

    def _check_numbers(self) -> None:
        check_whole("concurrency", self.concurrency, 1, MOST_AT_ONCE)
        check_whole("prefetch", self.prefetch, 1, MOST_AT_ONCE)
        check_whole("batch", self.batch, 1, MOST_AT_ONCE)
        check_whole("max_body_size", self.max_body_size, 1, LARGEST)

    def _check_durations(self) -> None:
        check_duration("history_time_to_live", self.history_time_to_live)
        check_duration("monitor_interval", self.monitor_interval)
        for setting in ("lease", "redelivery_horizon", "join_timeout"):
            value = getattr(self, setting)
            if value is not None:
                check_duration(setting, value)

    def _check_kinds(self) -> None:
        check_kind("retry", self.retry, Retry, "use Retry(max_attempts=3), or leave it out")
        if self.redelivery is not None:
            check_kind("redelivery", self.redelivery, Redelivery, "use Redelivery(), or None for no pause")
        _check_transient(self.transient)
        check_switch("raise_event_on_exception", self.raise_event_on_exception)
        check_switch("raise_event_on_retry_failure", self.raise_event_on_retry_failure)
        check_switch("ordered", self.ordered)
        check_switch("shadow", self.shadow)
        check_choice("acknowledge_mode", self.acknowledge_mode, AcknowledgeMode)
        check_choice("join", self.join, JoinKind)
        check_choice("resolved_duplicate", self.resolved_duplicate, ResolvedDuplicatePolicy)
        if self.monitor is not None:
            remedy = "give a function without parameters that returns True or False"
            check_takes("monitor", self.monitor, remedy=remedy)
        self._check_on_duplicate()
        if self.local_parking_file is not None:
            check_kind("local_parking_file", self.local_parking_file, Path, "use Path(...)")
        if isinstance(self.journal, str):
            check_history_url("journal", self.journal, "give True, or the URL of a history")
        else:
            check_switch("journal", self.journal)
        check_tracing(self.tracing)
        check_redact(self.redact)
        if isinstance(self.parking, str):
            check_history_url("parking", self.parking, "give a URL or a parking lot")
        elif self.parking is not None:
            check_able("parking", self.parking, ("park", "labels", "remove"), "give a URL or a parking lot")

    def _check_on_duplicate(self) -> None:
        option, remedy = self.on_duplicate, "give a function of the message and its outcome, or a destination"
        if isinstance(option, str):
            check_text("on_duplicate", option, remedy)
            if option in self.destinations:
                raise ConfigurationError(
                    "on_duplicate",
                    f"duplicates sent to {option} would come back here",
                    "name another destination",
                )
        elif option is not None:
            check_takes("on_duplicate", option, "a message", "its outcome", remedy=remedy)

    @property
    def destinations(self) -> tuple[str, ...]:
        """Where the messages come from, in the trigger's order."""
        return (self.destination, *self.more_destinations)

    def index_of(self, message: Message | None) -> int:
        """Return the index of a message's destination among them; 0 if it names none."""
        named = None if message is None else message.destination
        return self.destinations.index(named) if named in self.destinations else 0

    def _check_what_recovers(self) -> None:
        """Refuse settings that would recover a message after it was acknowledged."""
        if self.acknowledge_mode != "auto":
            return
        for setting, recovers in (
            ("transacted", self.policy.transacted),
            ("on_retry_failure", self.policy.on_retry_failure == "suspend"),
        ):
            if recovers:
                raise ConfigurationError(
                    setting,
                    "gives messages back, and acknowledge_mode='auto' has acknowledged them already",
                    "use acknowledge_mode='client', or leave it out",
                )

    def _check_shadow(self) -> None:
        """Refuse a shadow for a trigger that needs its history, or that would recover a message for ever."""
        if not self.shadow:
            return
        refuse_beside(
            "shadow=True detects duplicates, depends on no history, and gives nothing back",
            transacted=self.policy.transacted,
            ordered=self.ordered,
            join=self.join != "any",
            detect_duplicates=not self.policy.detect_duplicates,
        )

    @cached_property
    def keep(self) -> Keep | None:
        """How results are kept; None if they are not."""
        return keep_of(self.keep_result)

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another try may succeed after this failure."""
        return is_transient(error, self.transient, self.redaction)

    @cached_property
    def redaction(self) -> Redaction | None:
        """Removes values from the texts of errors; None if nothing is removed."""
        return redaction_of(self.redact)

    @cached_property
    def silenced(self) -> frozenset[Cause]:
        """The causes that raise no event. No switch silences the causes for which the sender is to blame."""
        return _SILENCED[self.raise_event_on_exception, self.raise_event_on_retry_failure]


#: Fields that are not options of this name: the user sets them in another form, or others open them.
_SAID_OTHERWISE = frozenset({"name", "destination", "more_destinations", "policy", "selector", "retry"})
_OPTIONS = frozenset(field.name for field in fields(Settings)) - _SAID_OTHERWISE
_POLICY_OPTIONS = frozenset(field.name for field in fields(Policy))

#: The options of ``@trigger`` that are settings, with their defaults.
TRIGGER_DEFAULTS: Mapping[str, Any] = {
    **{field.name: field.default for field in fields(Settings) if field.name in _OPTIONS},
    **{field.name: field.default for field in fields(Policy)},
    "name": None,
    "retry": None,
    "selector": None,
    "lease": DEFAULT_LEASE,
    "on_rollback": "recover",
}


def _policy_of(options: Mapping[str, Any]) -> Policy:
    """Return the settings for the decision table; duplicates are detected only in "client" mode.

    Raises:
        ConfigurationError: ``on_rollback`` is unknown, or nothing is rolled back.
    """
    on_rollback = options.get("on_rollback", "recover")
    check_choice("on_rollback", on_rollback, RollbackPolicy)
    if on_rollback != "recover" and not options.get("transacted", False):
        raise ConfigurationError(
            "on_rollback", "only a transacted trigger rolls back", "use on_retry_failure, or transacted=True"
        )
    detects = options.get("detect_duplicates", True)
    check_switch("detect_duplicates", detects)
    chosen = {name: options[name] for name in options if name in _POLICY_OPTIONS}
    chosen["detect_duplicates"] = detects and options.get("acknowledge_mode", "client") == "client"
    if on_rollback == "suspend_and_recover":
        chosen["on_retry_failure"] = "suspend"
    return Policy(**chosen)


@cache
def _the(policy: Policy) -> Policy:
    """Return the first policy that equals this one: two that are one object are compared quickly."""
    return policy


def retry_of(retry: Any) -> Retry:
    """Return the retries, none if the option was left out. Settings refuse a value that is not a Retry."""
    return NO_RETRY if retry is None else retry


def lease_of(lease: timedelta | None, history_time_to_live: timedelta) -> timedelta | None:
    """Return the lease; the default lease is shorter if the history forgets soon.

    Raises:
        ConfigurationError: the time to live is not a duration.
    """
    if lease is None or lease is not DEFAULT_LEASE:
        return lease
    check_duration("history_time_to_live", history_time_to_live)
    return min(lease, max(history_time_to_live / LEASES_PER_TIME_TO_LIVE, timedelta(milliseconds=1)))


def _check_memory(time_to_live: timedelta, lease: timedelta | None) -> None:
    """Refuse a time to live that the history cannot store, or that ends while the lease is alive."""
    check_held("history_time_to_live", time_to_live)
    check_held("lease", lease)
    if lease is not None and lease > time_to_live:
        raise ConfigurationError(
            "history_time_to_live",
            f"{time_to_live} is less than the lease of {lease}: the history would forget runs that go on",
            "raise history_time_to_live, or lower lease",
        )


def _check_transient(kinds: Any) -> None:
    if not isinstance(kinds, tuple):
        if not isinstance(kinds, type) and callable(kinds) and not inspect.iscoroutinefunction(kinds):
            check_takes("transient", kinds, "an exception", remedy="give a function of (error)")
            return
        raise ConfigurationError(
            "transient",
            f"must be a tuple or a function of (error), not {shown(kinds)}",
            "write (ConnectionError,)",
        )
    for error_type in cast("tuple[Any, ...]", kinds):  # type: ignore[redundant-cast]  # (pyright needs it)
        if not isinstance(error_type, type) or not issubclass(error_type, Exception):
            raise ConfigurationError(
                "transient",
                f"must be exception classes, not {shown(cast('object', error_type))}",
                "give subclasses of Exception",
            )


def default_name(service: Callable[..., Any]) -> str:
    """Return "module.function", the default name of a trigger.

    Raises:
        ConfigurationError: the name would not be unique: two scripts or notebooks are both ``__main__``, and
            triggers of one name take each other's messages for duplicates.
    """
    module, name = inspect.getmodule(service), getattr(service, "__qualname__", None)
    if module is None or module.__name__ == "__main__":
        raise ConfigurationError(
            "name",
            "this runs as __main__, as every script and every notebook does, and a name must be its own",
            f'say name="{_suggested(name)}", and keep to it'
            f' ("__main__.{name}" if that is what the history knows)',
        )
    if name is None or "<lambda>" in name:
        raise ConfigurationError(
            "name",
            f"{shown(service)} has none that would be its own",
            'say name="book-order", and keep to it',
        )
    return f"{module.__name__}.{name}"


def _suggested(name: str | None) -> str:
    return "book-order" if name is None or not name.isidentifier() else name.replace("_", "-")
