"""Checks for ordered triggers: one receiver gets what all others held, in order, before anything new."""

from datetime import timedelta
from typing import ClassVar

from triggers.providers.contract.common import (
    A_WHILE,
    SOON,
    ContractTools,
    bodies,
    numbered,
    take,
)
from triggers.providers.provider import Provider, Receiver, capabilities_of


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
            held = await take(b, 1)
            [given_back] = await take(b, 1)
            await b.recover([given_back], timedelta(seconds=10 * SOON))
            await take(a, 1)

            await take_over_all(b)

            assert bodies(await take(b, 3)) == ["1", "2", "3"]
            assert list(await b.receive(10, A_WHILE)) == []
            await b.acknowledge(held)

    async def test_the_robbed_can_neither_recover_nor_close_what_is_taken(
        self, provider: Provider, another: Provider
    ) -> None:
        async with self.receiving(another, name="b") as b:
            if not self._takes_over(b):
                return
            async with self.receiving(provider, name="a") as a:
                await provider.send(self.destination, numbered(2))
                held = await take(a, 2)
                await take_over_all(b)
                taken = await take(b, 2)
                await a.recover(held)

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
