"""The content of a wiring: providers, sources, sinks, filters, their ports and destinations.

The form of the file, and of ATG's XML after it was read. Times are seconds, or text with a unit (``"500ms"``,
``"60s"``, ``"10min"``, ``"2h"``, ``"1d"``).
"""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from history.entry import LONGEST

#: The port of components that name none.
DEFAULT_PORT = "DEFAULT"

#: The handling of a message after a failed attempt: see :class:`Redelivery`.
OnFailure = Literal["delay", "block", "fail_fast"]

_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)")


def _read_duration(value: Any) -> Any:
    """Return a duration: from seconds, or text with a unit."""
    if isinstance(value, timedelta):
        return value
    seconds = value
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        seconds = float(match[1]) * _UNITS[match[2]]
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise PydanticCustomError(
            "duration", "is not a duration; write seconds, or a number with ms, s, min, h or d, such as '60s'"
        )
    if seconds > LONGEST.total_seconds():
        raise PydanticCustomError("duration", "is longer than a hundred years; write a shorter one")
    return timedelta(seconds=seconds)


def _check_lease(value: timedelta) -> timedelta:
    if value < timedelta(seconds=1):
        raise PydanticCustomError(
            "lease", "is so short that another process takes what still runs here; write a second or more"
        )
    return value


Duration = Annotated[timedelta, BeforeValidator(_read_duration)]

#: How long a message in limbo belongs to the process that has taken it.
Lease = Annotated[Duration, AfterValidator(_check_lease)]

#: The name of anything in the file.
Name = Annotated[str, Field(min_length=1, max_length=200)]


class _Part(BaseModel):
    """A part of the file; an unknown key is refused, because it is a typing error."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class DestinationEntry(_Part):
    """A queue or topic of a provider; a bare text is the name of a queue of the default provider."""

    destination: Name
    provider: Name | None = None
    type: Literal["queue", "topic"] = "queue"

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"destination": value} if isinstance(value, str) else value


class RedeliveryEntry(_Part):
    """The handling of a message after an attempt that failed and was rolled back.

    ``delay``: it waits in limbo and is handed to this one input again, at most ``max_attempts`` times
    including the first; later messages overtake it. ``block``: the input waits for it. ``fail_fast``: one
    attempt. A message that is given up leaves through ``failure_port``, after a fatal failure immediately.
    """

    max_attempts: int = Field(default=3, ge=1, le=99)
    delay: Duration = timedelta(seconds=60)
    failure_port: Name
    on_failure: OnFailure = "delay"

    @property
    def attempts(self) -> int:
        """How many attempts there are, including the first."""
        return 1 if self.on_failure == "fail_fast" else self.max_attempts


class InputDestination(DestinationEntry):
    """The source of an input port's messages; ``name`` is the history namespace of this input.

    A topic's subscription that is not ``durable`` ends with its last consumer, if the provider has such
    subscriptions: messages that are sent without a consumer are not received.
    """

    name: Name | None = None
    selector: str | None = None
    durable_subscriber: Name | None = None
    durable: bool = True
    redelivery: RedeliveryEntry | None = None


class InputPort(_Part):
    """A port by which messages come in."""

    port: Name = DEFAULT_PORT
    sources: Sequence[InputDestination] = Field(alias="from", min_length=1)


class OutputPort(_Part):
    """A port by which messages leave, one copy to each destination."""

    port: Name = DEFAULT_PORT
    to: Sequence[DestinationEntry] = Field(min_length=1)


class Component(_Part):
    """The common fields of sources, sinks and filters: a name, and "package.module:name"."""

    name: Name
    component: Name


class SourceEntry(Component):
    """A component that originates messages."""

    output: Sequence[OutputPort] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        _once("output", [port.port for port in self.output])
        return self


class SinkEntry(Component):
    """A component that receives messages. With ``history`` False it has none at all."""

    input: Sequence[InputPort] = Field(min_length=1)
    output: Sequence[OutputPort] = ()
    redelivery_port: Sequence[OutputPort] = ()
    history: str | Literal[False] | None = None
    concurrency: int = Field(default=1, ge=1)
    transient: Sequence[str] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        _once("input", [port.port for port in self.input])
        _once("output", [port.port for port in self.output])
        _once("redelivery_port", [port.port for port in self.redelivery_port])
        ports = {port.port for port in self.redelivery_port}
        for port in self.input:
            for source in port.sources:
                terms = source.redelivery
                if terms is not None and terms.failure_port not in ports:
                    raise PydanticCustomError(
                        "failure_port",
                        "failure_port {port} is not a redelivery_port of {name}; add one of this name",
                        {"port": terms.failure_port, "name": self.name},
                    )
        return self


class FilterEntry(SinkEntry):
    """A component that receives messages and sends others."""

    output: Sequence[OutputPort] = Field(min_length=1)


class ProviderEntry(_Part):
    """A provider, by its URL."""

    url: Name


class MessageType(_Part):
    """Information about a kind of message: for tools and readers; nothing depends on it."""

    type: Name
    family: str | None = None
    body: str | None = None
    description: str | None = None


class OptionsEntry(_Part):
    """Options of the whole Patch Bay.

    ``limbo`` is the database in which delayed and failed messages wait; by default the first provider that is
    a SQL database, else the history if it is one. ``name`` marks the messages of this Patch Bay in limbo.
    """

    history: str | None = None
    limbo: str | None = None
    name: Name | None = None
    default_provider: Name | None = None
    delays: bool = True
    release_interval: Duration = timedelta(seconds=1)
    release_attempts: int = Field(default=5, ge=1, le=99)
    lease: Lease = timedelta(seconds=60)


class PatchBayFile(_Part):
    """A whole file, or several merged."""

    patchbay: OptionsEntry = OptionsEntry()
    providers: Mapping[str, ProviderEntry] = Field(default_factory=dict[str, ProviderEntry])
    source: Sequence[SourceEntry] = ()
    sink: Sequence[SinkEntry] = ()
    filter: Sequence[FilterEntry] = ()
    message: Sequence[MessageType] = ()

    @property
    def receiving(self) -> Sequence[SinkEntry]:
        """Everything that receives messages: sinks, then filters in their order."""
        return [*self.sink, *self.filter]

    @property
    def components(self) -> Sequence[Component]:
        """All components."""
        return [*self.source, *self.receiving]

    def outputs(self, component: Component) -> Mapping[str, OutputPort]:
        """Return the output ports of a component, redelivery ports included, by their names."""
        ports: list[OutputPort] = []
        if isinstance(component, SourceEntry | SinkEntry):
            ports += component.output
        if isinstance(component, SinkEntry):
            ports += component.redelivery_port
        return {port.port: port for port in ports}


def _once(what: str, ports: Sequence[str]) -> None:
    for port in ports:
        if ports.count(port) > 1:
            raise PydanticCustomError(
                "port_twice",
                "the {what} port {port} is written twice; put all its destinations under one",
                {"what": what, "port": port},
            )
