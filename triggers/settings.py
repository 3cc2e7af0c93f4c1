"""The settings of a trigger, checked once, with errors that name the setting and the remedy."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

from history.entry import DEFAULT_TIME_TO_LIVE
from history.errors import ConfigurationError
from history.parking import Parking
from triggers.detection import FailurePolicy, HistoryErrorPolicy, InDoubtPolicy, Policy
from triggers.failures import Retry

#: The largest body a service is given when nobody says otherwise, in bytes.
DEFAULT_MAX_BODY_SIZE = 1024 * 1024

#: How often a suspended trigger asks whether it may go on.
DEFAULT_MONITOR_INTERVAL = timedelta(seconds=60)

#: One run, and no other.
NO_RETRY = Retry()

_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that ``@trigger`` was told, but for the history and the resolver, which it opens."""

    name: str
    destination: str
    policy: Policy
    history_time_to_live: timedelta = DEFAULT_TIME_TO_LIVE
    lease: timedelta | None = None
    retry: Retry = NO_RETRY
    transient: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)
    monitor: Callable[[], bool] | None = None
    monitor_interval: timedelta = DEFAULT_MONITOR_INTERVAL
    concurrency: int = 1
    prefetch: int = 10
    max_body_size: int = DEFAULT_MAX_BODY_SIZE
    parking: str | Parking | None = None
    local_parking_file: Path | None = None

    def __post_init__(self) -> None:
        _check_name("name", self.name)
        _check_name("destination", self.destination)
        _check_least("max_delivery_count", self.policy.max_delivery_count, 1)
        _check_least("concurrency", self.concurrency, 1)
        _check_least("prefetch", self.prefetch, 1)
        _check_least("max_body_size", self.max_body_size, 1)
        _check_choice("in_doubt", self.policy.in_doubt, InDoubtPolicy)
        _check_choice("on_retry_failure", self.policy.on_retry_failure, FailurePolicy)
        _check_choice("on_history_error", self.policy.on_history_error, HistoryErrorPolicy)
        _check_duration("history_time_to_live", self.history_time_to_live)
        _check_duration("monitor_interval", self.monitor_interval)
        if self.lease is not None:
            _check_duration("lease", self.lease)
        if self.policy.transacted and self.retry.max_attempts:
            raise ConfigurationError(
                "retry",
                "a transacted trigger is tried again by redelivery, not in process",
                "leave retry out, or transacted",
            )
        _check_transient(self.transient)


# What follows is typed Any: these values are a user's, and not every user runs a type checker.


def _check_transient(kinds: tuple[Any, ...]) -> None:
    if not isinstance(kinds, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]  (a user's)
        raise ConfigurationError("transient", f"{kinds!r} is no tuple", "write (ConnectionError,)")
    for kind in kinds:
        if not isinstance(kind, type) or not issubclass(kind, Exception):
            raise ConfigurationError(
                "transient", f"{kind!r} is no exception class", "give subclasses of Exception"
            )


def _check_name(setting: str, value: Any) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME:
        raise ConfigurationError(
            setting, f"{value!r:.60} is empty, too long or no text", f"use 1 to {_LONGEST_NAME} characters"
        )


def _check_least(setting: str, value: Any, least: int) -> None:
    if type(value) is not int or value < least:
        raise ConfigurationError(setting, f"{value!r} is no number from {least}", f"use {least} or more")


def _check_choice(setting: str, value: Any, choices: Any) -> None:
    if value not in get_args(choices):
        known = " or ".join(repr(choice) for choice in get_args(choices))
        raise ConfigurationError(setting, f"{value!r} is unknown", f"use {known}")


def _check_duration(setting: str, value: Any) -> None:
    if not isinstance(value, timedelta) or value < timedelta(milliseconds=1):
        raise ConfigurationError(
            setting, f"{value!r} is no duration", "use a timedelta of a millisecond or more"
        )
