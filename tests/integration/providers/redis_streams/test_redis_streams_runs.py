"""Random runs of Redis Streams with crossing answers: each delivery is counted, and each holder is known."""

import logging
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from history.bridge import drive
from tests.integration.helpers.streams import receiver_of
from triggers.providers.contract.common import NO_WAIT, arrivals, numbered
from triggers.providers.provider import Arrival
from triggers.providers.redis_streams import RedisStreams
from triggers.providers.redis_streams.link import RedisLink
from triggers.providers.redis_streams.receiver import StreamReceiver
from triggers.testing.redis_server import RedisServer

#: So short that a working consumer may lose messages to another, like a paused process.
QUICK = "?claim_idle=0.02&reclaim_interval=0.001"


STEPS = ["send", "receive", "acknowledge", "recover", "delay", "keep alive", "close", "die"]


class Run:
    """Three consumers with random steps, and the expected state of each message."""

    def __init__(self, provider: RedisStreams) -> None:
        self.provider = provider
        self.destination = f"run-{uuid4().hex[:8]}"
        self.sent = 0
        self.started = 0
        self.handed: Counter[object] = Counter()
        self.acknowledged: set[object] = set()
        self.held: dict[int, list[Arrival]] = {}
        self.receivers: dict[int, StreamReceiver] = {}

    def receiver(self, who: int) -> StreamReceiver:
        if who not in self.receivers:
            self.started += 1
            name = f"{who}-{self.started}"
            self.receivers[who] = drive(
                self.provider.open_receiver(self.destination, subscription="s", name=name)
            )
            self.held[who] = []
        return self.receivers[who]

    def do(self, who: int, step: str, number: int) -> None:
        receiver, some_held = self.receiver(who), self.held[who][:number]
        match step:
            case "send":
                drive(self.provider.send(self.destination, numbered(number)))
                self.sent += number
            case "receive":
                self.receive(who, number)
            case "keep alive":
                drive(receiver.keep_alive())
            case "acknowledge":
                drive(receiver.acknowledge(some_held))
                self.acknowledged.update(one.handle for one in some_held)
                del self.held[who][:number]
            case "close" | "die":
                if step == "close":
                    drive(receiver.close())
                del self.receivers[who]
            case _:
                delay = timedelta(milliseconds=5 * number if step == "delay" else 0)
                drive(receiver.recover(some_held, delay))
                del self.held[who][:number]

    def receive(self, who: int, number: int, wait: timedelta = NO_WAIT) -> list[Arrival]:
        got = arrivals(drive(self.receiver(who).receive(number, wait)))
        for one in got:
            self.handed[one.handle] += 1
            assert one.message.delivery_count == self.handed[one.handle]
            assert one.handle not in self.acknowledged
        self.held[who] += got
        return got

    def drain(self) -> None:
        """Let one running consumer take and acknowledge all remaining messages."""
        while len(self.acknowledged) < self.sent:
            assert self.receive(9, 100, timedelta(seconds=10)), "something was lost"
            self.do(9, "acknowledge", len(self.held[9]))
        for receiver in self.receivers.values():
            drive(receiver.close())


steps = some.tuples(some.integers(0, 2), some.sampled_from(STEPS), some.integers(1, 3))


@settings(max_examples=60, deadline=None)
@given(run=some.lists(steps, max_size=40))
def test_every_delivery_is_counted_and_nothing_is_lost(
    redis_server: RedisServer, run: list[tuple[int, str, int]]
) -> None:
    provider = RedisStreams.from_url(redis_server.url + QUICK)
    books = Run(provider)
    for who, step, number in run:
        books.do(who, step, number)

    books.drain()

    assert len(books.acknowledged) == books.sent
    drive(provider.close())


@pytest.fixture
def receiver(redis_url: str) -> Iterator[StreamReceiver]:
    provider = RedisStreams.from_url(redis_url + "?claim_idle=60&reclaim_interval=0.05")
    receiver = receiver_of(provider)
    drive(provider.send("orders", numbered(2)))
    yield receiver
    drive(receiver.close())
    drive(provider.close())


async def test_a_keep_alive_that_sees_an_answer_before_its_sender_does_is_no_warning(
    receiver: StreamReceiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    received = await receiver.receive(2, NO_WAIT)
    call = RedisLink.call

    async def slow_to_tell(link: RedisLink, doing: str, *words: Any) -> Any:
        answer = await call(link, doing, *words)
        await receiver.keep_alive()
        return answer

    monkeypatch.setattr(RedisLink, "call", slow_to_tell)
    await receiver.acknowledge(received)

    assert caplog.messages == []


async def test_what_was_given_back_and_received_again_meanwhile_is_still_kept_alive(
    receiver: StreamReceiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    received = await receiver.receive(1, NO_WAIT)
    run = RedisLink.run

    async def crossing(link: RedisLink, name: str, keys: Any, arguments: Any) -> Any:
        if name != "keep_alive":
            return await run(link, name, keys, arguments)
        await receiver.recover(received)
        lost = await run(link, name, keys, arguments)
        again = arrivals(await receiver.receive(1, NO_WAIT))
        assert [one.handle for one in again] == [one.handle for one in received]
        return lost

    monkeypatch.setattr(RedisLink, "run", crossing)
    await receiver.keep_alive()

    assert caplog.messages == []
