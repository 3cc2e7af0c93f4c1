"""The one provider of a Patch Bay's consumer: it finds the provider of each input by the trigger's name."""

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence

from history.errors import ConfigurationError
from history.message import Message
from triggers.patchbay.inputs import Input
from triggers.patchbay.outputs import Outputs
from triggers.patchbay.redelivery import RedeliveringReceiver
from triggers.providers.provider import Provider, Receiver, capabilities_of


class WiredProvider:
    """Opens receivers by the file; ``ready`` is set after every input has had a receiver.

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
        found = self._inputs[subscription]
        provider = self._outputs.providers[found.outlet.provider]
        await self._outputs.prepare()
        inner = await provider.open_receiver(found.outlet.address, subscription=found.subscription, name=name)
        self._missing.discard(subscription)
        if not self._missing:
            self.ready.set()
        if found.terms is None:
            return inner
        sharing = capabilities_of(inner).sharing_transactions
        at_home = sharing if found.outlet.provider in self._outputs.here else None
        return RedeliveringReceiver(
            inner=inner,
            sharing=sharing,
            at_home=at_home,
            terms=found.terms,
            outputs=self._outputs,
            sleep=self._sleep,
        )

    def for_asyncio(self) -> Provider:
        """Return the same over asyncio drivers."""
        return self._twin()

    async def close(self) -> None:
        """Do nothing: the Patch Bay closes what it has opened."""
