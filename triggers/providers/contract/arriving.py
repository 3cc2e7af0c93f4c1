"""A message arrives as it was sent."""

import time
from datetime import timedelta
from typing import Any

from history.json_text import canonical_json, read_json
from history.message import Message
from triggers.providers.contract.common import (
    A_WHILE,
    NO_WAIT,
    SOON,
    ContractTools,
    everything,
    kind,
    numbered,
    take,
)
from triggers.providers.provider import Provider


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

            assert [kind(delivery.message.body) for delivery in arrived] == [kind(body) for body in bodies]

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

            assert [delivery.message.body for delivery in arrived] == bodies

    async def test_a_message_without_an_id_gets_one_that_stays(self, provider: Provider) -> None:
        async with self.receiving(provider) as receiver:
            given = await provider.send(self.destination, [Message(body="a"), Message(body="b")])
            first = await take(receiver, 2)
            await receiver.recover(first)
            second = await take(receiver, 2)

            assert [delivery.message.message_id for delivery in first] == list(given)
            assert len(set(given)) == 2
            assert {delivery.message.message_id for delivery in second} == set(given)
            assert first[0].message.uuid == given[0]

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
