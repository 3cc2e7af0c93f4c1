"""Every input of a sink or filter as a trigger on its destination, with the settings for redelivery."""

import builtins
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from history.errors import ConfigurationError
from history.message import Message
from resolvers.loading import load_attribute
from triggers.declaration.decorator import Trigger, trigger
from triggers.patchbay.components import around, bound_to, receiving_service
from triggers.patchbay.context import MessageContext
from triggers.patchbay.failures import InputTerms
from triggers.patchbay.local import LocalDestination, LocalDestinations, LocalSink
from triggers.patchbay.outputs import Outlet, Outputs, outlet_of
from triggers.patchbay.redelivery import RedeliveringReceiver
from triggers.patchbay.wiring.checks import inputs_of, is_local, provider_name
from triggers.patchbay.wiring.model import (
    DestinationEntry,
    InputDestination,
    InputPort,
    PatchBayFile,
    RedeliveryEntry,
    SinkEntry,
)
from triggers.providers.provider import Provider, Receiver, capabilities_of
from triggers.selectors import Selector
from triggers.service.options import CONSUMERS_DEFAULT, HistorySource
from triggers.service.settings import NO_RETRY, Settings

_log = logging.getLogger(__name__)

AnyTrigger = Trigger[..., Any]

#: Errors that are transient in a component that is not a trigger, in addition to TransientError and similar.
_TRANSIENT = (ConnectionError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Input:
    """One input: its trigger, the source of its messages, and the handling of failures."""

    component: str
    port: str
    trigger: AnyTrigger
    outlet: Outlet
    subscription: str
    terms: InputTerms | None
    local: bool = False


def local_destinations(file: PatchBayFile, inputs: Sequence[Input]) -> LocalDestinations:
    """Return the local destinations that a file sends to or receives from, with their sinks."""
    entries: list[DestinationEntry] = [source for _, _, source in inputs_of(file)]
    for component in file.components:
        for port in file.outputs(component).values():
            entries += port.to
    return {
        outlet_of(file, entry): LocalDestination(
            entry.destination,
            entry.type == "queue",
            [_local_sink(wired) for wired in inputs if wired.outlet == outlet_of(file, entry)],
        )
        for entry in entries
        if is_local(file.providers[provider_name(file, entry)].url)
    }


def _local_sink(wired: Input) -> LocalSink:
    trigger, settings = wired.trigger, wired.trigger.settings
    return LocalSink(trigger.name, trigger.binding, settings.selector, settings.max_body_size)


def wire_inputs(
    file: PatchBayFile, components: Mapping[str, Any], contexts: Mapping[str, MessageContext]
) -> Sequence[Input]:
    """Return every input, in the order of the file.

    Raises:
        ConfigurationError: a component does not fit the file, or two inputs have one name.
    """
    inputs: list[Input] = []
    for sink, port, source in inputs_of(file):
        inputs.append(_wire(file, sink, port, source, components[sink.name], contexts[sink.name]))
    names = [wired.trigger.name for wired in inputs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                f"input {name!r}", "two inputs have this name", "give one of them its own name ="
            )
    return inputs


def _wire(
    file: PatchBayFile,
    sink: SinkEntry,
    port: InputPort,
    source: InputDestination,
    component: Any,
    context: MessageContext,
) -> Input:
    own = cast("AnyTrigger", component) if isinstance(component, Trigger) else None
    if own is None:
        wired = _plain(sink, port, source, component, context)
        transient = wired.settings.transient
    else:
        _check_own(sink, source, own)
        wired, transient = own, own.settings.transient
    settings = _settings(wired.settings, sink, port, source, own)
    # A component that is no trigger was bound to its context as a service.
    wired = wired.configured(settings) if own is None else wired.adapted(settings, around(context))
    terms = None
    if source.redelivery is not None:
        terms = InputTerms(
            trigger=settings.name,
            component=sink.name,
            port=port.port,
            destination=source.destination,
            redelivery=source.redelivery,
            transient=transient,
        )
    subscription = source.durable_subscriber or settings.name
    local = is_local(file.providers[provider_name(file, source)].url)
    if local:
        _check_local(sink, wired)
    return Input(sink.name, port.port, wired, outlet_of(file, source), subscription, terms, local)


def _check_local(sink: SinkEntry, wired: AnyTrigger) -> None:
    """Refuse a trigger that cannot run as a part of its sender."""
    settings = wired.settings
    for setting, wrong in (
        ("route or filter", bool(wired.routing.routes) or settings.filter is not None),
        ("batch", settings.batch > 1),
        ("ordered", settings.ordered),
        ("acknowledge_mode", settings.acknowledge_mode != "client"),
    ):
        if wrong:
            raise ConfigurationError(
                f"component {sink.name}",
                f"{setting} of its trigger has no meaning at a local destination: its sender calls it",
                "leave it out, or receive from a destination of another provider",
            )


def _plain(
    sink: SinkEntry, port: InputPort, source: InputDestination, component: Any, context: MessageContext
) -> AnyTrigger:
    """Make a trigger of a component that is none: transacted, so that a failure rolls back."""
    service = bound_to(receiving_service(sink.name, component), port.port, context)
    history: HistorySource = CONSUMERS_DEFAULT if sink.history is None else sink.history or None
    decorate = trigger(
        source.destination,
        name=_name(sink, port, source),
        history=history,
        transacted=True,
        concurrency=sink.concurrency,
        transient=(*_TRANSIENT, *(_exception(sink, spec) for spec in sink.transient)),
    )
    return decorate(service)


def _settings(
    base: Settings, sink: SinkEntry, port: InputPort, source: InputDestination, own: AnyTrigger | None
) -> Settings:
    settings = replace(base, destination=source.destination)
    if source.selector is not None:
        settings = replace(settings, selector=Selector.parse(source.selector))
    if own is not None and (source.name is not None or _has_more_inputs(sink)):
        settings = replace(settings, name=_name(sink, port, source))
    return settings if source.redelivery is None else _redelivering(settings, source.redelivery)


def _redelivering(settings: Settings, redelivery: RedeliveryEntry) -> Settings:
    """Make every failure roll back and recover the message: the redelivery decides about it.

    This includes a fatal failure. Otherwise the history would remember the message as failed, and refuse it
    after somebody has removed the cause and sends it again.
    """
    policy = replace(
        settings.policy,
        transacted=True,
        max_delivery_count=max(settings.policy.max_delivery_count, redelivery.attempts),
    )
    settings = replace(settings, policy=policy, retry=NO_RETRY, transient=(Exception,))
    if redelivery.on_failure == "block":
        # No message may overtake.
        settings = replace(settings, concurrency=1, batch=1)
    # A prefetched message counts as delivered, and may have no other attempt.
    return settings if redelivery.on_failure == "delay" else replace(settings, prefetch=1)


def _check_own(sink: SinkEntry, source: InputDestination, own: AnyTrigger) -> None:
    """Refuse a trigger with settings that contradict the file's."""
    where, settings = f"component {sink.name}", own.settings
    if len(own.destinations) > 1:
        raise ConfigurationError(
            where,
            "its trigger joins destinations",
            "run it by doubtless run; the file wires one to each input",
        )
    if source.selector is not None and settings.selector is not None:
        raise ConfigurationError(where, "its trigger has a selector, too", "leave one of them out")
    if sink.history is not None or sink.concurrency != 1 or sink.transient:
        raise ConfigurationError(
            where, "it is a trigger and has settings of its own", "say history, concurrency, transient there"
        )
    if source.redelivery is None:
        return
    for setting, wrong in (
        ("retry", bool(settings.retry.max_attempts)),
        ("ordered", settings.ordered),
        ("acknowledge_mode", settings.acknowledge_mode != "client"),
    ):
        if wrong:
            raise ConfigurationError(
                where, f"{setting} of its trigger contradicts redelivery", "leave one of them out"
            )


def _name(sink: SinkEntry, port: InputPort, source: InputDestination) -> str:
    return source.name or f"{sink.name}.{port.port}.{source.destination}"


def _has_more_inputs(sink: SinkEntry) -> bool:
    return sum(len(port.sources) for port in sink.input) > 1


def _exception(sink: SinkEntry, spec: str) -> type[Exception]:
    """Return an exception class, by "package.module:name" or the name of a built-in one."""
    exception = load_attribute(spec) if ":" in spec else getattr(builtins, spec, None)
    if isinstance(exception, type) and issubclass(exception, Exception):
        return exception
    raise ConfigurationError(
        f"component {sink.name}",
        f"transient: {spec!r} is not an exception class",
        "write 'package.module:name'",
    )


class WiredProvider:
    """The one provider of a Patch Bay's consumer: it finds the provider of each input by the trigger's name.

    It opens receivers by the file; ``ready`` is set after every input has had a receiver.

    Guarantee: as of the provider of each input.
    """

    def __init__(
        self,
        inputs: Mapping[str, Input],
        outputs: Outputs,
        *,
        twin: Callable[[], "WiredProvider"],
        sleep: Callable[[float], Awaitable[None] | None],
    ) -> None:
        self._inputs = inputs
        self._outputs = outputs
        self._twin = twin
        self._sleep = sleep
        self._missing = set(inputs)
        self.ready = threading.Event()

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Send with the default provider, for example dead letters.

        Raises:
            ConfigurationError: there is none.
        """
        name = self._outputs.file.patchbay.default_provider or next(iter(self._outputs.providers), None)
        if name is None or name not in self._outputs.providers:
            raise ConfigurationError("patchbay.default_provider", "there is none", "name one")
        return await self._outputs.providers[name].send(destination, messages)

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> Receiver:  # noqa: ARG002
        """Open a receiver for the input of the trigger with the name ``subscription``."""
        port = self._inputs[subscription]
        provider = self._outputs.providers[port.outlet.provider]
        await self._outputs.prepare()
        inner = await provider.open_receiver(port.outlet.address, subscription=port.subscription, name=name)
        self._missing.discard(subscription)
        if not self._missing:
            self.ready.set()
        if port.terms is None:
            await self._warn_of_stranded(subscription)
            return inner
        sharing = capabilities_of(inner).sharing_transactions
        at_home = sharing if port.outlet.provider in self._outputs.here else None
        return RedeliveringReceiver(
            inner=inner,
            sharing=sharing,
            at_home=at_home,
            terms=port.terms,
            outputs=self._outputs,
            sleep=self._sleep,
        )

    async def _warn_of_stranded(self, name: str) -> None:
        """Warn if messages wait in limbo for an input that had redelivery and has none any more."""
        limbo = self._outputs.limbo
        if limbo is not None and await limbo.next_due(name) is not None:
            _log.warning(
                "input %s: messages wait in limbo for another attempt, and it has no redelivery; give it "
                'redelivery with on_failure = "fail_fast" until they have run, or delete them; '
                "see: doubtless sqljms limbo list",
                name,
                extra={"trigger": name},
            )

    def for_asyncio(self) -> Provider:
        """Return the same over asyncio drivers."""
        return self._twin()

    async def close(self) -> None:
        """Do nothing: the Patch Bay closes what it has opened."""
