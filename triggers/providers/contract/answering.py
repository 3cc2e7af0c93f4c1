"""Checks of messages that are acknowledged, recovered, dead-lettered, or not settled."""

import time
from datetime import timedelta

from history.message import Message
from triggers.providers.contract.common import (
    A_WHILE,
    NO_WAIT,
    SOON,
    ContractTools,
    arrivals,
    bodies,
    everything,
    kind,
    numbered,
    take,
)
from triggers.providers.provider import Arrival, Provider, capabilities_of


class AnsweringContract(ContractTools):
    """Checks of messages that are acknowledged, recovered, dead-lettered, or not settled."""

    async def test_an_acknowledged_message_is_gone(self, provider: Provider, another: Provider) -> None:
        async with self.receiving(provider) as receiver:
            await provider.send(self.destination, numbered(2))
            await receiver.acknowledge(await take(receiver, 2))

        async with self.receiving(another) as successor:
            assert list(await successor.receive(10, A_WHILE)) == []

    async def test_acknowledging_twice_is_harmless(self, provider: Provider) -> None:
        async with self.receiving(provider) as receiver:
            await provider.send(self.destination, numbered(2))
            first, second = await take(receiver, 2)

            await receiver.acknowledge([first])
            await receiver.acknowledge([first, second])
            await receiver.acknowledge([])

            assert list(await receiver.receive(10, A_WHILE)) == []

    async def test_a_recovered_message_comes_back_promptly_and_counted(self, provider: Provider) -> None:
        async with self.receiving(provider) as receiver:
            await provider.send(self.destination, [everything()])
            for times in (1, 2, 3):
                [arrival] = arrivals(await receiver.receive(1, timedelta(seconds=2)))
                await receiver.recover([arrival])

                assert self.delivered(arrival, times)
                assert self.headers(arrival.message) == self.headers(everything())

    async def test_a_recovered_message_may_go_to_another_consumer(
        self, provider: Provider, another: Provider
    ) -> None:
        async with self.receiving(provider, name="a") as a, self.receiving(another, name="b") as b:
            await provider.send(self.destination, numbered(1))
            await a.recover(await take(a, 1))

            [arrival] = await take(b, 1)

            assert self.delivered(arrival, 2)

    async def test_a_delayed_message_comes_back_after_the_delay_and_not_before(
        self, provider: Provider
    ) -> None:
        async with self.receiving(provider) as receiver:
            await provider.send(self.destination, numbered(1))
            first = await take(receiver, 1)
            started = time.monotonic()
            await receiver.recover(first, self.delay)

            [arrival] = await take(receiver, 1)

            assert time.monotonic() - started >= 0.95 * self.delay.total_seconds()
            assert self.delivered(arrival, 2)

    async def test_a_delayed_message_holds_nothing_up(self, provider: Provider) -> None:
        if not self.holds_nothing_up:
            return
        async with self.receiving(provider) as receiver:
            await provider.send(self.destination, numbered(2))
            [first] = await take(receiver, 1)
            await receiver.recover([first], timedelta(seconds=SOON))

            assert bodies(await take(receiver, 1)) == ["1"]

    async def test_a_dozen_delayed_messages_hold_nothing_up(self, provider: Provider) -> None:
        """Copies wait for their originals: more copies than one fetch brings."""
        if not self.holds_nothing_up:
            return
        async with self.receiving(provider) as receiver:
            await provider.send(self.destination, numbered(13))
            arrived: list[Arrival] = []
            for _ in range(12):
                [copy] = await take(receiver, 1)
                arrived.append(copy)
                await receiver.recover([copy], timedelta(seconds=6 * SOON))
            arrived += await take(receiver, 1)

            assert self.arranged(bodies(arrived)) == self.arranged(map(str, range(13)))

    async def test_closing_gives_back_what_is_unanswered(self, provider: Provider, another: Provider) -> None:
        async with self.receiving(provider, name="a") as receiver:
            await provider.send(self.destination, numbered(3))
            got = await take(receiver, 3)
            await receiver.acknowledge([got[1]])

        async with self.receiving(another, name="b") as successor:
            arrived = await take(successor, 2)

            assert self.arranged(bodies(arrived)) == self.arranged(bodies([got[0], got[2]]))
            assert all(self.delivered(delivery, 2) for delivery in arrived)

    async def test_a_paused_receiver_leaves_messages_to_others(
        self, provider: Provider, another: Provider
    ) -> None:
        async with self.receiving(provider, name="a") as receiver:
            pausing = capabilities_of(receiver).pausing
            if pausing is None or capabilities_of(provider).dividing_groups is not None:
                return
            assert await receiver.receive(2, NO_WAIT) == []  # two may be pushed to it now
            await pausing.pause()
            async with self.receiving(another, name="b") as other:
                await provider.send(self.destination, numbered(2))
                arrived = await take(other, 2)
                await other.acknowledge(arrived)

            assert self.arranged(bodies(arrived)) == ["0", "1"]
            assert all(self.delivered(delivery, 1) for delivery in arrived)
            await provider.send(self.destination, numbered(1))
            assert len(await take(receiver, 1)) == 1

    async def test_closing_twice_is_harmless(self, provider: Provider, another: Provider) -> None:
        async with self.receiving(provider, name="a") as receiver:
            await receiver.close()
            async with self.receiving(another, name="a") as successor:
                await receiver.close()
                await provider.send(self.destination, numbered(1))

                assert len(await take(successor, 1)) == 1

    async def test_a_dead_letter_moves_whole(self, provider: Provider) -> None:
        letters = self.dead_letters_of(self.destination)
        async with self.receiving(provider, letters) as undertaker, self.receiving(provider) as receiver:
            sent = everything({"id": 5})
            # Both have one delivery mode: JMS keeps no order between the two modes.
            await provider.send(self.destination, [sent, Message(body="next", persistent=sent.persistent)])
            await receiver.dead_letter(await take(receiver, 1), "no such customer")
            [letter] = await take(undertaker, 1)

            assert letter.message.uuid == sent.uuid
            assert kind(letter.message.body) == kind(sent.body)
            assert self.typed(sent.properties).items() <= self.typed(letter.message.properties).items()
            assert "no such customer" in letter.message.properties.values()
            assert bodies(await take(receiver, 1)) == ["next"]

    async def test_a_dead_letter_keeps_the_id_it_was_given(self, provider: Provider) -> None:
        letters = self.dead_letters_of(self.destination)
        async with self.receiving(provider, letters) as undertaker, self.receiving(provider) as receiver:
            [sent_id] = await provider.send(self.destination, [Message(body="x")])
            await receiver.dead_letter(await take(receiver, 1), "because")
            [letter] = await take(undertaker, 1)

            assert letter.message.uuid == sent_id
            assert list(await receiver.receive(10, A_WHILE)) == []

    async def test_what_is_kept_alive_is_not_taken_over(self, provider: Provider, another: Provider) -> None:
        async with self.receiving(provider, name="slow") as slow, self.receiving(another, name="b") as thief:
            await provider.send(self.destination, numbered(3))
            received = await take(slow, 3)
            pause = min(slow.keep_alive_interval, timedelta(milliseconds=100))
            for _ in range(12):
                await slow.keep_alive()

                assert list(await thief.receive(10, pause)) == []

            await slow.acknowledge(received)
