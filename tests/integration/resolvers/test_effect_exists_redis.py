"""The resolver looks for a key on a real Redis server."""

import pytest
import redis
import redis.asyncio

from history import ConfigurationError, Message, Uuid
from resolvers import EffectUnavailableError, Resolution, redis_key_exists
from tests.fixtures.ports import closed_port

MESSAGE = Message(body="", uuid=Uuid("done"))


@pytest.fixture
def url(redis_url: str) -> str:
    with redis.Redis.from_url(redis_url) as client:  # pyright: ignore[reportUnknownMemberType]
        client.set("booking:done", "")
    return redis_url


def test_no_key_means_in_doubt_where_the_effect_is_not_the_last_step(url: str) -> None:
    resolver = redis_key_exists(url, "booking:{uuid}", absent=Resolution.IN_DOUBT)

    assert resolver("undone", "book", MESSAGE).resolution is Resolution.IN_DOUBT


def test_a_client_of_the_users_is_used_and_left_open(url: str) -> None:
    with redis.Redis.from_url(url) as client:  # pyright: ignore[reportUnknownMemberType]
        resolver = redis_key_exists(client, "booking:{uuid}")

        assert resolver("done", "book", MESSAGE).resolution is Resolution.DUPLICATE
        assert resolver("undone", "book", MESSAGE).resolution is Resolution.NEW


async def test_an_asyncio_client_makes_an_asyncio_resolver(url: str) -> None:
    async with redis.asyncio.Redis.from_url(url) as client:  # pyright: ignore[reportUnknownMemberType]
        resolver = redis_key_exists(client, "booking:{uuid}")

        assert (await resolver("done", "book", MESSAGE)).resolution is Resolution.DUPLICATE
        assert (await resolver("undone", "book", MESSAGE)).resolution is Resolution.NEW


def test_a_server_that_is_away_is_a_reason_to_try_again_and_keeps_its_password() -> None:
    resolver = redis_key_exists(f"redis://:secret@127.0.0.1:{closed_port()}/0", "booking:{uuid}")

    with pytest.raises(EffectUnavailableError, match=r"redis://127.0.0.1:\d+/0 key booking") as raised:
        resolver("done", "book", MESSAGE)

    assert "secret" not in str(raised.value)


def test_braces_of_the_key_itself_are_doubled(url: str) -> None:
    resolver = redis_key_exists(url, "{{bookings}}:{uuid}")

    assert resolver("done", "book", MESSAGE).resolution is Resolution.NEW


@pytest.mark.parametrize("url", ["http://secret@host/0", "redis://:secret@host:port/0", "secret"])
def test_a_url_that_cannot_work_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError, match="not a Redis URL") as raised:
        redis_key_exists(url, "booking:{uuid}")

    assert "secret" not in str(raised.value)


def test_a_key_that_is_the_same_for_every_message_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="differs between messages"):
        redis_key_exists("redis://host/0", "booking")
