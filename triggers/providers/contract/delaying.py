"""A message with a future delivery time is delivered then, once, and not before."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from history.errors import ConfigurationError
from history.message import UNDEFINED_COUNT, Message, Uuid
from triggers.providers.backlog import Backlog
from triggers.providers.contract.common import (
    A_WHILE,
    SOON,
    ContractTools,
    arrivals,
    bodies,
    everything,
    kind,
    numbered,
    take,
)
from triggers.providers.provider import Provider, capabilities_of

#: The pause before the next question, in seconds.
AGAIN = 0.05


class DelayingContract(ContractTools):
    """A message with a future delivery time is delivered then, once, and not before."""

    async def test_a_later_message_arrives_at_its_time_and_not_before(self, provider: Provider) -> None:
        if not await self._delays(provider):
            return
        async with self.receiving(provider) as receiver:
            due = datetime.now(UTC) + self.delay
            await provider.send(self.destination, [later(due)])

            [arrival] = await take(receiver, 1)

            assert datetime.now(UTC) >= due
            if self.marks_later:
                message = arrival.message
                assert (message.delivery_count, message.redelivered) == (UNDEFINED_COUNT, True)
            else:
                assert self.delivered(arrival, 1)

    async def test_a_later_message_arrives_whole(self, provider: Provider) -> None:
        if not await self._delays(provider):
            return
        async with self.receiving(provider) as receiver:
            due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1) + self.delay
            # An empty body and an empty property are the easiest to lose.
            sent = [everything(body).model_copy(update={"delivery_time": due}) for body in (b"\x00\xff", "")]
            ids = await provider.send(self.destination, sent)
            arrived = await take(receiver, 2)

            assert [delivery.message.message_id for delivery in arrived] == list(ids)
            assert [kind(delivery.message.body) for delivery in arrived] == [
                kind(delivery.body) for delivery in sent
            ]
            assert self.headers(arrived[0].message) == self.headers(sent[0])
            assert self.typed(arrived[0].message.properties) == self.typed(sent[0].properties)

    async def test_a_later_message_holds_nothing_up(self, provider: Provider) -> None:
        if not await self._delays(provider):
            return
        async with self.receiving(provider) as receiver:
            due = datetime.now(UTC) + timedelta(seconds=SOON)
            ids = await provider.send(self.destination, [later(due), Message(body="now")])

            assert bodies(await take(receiver, 1)) == ["now"]
            assert list(await receiver.receive(10, A_WHILE)) == []
            assert len(set(ids)) == 2

    async def test_later_messages_arrive_by_time_and_then_in_order(self, provider: Provider) -> None:
        if not await self._delays(provider):
            return
        async with self.receiving(provider) as receiver:
            due = datetime.now(UTC) + self.delay
            early = [message.model_copy(update={"delivery_time": due}) for message in numbered(12)]
            last = later(due + timedelta(milliseconds=100))
            await provider.send(self.destination, [last, *early])

            expected = [*map(str, range(12)), "later"]
            assert self.arranged(bodies(await take(receiver, 13))) == self.arranged(expected)

    async def test_a_later_message_arrives_once_however_many_look_for_it(
        self, provider: Provider, another: Provider
    ) -> None:
        if not await self._delays(provider):
            return
        async with (
            self.receiving(provider, subscription="one") as first,
            self.receiving(another, subscription="one", name="b") as sharer,
            self.receiving(another, subscription="two") as two,
        ):
            due = datetime.now(UTC) + self.delay
            sent = [message.model_copy(update={"delivery_time": due}) for message in numbered(5)]
            await provider.send(self.destination, sent)
            counted: Counter[str] = Counter()
            times = 2 if self.subscribes else 1
            while sum(counted.values()) < 5 * times:
                assert datetime.now(UTC) < due + timedelta(seconds=SOON), counted
                for receiver in (first, sharer, two):
                    got = arrivals(await receiver.receive(10, timedelta(milliseconds=50)))
                    await receiver.acknowledge(got)
                    counted.update(bodies(got))

            assert list(await two.receive(10, A_WHILE)) == []
            assert counted == Counter({str(number): times for number in range(5)})

    async def test_a_delivery_time_that_has_passed_is_no_delay(self, provider: Provider) -> None:
        if not await self._delays(provider):
            return
        async with self.receiving(provider) as receiver:
            await provider.send(self.destination, [later(datetime.now(UTC) - timedelta(days=1))])

            assert bodies(await take(receiver, 1)) == ["later"]

    async def _delays(self, provider: Provider) -> bool:
        """Whether delays can be checked; a provider that cannot delay must refuse, not deliver early."""
        if self.delays:
            return True
        try:
            await provider.send(self.destination, [later(datetime.now(UTC) + timedelta(seconds=SOON))])
        except ConfigurationError:
            return False
        raise AssertionError("a message was accepted that cannot be delayed")


def later(due: datetime) -> Message:
    """Return a message to be delivered at ``due``."""
    return Message(body="later", uuid=Uuid("later"), delivery_time=due)


class WaitingContract(ContractTools):
    """Checks of the backlog, for a provider that reports it."""

    async def test_it_says_what_waits(self, provider: Provider, another: Provider) -> None:
        telling = capabilities_of(provider).telling_backlog
        async with self.receiving(provider):
            pass
        if not self.tells_backlog:
            assert telling is None or not (await telling.backlogs([(self.destination, "s")]))[0].is_known
            return
        await provider.send(self.destination, numbered(3))

        waiting = await self._asked(another, lambda backlog: backlog.waiting == 3)

        async with self.receiving(provider) as receiver:
            taken = await take(receiver, 3)
            delivered = await self._asked(another, lambda backlog: backlog.waiting in {0, 3})
            await receiver.acknowledge(taken)
        done = await self._asked(another, lambda backlog: backlog.waiting == 0 and not backlog.held)
        assert waiting.waiting == 3
        assert not waiting.held
        assert delivered.held in {3, None}
        assert (done.waiting, done.held or 0) == (0, 0)

    async def test_a_place_that_is_not_there_has_no_numbers(self, provider: Provider) -> None:
        telling = capabilities_of(provider).telling_backlog
        if telling is None:
            return
        absent = f"absent-{uuid4().hex[:12]}"

        backlogs = await telling.backlogs([(absent, "s"), (absent, "t")])

        assert [(backlog.destination, backlog.is_known) for backlog in backlogs[:2]] == [(absent, False)] * 2

    async def _asked(self, provider: Provider, is_there: Callable[[Backlog], bool]) -> Backlog:
        """Ask until the answer fits, or for a while; return the last answer."""
        telling = capabilities_of(provider).telling_backlog
        assert telling is not None
        deadline = time.monotonic() + SOON
        while True:
            backlog = (await telling.backlogs([(self.destination, "s")]))[0]
            if is_there(backlog) or time.monotonic() > deadline:
                return backlog
            await asyncio.sleep(AGAIN)
