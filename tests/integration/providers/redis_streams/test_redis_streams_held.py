"""What a consumer holds is known exactly: answers and keep-alives that cross each other tell no lies."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from history.bridge import drive
from tests.integration.helpers.streams import receiver_of
from triggers.providers.contract.common import NO_WAIT, arrivals, numbered
from triggers.providers.redis_streams import RedisStreams
from triggers.providers.redis_streams.link import RedisLink
from triggers.providers.redis_streams.receiver import StreamReceiver


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
