"""Every subscription gets a message, and in it one consumer."""

import os
import time
from datetime import timedelta
from functools import partial
from typing import ClassVar

import pytest

from history.contract.forks import CHILDREN, DONE, ended, fork
from history.errors import ConfigurationError
from triggers.providers.contract.common import A_WHILE, SOON, ContractTools, arrivals, bodies, numbered, take
from triggers.providers.provider import Arrival, Provider, Receiver, capabilities_of

#: How many messages each process sends and receives.
MESSAGES = 20


class SharingContract(ContractTools):
    """Every subscription gets a message, and in it one consumer."""

    async def test_each_subscription_gets_everything(self, provider: Provider, another: Provider) -> None:
        if not self.subscribes:
            return
        async with (
            self.receiving(provider, subscription="one") as first,
            self.receiving(another, subscription="two") as two,
        ):
            await provider.send(self.destination, numbered(5))

            assert bodies(await take(first, 5)) == ["0", "1", "2", "3", "4"]
            assert bodies(await take(two, 5)) == ["0", "1", "2", "3", "4"]

    async def test_consumers_of_a_subscription_share(self, provider: Provider, another: Provider) -> None:
        async with self.receiving(provider, name="a") as a, self.receiving(another, name="b") as b:
            await provider.send(self.destination, numbered(20))
            deliveries: list[Arrival] = []
            deadline = time.monotonic() + SOON
            while len(deliveries) < 20 and time.monotonic() < deadline:
                for receiver in (a, b):
                    got = arrivals(await receiver.receive(1, timedelta(milliseconds=50)))
                    await receiver.acknowledge(got)
                    deliveries += got

            assert sorted(map(int, bodies(deliveries))) == list(range(20))
            assert all(self.delivered(delivery, 1) for delivery in deliveries)

    async def test_a_subscription_keeps_what_is_sent_while_nobody_consumes(self, provider: Provider) -> None:
        async with self.receiving(provider):
            pass

        await provider.send(self.destination, numbered(3))

        async with self.receiving(provider) as receiver:
            assert self.arranged(bodies(await take(receiver, 3))) == ["0", "1", "2"]

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

            await receiver.acknowledge([first])
            (second,) = await take(receiver, 1)
            await receiver.acknowledge([second])
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


class TakingOverContract(ContractTools):
    """One receiver gets what all others held, in order, before anything new."""

    #: Whether receivers are :class:`~triggers.providers.provider.TakingOver`.
    takes_over: ClassVar[bool] = True

    async def test_what_others_held_comes_first_and_in_order(
        self, provider: Provider, another: Provider
    ) -> None:
        async with self.receiving(provider, name="a") as a, self.receiving(another, name="b") as b:
            if not self._takes_over(b):
                return
            async with self.receiving(provider, name="c") as c:
                await provider.send(self.destination, numbered(9))
                for receiver in (a, c, a, c, a, c):
                    await take(receiver, 1)

                await take_over_all(b)
                arrived = await take(b, 9)

                assert bodies(arrived) == [str(number) for number in range(9)]
                assert [self.delivered(delivery, 2) for delivery in arrived] == [True] * 6 + [False] * 3
                assert [self.delivered(delivery, 1) for delivery in arrived] == [False] * 6 + [True] * 3

    async def test_what_waits_for_its_delay_comes_as_well(
        self, provider: Provider, another: Provider
    ) -> None:
        async with self.receiving(provider, name="a") as a, self.receiving(another, name="b") as b:
            if not self._takes_over(b):
                return
            await provider.send(self.destination, numbered(6))
            got = await take(a, 4)
            await a.recover([got[0], got[2]], timedelta(seconds=10 * SOON))
            await a.recover([got[3]])
            await a.acknowledge([got[1]])

            await take_over_all(b)

            assert bodies(await take(b, 5)) == ["0", "2", "3", "4", "5"]
            assert list(await b.receive(10, A_WHILE)) == []

    async def test_what_the_receiver_holds_itself_stays_as_it_is(
        self, provider: Provider, another: Provider
    ) -> None:
        async with self.receiving(provider, name="a") as a, self.receiving(another, name="b") as b:
            if not self._takes_over(b):
                return
            await provider.send(self.destination, numbered(4))
            unsettled = await take(b, 1)
            [given_back] = await take(b, 1)
            await b.recover([given_back], timedelta(seconds=10 * SOON))
            await take(a, 1)

            await take_over_all(b)

            assert bodies(await take(b, 3)) == ["1", "2", "3"]
            assert list(await b.receive(10, A_WHILE)) == []
            await b.acknowledge(unsettled)

    async def test_the_robbed_can_neither_recover_nor_close_what_is_taken(
        self, provider: Provider, another: Provider
    ) -> None:
        async with self.receiving(another, name="b") as b:
            if not self._takes_over(b):
                return
            async with self.receiving(provider, name="a") as a:
                await provider.send(self.destination, numbered(2))
                robbed = await take(a, 2)
                await take_over_all(b)
                taken = await take(b, 2)
                await a.recover(robbed)

            assert list(await b.receive(10, A_WHILE)) == []
            await b.acknowledge(taken)

    async def test_the_robbed_do_not_get_ahead_with_what_is_new(
        self, provider: Provider, another: Provider
    ) -> None:
        async with self.receiving(provider, name="a") as a, self.receiving(another, name="b") as b:
            if not self._takes_over(b):
                return
            await take_over_all(b)
            await provider.send(self.destination, numbered(4))
            [first] = await take(b, 1)
            await b.acknowledge([first])
            await a.receive(1, A_WHILE)

            assert bodies(await take(b, 3)) == ["1", "2", "3"]

    async def test_much_is_taken_over_in_order(self, provider: Provider, another: Provider) -> None:
        count = 2300
        async with self.receiving(provider, name="a") as a, self.receiving(another, name="b") as b:
            if not self._takes_over(b):
                return
            await provider.send(self.destination, numbered(count + 5))
            await take(a, count)

            await take_over_all(b)

            assert bodies(await take(b, count + 5)) == [str(number) for number in range(count + 5)]

    def _takes_over(self, receiver: Receiver) -> bool:
        """Whether taking over can be checked."""
        assert (capabilities_of(receiver).taking_over is not None) is self.takes_over
        return self.takes_over


async def take_over_all(receiver: Receiver) -> None:
    """Let a receiver take over; the check before made sure that it can."""
    taking_over = capabilities_of(receiver).taking_over
    assert taking_over is not None
    await taking_over.take_over_all()
