"""The keys of ``doubtless.toml`` and of the variables ``DOUBTLESS_...``, and what is wrong with them.

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

A trigger's keys are the ones that an operator may change. Other settings decide what a message is: its
identity, its resolver, what happens to a message that is In Doubt. These are in the code, because the code
depends on them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from history.errors import ConfigurationError
from history.support.urls import split_url
from triggers.configuration.durations import Duration
from triggers.configuration.layers import INTO, PREFIX
from triggers.configuration.limits import wrong_value
from triggers.configuration.nearest import nearest
from triggers.detection.table import FailurePolicy, HistoryErrorPolicy
from triggers.service.options import TriggerOptions

#: Returns the name of a key in its source.
Origin = Callable[..., str]


def _no_switch(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("is no number: write one")  # noqa: TRY004 (pydantic converts only this one)
    return value


def _switch_or_url(value: Any) -> Any:
    """Take a switch, as a file or a variable has it, or a URL."""
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
    except ValueError:  # its text may quote a password
        raise ValueError("is not a URL: write one such as redis://127.0.0.1:6379/0") from None
    return value


def _several(value: Any) -> Any:
    """Turn the text of a variable, with spaces between the items, into a list."""
    return value.split() if isinstance(value, str) else value


#: Text that is not empty.
Text = Annotated[str, AfterValidator(_possible)]

#: The URL of a server or a file.
Url = Annotated[Text, AfterValidator(_parsed)]

#: A whole number; pydantic itself would take True for 1.
Number = Annotated[int, BeforeValidator(_no_switch), AfterValidator(_possible)]

#: A number that may have a fraction.
Factor = Annotated[float, BeforeValidator(_no_switch), AfterValidator(_possible)]


#: The path of a file.
File = Annotated[Path, BeforeValidator(_possible)]

#: A switch, or the URL of a history.
SwitchOrUrl = Annotated[
    bool | str, BeforeValidator(_switch_or_url), AfterValidator(_possible), AfterValidator(_parsed)
]


class RetryKeys(BaseModel):
    """The keys of :class:`triggers.Retry`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    max_attempts: Number = 0
    interval: Duration | None = None
    backoff: Factor = 1.0
    max_interval: Duration | None = None


class RedeliveryKeys(BaseModel):
    """The keys of :class:`triggers.Redelivery`."""

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
    on_history_error: HistoryErrorPolicy = "suspend"
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
    """All keys."""

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
    """The variables in the environment. It is never instantiated: the library only uses it to read them."""

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(  # pyright: ignore[reportIncompatibleVariableOverride]
        env_prefix=PREFIX, env_nested_delimiter=INTO, env_ignore_empty=True
    )


def complaint(error: ValidationError, origin: Origin, *, in_variables: bool) -> ConfigurationError:
    """Return the first error. Values are not quoted, because they may be passwords."""
    first = error.errors(include_url=False, include_input=False, include_context=True)[0]
    # A variable has its whole list in one text, so a place in the list has no name.
    left_out = (int,) if in_variables else ()
    path = [str(part) for part in first["loc"] if part != "[key]" and not isinstance(part, left_out)]
    where = origin(*path)
    match first["type"]:
        case "extra_forbidden":
            return _unknown(where, path)
        case "value_error":
            problem, _, remedy = str(first.get("ctx", {}).get("error", first["msg"])).partition(": ")
            return ConfigurationError(where, problem, remedy or "correct it")
        case "model_type" | "dict_type" | "model_attributes_type":
            remedy = f"set {where}__KEY" if in_variables else f"write [{'.'.join(path)}] above its keys"
            return ConfigurationError(where, "must be a table", remedy)
        case _:
            return ConfigurationError(where, _lower(first["msg"]), "correct it")


def _unknown(where: str, path: list[str]) -> ConfigurationError:
    *above, name = path
    if above[:1] == ["defaults"] and name in TriggerKeys.model_fields:
        top = "at the top of the file, or " if name in Keys.model_fields else ""
        return ConfigurationError(where, "is not a default", f"write {name} {top}in [triggers.NAME]")
    if above and name == "on_rollback":
        remedy = (
            'write on_retry_failure = "suspend" for "suspend_and_recover", or "throw" for "recover": '
            "for a transacted trigger, they mean the same"
        )
        return ConfigurationError(where, "has another name here", remedy)
    if above and name in TriggerOptions.__annotations__:
        return ConfigurationError(where, "is said in the code only", f"write {name}= in @trigger")
    return ConfigurationError(where, "there is no such key", nearest(name, _table(above).model_fields))


def _table(path: list[str]) -> type[BaseModel]:
    match path:
        case []:
            return Keys
        case ["triggers", _]:
            return TriggerKeys
        case ["defaults"]:
            return DefaultKeys
        case [*_, "redelivery"]:
            return RedeliveryKeys
        case _:
            return RetryKeys


def _lower(text: Any) -> str:
    """Return a sentence of pydantic as the middle of one of ours."""
    return f"{str(text)[:1].lower()}{str(text)[1:]}".replace("input should", "must").replace(
        "string should", "must"
    )
