"""The keys of ``doubtless.toml``, and of the variables that begin with ``DOUBTLESS_``.

    provider = "redis://127.0.0.1:6379/0?password=file:/run/secrets/redis"
    history = "env:ORDERS_HISTORY"
    sinks = ["log:"]
    metrics = "127.0.0.1:9464"
    log_format = "json"

    [defaults]
    max_delivery_count = 20

    [triggers.book-order]
    concurrency = 8
    lease = "2m"
    retry = { max_attempts = 3, interval = "5s" }

A trigger's keys are those with which it is operated. What decides what a message is (its identity, its
resolver, what becomes of a message that is In Doubt) stands in the code, for the code depends on it.
"""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from history.support.urls import split_url
from triggers.configuration.durations import Duration
from triggers.configuration.layers import INTO, PREFIX
from triggers.configuration.limits import wrong_value
from triggers.detection.table import FailurePolicy


def _no_switch(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("is no number: write one")  # noqa: TRY004  (pydantic takes no other for its own)
    return value


def _switch_or_url(value: Any) -> Any:
    """Take a switch as a file has it, or as a variable has it, or a URL."""
    value = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
    if not isinstance(value, bool) and not (isinstance(value, str) and value):
        raise ValueError("is neither a switch nor a URL: write true, false or the URL of a history")
    return value


def _possible(value: Any) -> Any:
    if (wrong := wrong_value(value)) is not None:
        raise ValueError(wrong.text)
    return value


def _parsed(value: Any) -> Any:
    try:
        if isinstance(value, str):
            split_url(value)
    except ValueError:  # whose text may quote a password
        raise ValueError("is not a URL: write one such as redis://127.0.0.1:6379/0") from None
    return value


def _several(value: Any) -> Any:
    """Take what a variable holds, with spaces between, for a list."""
    return value.split() if isinstance(value, str) else value


#: Text that says something.
Text = Annotated[str, AfterValidator(_possible)]

#: The URL of a server or a file.
Url = Annotated[Text, AfterValidator(_parsed)]

#: A whole number; pydantic alone would take True for 1.
Number = Annotated[int, BeforeValidator(_no_switch), AfterValidator(_possible)]

#: A number that may have a fraction.
Factor = Annotated[float, BeforeValidator(_no_switch), AfterValidator(_possible)]


#: The path of a file.
File = Annotated[Path, BeforeValidator(_possible)]

#: Whether there is one, or the URL where it is.
SwitchOrUrl = Annotated[
    bool | str, BeforeValidator(_switch_or_url), AfterValidator(_possible), AfterValidator(_parsed)
]


class RetryKeys(BaseModel):
    """Those of :class:`triggers.Retry`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    max_attempts: Number = 0
    interval: Duration | None = None
    backoff: Factor = 1.0
    max_interval: Duration | None = None


class RedeliveryKeys(BaseModel):
    """Those of :class:`triggers.Redelivery`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    interval: Duration | None = None
    backoff: Factor = 2.0
    max_interval: Duration | None = None


class DefaultKeys(BaseModel):
    """How triggers are operated. Only keys that are set count; the values here are never used."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    concurrency: Number = 1
    prefetch: Number = 1
    lease: Duration | None = None
    history_time_to_live: Duration | None = None
    max_delivery_count: Number = 1
    max_body_size: Number = 1
    retry: RetryKeys = RetryKeys()
    redelivery: RedeliveryKeys = RedeliveryKeys()
    on_retry_failure: FailurePolicy = "throw"
    suspend_on_error: bool = False
    monitor_interval: Duration | None = None
    redelivery_horizon: Duration | None = None
    raise_event_on_exception: bool = True
    raise_event_on_retry_failure: bool = True
    tracing: bool = False
    parking: Url | None = None


class TriggerKeys(DefaultKeys):
    """How one trigger is operated."""

    history: Url | None = None
    join_timeout: Duration | None = None
    journal: SwitchOrUrl = False
    local_parking_file: File | None = None


class Keys(BaseModel):
    """All of them."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    provider: Url | None = None
    history: Url | None = None
    sinks: Annotated[tuple[Url, ...], NoDecode, BeforeValidator(_several)] = ()
    metrics: Text | None = None
    log_format: Literal["text", "json"] = "text"
    log_verdicts: bool = True
    journal: SwitchOrUrl = False
    defaults: DefaultKeys = DefaultKeys()
    triggers: dict[str, TriggerKeys] = Field(default_factory=dict[str, TriggerKeys])


class Variables(BaseSettings, Keys):
    """How they are called in the environment. It is never made: the library reads the variables by it."""

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(  # pyright: ignore[reportIncompatibleVariableOverride]
        env_prefix=PREFIX, env_nested_delimiter=INTO, env_ignore_empty=True
    )
