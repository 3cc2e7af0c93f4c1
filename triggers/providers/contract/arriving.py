"""A message arrives as it was sent."""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from history.json_text import canonical_json, read_json
from history.message import Message
from triggers.providers.contract.common import (
    A_WHILE,
    NO_WAIT,
    SOON,
    ContractTools,
    arrivals,
    everything,
    kind,
    numbered,
    take,
)
from triggers.providers.provider import (
    Arrival,
    Limits,
    Provider,
    Received,
    Receiver,
    Unreadable,
    capabilities_of,
)


class ArrivingContract(ContractTools):
    """A message arrives as it was sent."""

    async def test_a_message_arrives_whole(self, provider: Provider) -> None:
        async with self.receiving(provider) as receiver:
            sent = everything()

            await provider.send(self.destination, [sent])
            [arrival] = await take(receiver, 1)

            assert self.headers(arrival.message) == self.headers(sent)
            assert self.typed(arrival.message.properties) == self.typed(sent.properties)
            assert arrival.message.body == sent.body

    async def test_a_body_keeps_its_kind(self, provider: Provider) -> None:
        bodies: list[Any] = [
            *(b"", b"\xff\x00", b"text", bytes(range(256)) * (self.largest // 256)),
            *("", "grüße \N{SNOWMAN}\x00", "x" * self.largest),
            *({"id": 5, "rate": 1.0, "deep": [{"a": None}]}, [], {}, 0, 1.5, True, None, ["ü"]),
        ]
        async with self.receiving(provider) as receiver:
            await provider.send(self.destination, [Message(body=body) for body in bodies])
            arrived = await take(receiver, len(bodies))

            kinds = [kind(delivery.message.body) for delivery in arrived]
            assert self.arranged(kinds) == self.arranged(map(kind, bodies))

    async def test_json_arrives_with_each_of_its_digits(self, provider: Provider) -> None:
        text = b'{"b": 1, "a": 100200300400500.0123, "c": 1e400, "d": 1.0, "e": 12345678901234567890123}'
        async with self.receiving(provider) as receiver:
            await provider.send(self.destination, [Message.from_headers({}, read_json(text))])
            [arrival] = await take(receiver, 1)

            assert canonical_json(arrival.message.encoded()) == canonical_json(text)
            again = Message.from_json(arrival.message.to_json())
            assert again.encoded() == arrival.message.encoded()

    async def test_messages_arrive_in_order(self, provider: Provider) -> None:
        bodies = [f"message {number}" for number in range(600)]
        async with self.receiving(provider) as receiver:
            await provider.send(self.destination, [Message(body=body) for body in bodies[:300]])
            await provider.send(self.destination, [Message(body=body) for body in bodies[300:]])
            arrived = await take(receiver, len(bodies))

            assert self.arranged(delivery.message.body for delivery in arrived) == self.arranged(bodies)

    async def test_a_message_without_an_id_gets_one_that_stays(self, provider: Provider) -> None:
        async with self.receiving(provider) as receiver:
            ids = await provider.send(self.destination, [Message(body="a"), Message(body="b")])
            first = await take(receiver, 2)
            await receiver.recover(first)
            second = await take(receiver, 2)

            assert [delivery.message.message_id for delivery in first] == list(ids)
            assert len(set(ids)) == 2
            assert {delivery.message.message_id for delivery in second} == set(ids)
            assert first[0].message.uuid == ids[0]

    async def test_nothing_sent_is_no_message(self, provider: Provider) -> None:
        async with self.receiving(provider) as receiver:
            assert list(await provider.send(self.destination, [])) == []
            assert list(await receiver.receive(10, A_WHILE)) == []

    async def test_receive_keeps_its_limit(self, provider: Provider) -> None:
        async with self.receiving(provider) as receiver:
            await provider.send(self.destination, numbered(5))

            assert 1 <= len(await receiver.receive(2, timedelta(seconds=SOON))) <= 2

    async def test_receive_returns_nothing_after_the_wait(self, provider: Provider) -> None:
        async with self.receiving(provider) as receiver:
            started = time.monotonic()
            got = await receiver.receive(10, A_WHILE)
            waited = time.monotonic() - started

            assert list(got) == []
            assert 0.9 * A_WHILE.total_seconds() <= waited < SOON

    async def test_receive_without_a_wait_returns_at_once(self, provider: Provider) -> None:
        async with self.receiving(provider) as receiver:
            started = time.monotonic()

            assert list(await receiver.receive(10, NO_WAIT)) == []
            assert time.monotonic() - started < SOON


class UndecodableContract(ContractTools):
    """An unreadable delivery comes as it is, delays nothing, and differs from others with the same bytes."""

    #: Whether unreadable deliveries can arrive; they cannot if messages never leave their process.
    sends_garbage: ClassVar[bool] = True

    #: Whether the provider has an id for each delivery, which stays when it is delivered again.
    names_deliveries: ClassVar[bool] = True

    #: Whether receivers are :class:`~triggers.providers.provider.Limited`: they are if they decode bodies.
    limits_bodies: ClassVar[bool] = True

    async def send_garbage(self, destination: str, count: int) -> None:
        """Send the same garbage ``count`` times, past the provider; the subscription ``s`` already exists.

        Garbage cannot be decoded, but somebody sends it some day: a timestamp out of range, an unknown
        charset, a cut-off body.
        """
        raise NotImplementedError("send an unreadable delivery, or set sends_garbage = False")

    async def test_what_cannot_be_decoded_arrives_as_it_is_and_holds_nothing_up(
        self, provider: Provider
    ) -> None:
        if not self.sends_garbage:
            return
        async with self.receiving(provider) as receiver:
            await provider.send(self.destination, [Message(body="before")])
            await self.send_garbage(self.destination, 1)
            await provider.send(self.destination, [Message(body="after")])
            received = await take_any(receiver, 3)
            await receiver.acknowledge(received)

            assert [
                delivery.message.body if isinstance(delivery, Arrival) else None for delivery in received
            ] == ["before", None, "after"]
            assert unreadable(received)[0].fields
            assert unreadable(received)[0].problem
            assert list(await receiver.receive(10, A_WHILE)) == []

    async def test_deliveries_of_the_same_garbage_are_told_apart(self, provider: Provider) -> None:
        if not self.sends_garbage:
            return
        async with self.receiving(provider) as receiver:
            await self.send_garbage(self.destination, 3)
            first = await take_any(receiver, 3)
            await receiver.recover(first)
            second = await take_any(receiver, 3)

            ids = [{delivery.delivery_id for delivery in unreadable(taken)} for taken in (first, second)]
            assert [len(some) for some in ids] == [3, 3]
            assert None not in ids[0] | ids[1]
            assert (ids[0] == ids[1]) is self.names_deliveries

    async def test_what_cannot_be_decoded_can_be_dead_lettered(self, provider: Provider) -> None:
        if not self.sends_garbage:
            return
        letters = self.dead_letters_of(self.destination)
        async with self.receiving(provider, letters) as undertaker, self.receiving(provider) as receiver:
            await self.send_garbage(self.destination, 1)
            await receiver.dead_letter(await take_any(receiver, 1), "no message")

            assert len(await take_any(undertaker, 1)) == 1
            assert list(await receiver.receive(10, A_WHILE)) == []

    async def test_a_body_that_the_trigger_refuses_is_not_decoded(self, provider: Provider) -> None:
        async with self.receiving(provider) as receiver:
            limited = capabilities_of(receiver).limited
            assert (limited is not None) is self.limits_bodies
            if limited is None:
                return
            limited.limits = Limits(max_body_size=50)
            fitting, larger = Message(body={"id": "x" * 10}), Message(body={"id": "x" * 100})
            await provider.send(self.destination, [fitting, larger])
            small, large = arrivals(await take_any(receiver, 2))

            assert small.message.body == fitting.body
            assert isinstance(large.message.body, bytes | str)
            assert large.message.body_size() > limited.limits.max_body_size


async def take_any(receiver: Receiver, count: int) -> list[Received]:
    """Receive exactly ``count`` deliveries, soon."""
    taken: list[Received] = []
    deadline = time.monotonic() + SOON
    while len(taken) < count and time.monotonic() < deadline:
        taken += await receiver.receive(count - len(taken), timedelta(milliseconds=200))
    assert len(taken) == count, f"{count} deliveries should have arrived, not {len(taken)}"
    return taken


def unreadable(received: Sequence[Received]) -> list[Unreadable]:
    """Return the unreadable deliveries."""
    return [delivery for delivery in received if isinstance(delivery, Unreadable)]
