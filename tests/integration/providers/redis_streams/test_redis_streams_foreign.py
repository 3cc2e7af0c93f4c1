"""If others add entries to the provider's keys, or remove some, all other messages go on."""

import logging
import struct
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from history.bridge import drive
from tests.integration.helpers.streams import receive, received, receiver_of
from triggers.providers.contract.common import NO_WAIT, bodies, numbered
from triggers.providers.provider import Arrival, Unreadable
from triggers.providers.redis_streams import RedisStreams
from triggers.providers.redis_streams.receiver import StreamReceiver
from triggers.providers.redis_streams.settings import StreamKeys

KEYS = StreamKeys("orders", "s", "a")
LATER, DELAYED = KEYS.scripted[4], KEYS.scripted[2]


@pytest.fixture
def provider(redis_url: str) -> Iterator[RedisStreams]:
    # During the test a consumer looks again only if it has a reason.
    provider = RedisStreams.from_url(redis_url + "?claim_idle=3000&reclaim_interval=600")
    yield provider
    drive(provider.close())


@pytest.fixture
def receiver(provider: RedisStreams) -> Iterator[StreamReceiver]:
    receiver = receiver_of(provider)
    yield receiver
    drive(receiver.close())


def packed(*words: bytes, times: int = 1) -> bytes:
    return b"0" * 20 + b"".join(struct.pack(">I", len(word)) + word for word in words) * times


def test_the_living_do_not_wait_behind_entries_that_were_deleted_while_pending(
    provider: RedisStreams, receiver: StreamReceiver, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    drive(provider.send("orders", numbered(1210)))
    held = receive(receiver, 1210)
    drive(receiver.recover(held))
    client.xdel("orders", *[one.handle for one in held[:1200]])

    with caplog.at_level(logging.ERROR):
        again = receive(receiver, 10)

    assert bodies(again) == [str(number) for number in range(1200, 1210)]
    assert client.xpending("orders", "s")["pending"] == 10
    assert sum("were deleted or trimmed" in line for line in caplog.messages) < 5


@pytest.mark.parametrize(
    "member",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"no message at all", id="short"),
        pytest.param(b"0" * 20 + b"\xff\xff\xff\xff", id="cut"),
        pytest.param(packed(b"body"), id="odd"),
        pytest.param(packed(b"x", times=9000), id="more words than a command takes"),
        pytest.param(packed(b"x", times=200_000), id="more words than the stack takes"),
        pytest.param(b"0" * 20 + b"x" * 5_000_000, id="large"),
    ],
)
def test_a_foreign_member_among_the_later_ones_is_named_and_holds_nothing_up(
    receiver: StreamReceiver, client: Any, member: bytes
) -> None:
    client.zadd(LATER, {member: 1, packed(b"body", b"whole"): 2})

    foreign, whole = received(receiver, 2)

    assert isinstance(whole, Arrival)
    assert whole.message.body in {"whole", b"whole"}
    assert isinstance(foreign, Unreadable)
    assert foreign.fields == {b"undecodable": member}
    assert LATER in foreign.problem


def test_a_later_member_that_is_never_due_holds_nothing_up(
    provider: RedisStreams, receiver: StreamReceiver, client: Any
) -> None:
    client.zadd(LATER, {b"never": float("inf"), b"hardly": 1e300})
    drive(provider.send("orders", numbered(1)))

    assert bodies(receive(receiver, 1)) == ["0"]


@pytest.mark.parametrize("key", [LATER, DELAYED])
def test_a_key_of_another_type_is_set_aside_and_named(
    provider: RedisStreams, receiver: StreamReceiver, client: Any, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    client.set(key, "somebody else's")
    drive(provider.send("orders", numbered(1)))

    with caplog.at_level(logging.ERROR):
        assert bodies(receive(receiver, 1)) == ["0"]

    [aside] = client.keys(f"{key}:foreign:*")
    assert client.get(aside) == b"somebody else's"
    assert aside.decode() in caplog.text


def test_a_foreign_member_among_the_delayed_holds_nothing_up(
    provider: RedisStreams, receiver: StreamReceiver, client: Any
) -> None:
    drive(provider.send("orders", numbered(1)))
    [held] = receive(receiver, 1)
    client.zadd(DELAYED, {b"no id": 0, b"99999999999999999999-0": 0, b"1-1": 0})
    drive(receiver.recover([held], timedelta(milliseconds=1)))

    assert bodies(receive(receiver, 1)) == ["0"]
    assert client.exists(DELAYED) == 0


def test_an_entry_of_many_fields_is_given_back_and_taken_again(receiver: StreamReceiver, client: Any) -> None:
    client.xadd("orders", {"body": "wide", **{f"field{number}": "x" for number in range(20_000)}})
    held = receive(receiver, 1)
    drive(receiver.recover(held))

    [again] = receive(receiver, 1)

    assert again.message.delivery_count == 2
    assert len(again.message.properties) >= 20_000
    drive(receiver.dead_letter([again], "too wide"))
    assert client.xlen("{orders}:dlq") == 1
    assert drive(receiver.receive(1, NO_WAIT)) == []
