"""The number of unread entries of Redis Streams: from Redis, or counted up to a limit."""

from collections.abc import Iterator
from typing import Any

import pytest

from history.bridge import drive
from tests.integration.helpers.streams import receiver_of
from triggers.providers.backlog import Backlog
from triggers.providers.contract.common import NO_WAIT, numbered
from triggers.providers.redis_streams import RedisStreams
from triggers.providers.redis_streams.subscriptions import MOST_COUNTED

#: More entries than are counted one by one.
MANY = MOST_COUNTED + 2_000

PLACE = ("orders", "s")


@pytest.fixture
def provider(redis_url: str) -> Iterator[RedisStreams]:
    """A provider with a subscription of ``orders`` that has read one entry."""
    provider = RedisStreams.from_url(redis_url)
    receiver = receiver_of(provider)
    drive(provider.send("orders", numbered(1)))
    drive(receiver.acknowledge(drive(receiver.receive(1, NO_WAIT))))
    drive(receiver.close())
    yield provider
    drive(provider.close())


def add(client: Any, count: int, body: bytes = b"x") -> list[bytes]:
    pipeline = client.pipeline(transaction=False)
    for _ in range(count):
        pipeline.xadd("orders", {"body": body})
    return list(pipeline.execute())


def backlog(provider: RedisStreams) -> Backlog:
    return drive(provider.backlogs([PLACE]))[0]


def test_what_was_not_read_is_told_exactly_however_much_it_is(provider: RedisStreams, client: Any) -> None:
    add(client, MANY)

    found = backlog(provider)

    assert (found.waiting, found.is_more) == (MANY, False)


def test_a_deleted_entry_is_not_counted(provider: RedisStreams, client: Any) -> None:
    ids = add(client, 600)
    client.xdel("orders", *ids[100:110])

    found = backlog(provider)

    assert (found.waiting, found.is_more) == (590, False)


@pytest.mark.parametrize("which", [slice(0, 3), slice(1, 3), slice(2, 3)])
def test_deleted_ends_are_not_counted(provider: RedisStreams, client: Any, which: slice) -> None:
    ids = add(client, 3)
    deleted = ids[which]
    client.xdel("orders", *deleted)

    assert backlog(provider).waiting == 3 - len(deleted)


def test_where_redis_does_not_know_counting_ends_and_says_so(provider: RedisStreams, client: Any) -> None:
    ids = add(client, MANY)
    client.xdel("orders", ids[5])

    found = backlog(provider)

    assert (found.waiting, found.is_more) == (MOST_COUNTED, True)


def test_large_bodies_are_not_read_to_be_counted(provider: RedisStreams, client: Any) -> None:
    ids = add(client, 20, bytes(2**20))
    client.xdel("orders", ids[5])
    client.config_resetstat()

    found = backlog(provider)

    assert found.is_more
    assert 1 <= (found.waiting or 0) < 5
    assert client.info("stats")["total_net_output_bytes"] < 5 * 2**20


def test_what_another_trimmed_away_unread_does_not_wait(provider: RedisStreams, client: Any) -> None:
    add(client, 50)
    client.xtrim("orders", maxlen=20, approximate=False)

    found = backlog(provider)

    assert (found.waiting, found.is_more) == (20, False)
