"""Checks of a whole wiring, after all its files are merged."""

from collections.abc import Iterator, Sequence

from history.errors import ConfigurationError
from history.support.urls import split_url
from triggers.patchbay.wiring.model import (
    DestinationEntry,
    InputDestination,
    InputPort,
    PatchBayFile,
    SinkEntry,
)
from triggers.selectors import Selector

#: The scheme of the provider with destinations that call their sinks.
LOCAL_SCHEME = "local"

#: Settings of a component or an input that are for receivers, which a local input does not have.
_OF_RECEIVERS = ("history", "transient", "concurrency", "durable_subscriber")

#: The schemes of databases, which can hold waiting messages.
SQL_SCHEMES = frozenset({"sqlite", "postgresql", "postgres"})


def is_sql(url: str | None) -> bool:
    """Whether a URL names a SQL database."""
    return url is not None and split_url(url).scheme.partition("+")[0] in SQL_SCHEMES


def is_local(url: str) -> bool:
    """Whether the sender calls the sinks of a provider's destinations, without a queue in between."""
    return split_url(url).scheme == LOCAL_SCHEME


def provider_name(file: PatchBayFile, entry: DestinationEntry) -> str:
    """Return the name of a destination's provider, by default of the default provider.

    Raises:
        ConfigurationError: the default provider is needed and missing.
    """
    name = entry.provider or file.patchbay.default_provider
    if name is None and len(file.providers) == 1:
        name = next(iter(file.providers))
    if name is None:
        raise ConfigurationError(
            f"destination {entry.destination}",
            f"names no provider, and there are {len(file.providers)}",
            "name one, or set default_provider in [patchbay]",
        )
    if name not in file.providers:
        names = ", ".join(sorted(file.providers)) or "none"
        raise ConfigurationError(
            f"destination {entry.destination}",
            f"there is no provider {name!r}, only: {names}",
            f"add [providers.{name}]",
        )
    return name


def limbo_url(file: PatchBayFile) -> str | None:
    """Return the database in which messages wait; None if there is none."""
    settings = file.patchbay
    if settings.limbo is not None:
        return settings.limbo
    urls = [provider.url for provider in file.providers.values()]
    return next((url for url in [*urls, settings.history] if is_sql(url)), None)


def inputs_of(file: PatchBayFile) -> Iterator[tuple[SinkEntry, InputPort, InputDestination]]:
    """Return every input: the component, its port, and the source of its messages."""
    for sink in file.receiving:
        for port in sink.input:
            for source in port.sources:
                yield sink, port, source


def lasting_anyway(file: PatchBayFile) -> Sequence[str]:
    """Return a sentence for each durable subscription that should not be: only SQL-JMS has others."""
    return [
        f"{sink.name}, port {port.port}, from {source.destination}: provider {provider} has no subscriptions "
        "that end with their last consumer, so messages wait there while nobody receives"
        for sink, port, source in inputs_of(file)
        if not source.durable and not _may_end(file, provider := provider_name(file, source))
    ]


def _may_end(file: PatchBayFile, provider: str) -> bool:
    url = file.providers[provider].url
    return is_sql(url) or split_url(url).scheme in {"memory", LOCAL_SCHEME}


def weak_places(file: PatchBayFile) -> Sequence[str]:
    """Return a sentence for each part of a wiring that guarantees less than it seems to."""
    notes = [
        f"provider {name} is in memory: what is sent there and not completed is lost when the process ends"
        for name, entry in file.providers.items()
        if split_url(entry.url).scheme == "memory"
    ]
    for source in file.source:
        notes += [
            f"{source.name}, port {port.port}, to {leads_to.destination}: the source itself runs the sinks. "
            "If one fails or the process ends, nothing sends the message again"
            for port in source.output
            for leads_to in port.to
            if is_local(file.providers[provider_name(file, leads_to)].url)
        ]
    for sink, port, entry in inputs_of(file):
        settings = [name for name in _OF_RECEIVERS if name in sink.model_fields_set | entry.model_fields_set]
        if settings and is_local(file.providers[provider_name(file, entry)].url):
            notes.append(
                f"{sink.name}, port {port.port}, from {entry.destination}: {', '.join(settings)} of a local "
                "input has no effect: it runs as a part of its sender"
            )
    return notes


def check(file: PatchBayFile) -> None:
    """Refuse a wiring that cannot work.

    Raises:
        ConfigurationError: naming the component or destination, and the remedy.
    """
    for component in file.components:
        for outlet in file.outputs(component).values():
            for leads_to in outlet.to:
                provider_name(file, leads_to)
    _check_limbo(file)
    readers: dict[tuple[str, str], str] = {}
    for sink, port, source in inputs_of(file):
        _check_input(file, sink, port, source, readers)


def _check_input(
    file: PatchBayFile,
    sink: SinkEntry,
    port: InputPort,
    source: InputDestination,
    readers: dict[tuple[str, str], str],
) -> None:
    where = f"{sink.name}, port {port.port}, from {source.destination}"
    key = (provider_name(file, source), source.destination)
    if source.selector is not None:
        Selector.parse(source.selector)
    if source.redelivery is not None and is_local(file.providers[key[0]].url):
        raise ConfigurationError(
            where,
            "a local destination has no redelivery: its sender gets the failure, and tries again",
            "leave redelivery out, and put it at the input of the sender",
        )
    if not source.durable and (source.type == "queue" or source.durable_subscriber is not None):
        raise ConfigurationError(
            where,
            "durable = false is for subscriptions of topics that have no name",
            "leave durable out, or durable_subscriber",
        )
    if source.type == "topic":
        return
    if source.durable_subscriber is not None:
        raise ConfigurationError(where, "a queue has no subscribers", "say type = 'topic', or leave it out")
    if key in readers:
        # Each has a separate history: both could run the same message.
        raise ConfigurationError(
            where, f"{readers[key]} reads this queue already", "make it a topic, or one sink with concurrency"
        )
    readers[key] = where


def _check_limbo(file: PatchBayFile) -> None:
    url = limbo_url(file)
    if url is not None and not is_sql(url):
        raise ConfigurationError(
            "patchbay.limbo", "is not a SQL database", "use sqlite:///file.db or postgresql://..."
        )
    waiting = [sink.name for sink, _, source in inputs_of(file) if _waits(source)]
    if url is None and waiting:
        raise ConfigurationError(
            "patchbay.limbo",
            f"messages of {waiting[0]} wait for redelivery, but no database is set for them",
            "set limbo = 'sqlite:///file.db' or 'postgresql://...'",
        )


def _waits(source: InputDestination) -> bool:
    return source.redelivery is not None and source.redelivery.on_failure == "delay"
