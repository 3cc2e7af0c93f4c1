"""Every subscription gets a message, and in it one consumer."""

import time
from datetime import timedelta

from history.errors import ConfigurationError
from triggers.providers.contract.common import (
    SOON,
    ContractTools,
    arrivals,
    bodies,
    numbered,
    take,
)
from triggers.providers.provider import Arrival, Provider


class SharingContract(ContractTools):
    """Every subscription gets a message, and in it one consumer."""

    async def test_each_subscription_gets_everything(self, provider: Provider, another: Provider) -> None:
        if not self.subscribes:
            return
        async with (
            self.receiving(provider, subscription="one") as one,
            self.receiving(another, subscription="two") as two,
        ):
            await provider.send(self.destination, numbered(5))

            assert bodies(await take(one, 5)) == ["0", "1", "2", "3", "4"]
            assert bodies(await take(two, 5)) == ["0", "1", "2", "3", "4"]

    async def test_consumers_of_a_subscription_share(self, provider: Provider, another: Provider) -> None:
        async with self.receiving(provider, name="a") as a, self.receiving(another, name="b") as b:
            await provider.send(self.destination, numbered(20))
            found: list[Arrival] = []
            deadline = time.monotonic() + SOON
            while len(found) < 20 and time.monotonic() < deadline:
                for receiver in (a, b):
                    got = arrivals(await receiver.receive(1, timedelta(milliseconds=50)))
                    await receiver.acknowledge(got)
                    found += got

            assert sorted(map(int, bodies(found))) == list(range(20))
            assert all(self.delivered(delivery, 1) for delivery in found)

    async def test_a_subscription_keeps_what_is_sent_while_nobody_consumes(self, provider: Provider) -> None:
        async with self.receiving(provider):
            pass

        await provider.send(self.destination, numbered(3))

        async with self.receiving(provider) as receiver:
            assert bodies(await take(receiver, 3)) == ["0", "1", "2"]

    async def test_a_living_consumers_name_is_refused(self, provider: Provider, another: Provider) -> None:
        if not self.refuses_same_name:
            return
        async with self.receiving(provider, name="worker 1"):
            for second in (provider, another):
                refusal = await refused(second, self.destination, name="worker 1")

                assert "worker 1" in refusal

        async with self.receiving(another, name="worker 1"):
            pass  # after the first was closed, the name is free


async def refused(provider: Provider, destination: str, *, name: str) -> str:
    """Return the error of a consumer that was not allowed to open."""
    try:
        receiver = await provider.open_receiver(destination, subscription="s", name=name)
    except ConfigurationError as error:
        return str(error)
    await receiver.close()
    raise AssertionError("a second consumer of the same name was let in")
