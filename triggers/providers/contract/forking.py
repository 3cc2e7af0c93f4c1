"""A provider that is used before a fork, and after it by the parent and its children at the same time."""

import os
from functools import partial

import pytest

from history.contract.forks import CHILDREN, DONE, ended, fork
from history.errors import ConfigurationError
from triggers.providers.contract.common import ContractTools, bodies, numbered, take
from triggers.providers.provider import Provider

#: How many messages each process sends and receives.
MESSAGES = 20


class ForkingContract(ContractTools):
    """One provider in several processes that were forked from one process."""

    async def test_a_parent_and_its_forked_children_use_one_provider_at_once(
        self, provider: Provider
    ) -> None:
        if self.survives_forks is None or not hasattr(os, "fork"):
            return
        await self._send_and_receive(provider, self.destination)
        places = [self.new_destination() for _ in range(CHILDREN)]
        work = self._send_and_receive if self.survives_forks else self._is_refused

        children = [fork(partial(work, provider, own), blocking=False) for own in places]
        await self._send_and_receive(provider, self.destination)

        assert await ended(children) == [DONE] * CHILDREN
        await self._send_and_receive(provider, self.destination)

    async def test_a_receiver_goes_on_when_its_process_forks(self, provider: Provider) -> None:
        if self.survives_forks is None or not hasattr(os, "fork"):
            return
        work = self._send_and_receive if self.survives_forks else self._is_refused
        async with self.receiving(provider) as receiver:
            await provider.send(self.destination, numbered(2))
            (first,) = await take(receiver, 1)

            child = fork(partial(work, provider, self.new_destination()), blocking=False)
            assert await ended([child]) == [DONE]

            (second,) = await take(receiver, 1)
            await receiver.acknowledge([first, second])
            await provider.send(self.destination, numbered(1))
            assert bodies(await take(receiver, 1)) == ["0"]

    async def _send_and_receive(self, provider: Provider, destination: str) -> None:
        sent = numbered(MESSAGES)
        async with self.receiving(provider, destination) as receiver:
            await provider.send(destination, sent)
            taken = await take(receiver, MESSAGES)
            assert sorted(bodies(taken)) == sorted(str(message.body) for message in sent), destination
            await receiver.acknowledge(taken)

    async def _is_refused(self, provider: Provider, destination: str) -> None:
        with pytest.raises(ConfigurationError, match="forked"):
            await provider.send(destination, numbered(1))
        with pytest.raises(ConfigurationError, match="forked"):
            await provider.open_receiver(destination, subscription="s", name="a")
