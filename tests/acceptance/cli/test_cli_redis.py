"""``doubtless redis`` lists subscriptions without a trigger, and ends them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from history.bridge import drive
from tests.acceptance.in_process import InProcess
from tests.fixtures.servers.redis import connected
from triggers.providers.contract.common import NO_WAIT, numbered
from triggers.providers.redis_streams import RedisStreams


@pytest.fixture
def provider(redis_url: str) -> Iterator[RedisStreams]:
    provider = RedisStreams.from_url(redis_url)
    yield provider
    drive(provider.close())


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    with connected(redis_url) as client:
        yield client


@pytest.fixture
def removed(provider: RedisStreams) -> str:
    """A subscription that has acknowledged one entry, gave back one, and has not read one."""
    receiver = drive(provider.open_receiver("orders", subscription="old:one", name="a"))
    drive(provider.send("orders", numbered(3)))
    done, _ = drive(receiver.receive(2, NO_WAIT))
    drive(receiver.acknowledge([done]))
    drive(receiver.close())
    return "old:one"


def groups(client: Any) -> list[bytes]:
    return [group["name"] for group in client.xinfo_groups("orders")]


def test_subscriptions_are_listed_with_what_they_keep(
    doubtless: InProcess, provider: RedisStreams, redis_url: str, removed: str
) -> None:
    living = drive(provider.open_receiver("orders", subscription="new", name="a"))

    answer = doubtless("redis", "subscriptions", "orders", "--json", "--provider", redis_url)

    new, old = json.loads(answer.out)
    assert (new["name"], new["pending"], new["unread"], new["consumers"]) == ("new", 0, 3, 1)
    assert (old["name"], old["pending"], old["unread"], old["consumers"]) == (removed, 1, 1, 0)
    assert new["oldest"] < old["oldest"] or new["oldest"] == old["oldest"]
    drive(living.close())


def test_a_stream_that_is_not_there_has_none(doubtless: InProcess, redis_url: str) -> None:
    assert doubtless("redis", "subscriptions", "nothing", "--json", "--provider", redis_url).out == "[]\n"


def test_unsubscribing_shows_what_is_given_up_and_asks(
    doubtless: InProcess, redis_url: str, removed: str, client: Any
) -> None:
    words = ("redis", "unsubscribe", "orders", removed, "--provider", redis_url)

    refused = doubtless(*words, stdin="n\n")
    nobody = doubtless(*words)

    assert refused.code == 1
    assert "give up 1 that it has not acknowledged and 1 that it has not read" in refused.err
    assert nobody.code == 2
    assert "--yes" in nobody.err
    assert groups(client) == [removed.encode()]

    agreed = doubtless(*words, stdin="y\n")

    assert (agreed.code, agreed.out) == (0, f"{removed} has ended\n")
    assert groups(client) == []


def test_who_has_decided_is_not_asked(
    doubtless: InProcess, redis_url: str, removed: str, client: Any
) -> None:
    answer = doubtless("redis", "unsubscribe", "orders", removed, "--yes", "--json", "--provider", redis_url)

    assert answer.code == 0
    assert json.loads(answer.out)["given_up"]
    assert groups(client) == []


def test_a_subscription_with_a_living_consumer_is_refused(
    doubtless: InProcess, provider: RedisStreams, redis_url: str, client: Any
) -> None:
    living = drive(provider.open_receiver("orders", subscription="book", name="a"))

    answer = doubtless("redis", "unsubscribe", "orders", "book", "--yes", "--provider", redis_url)

    assert answer.code == 2
    assert "'book' of 'orders' has a living consumer" in answer.err
    assert groups(client) == [b"book"]
    drive(living.close())


def test_what_came_after_the_question_is_not_given_up_unasked(provider: RedisStreams, client: Any) -> None:
    client.xgroup_create("orders", "book", "0", mkstream=True)
    drive(provider.send("orders", numbered(1)))

    with pytest.raises(Exception, match="has not acknowledged or not read all"):
        drive(provider.unsubscribe("orders", "book"))

    assert drive(provider.unsubscribe("orders", "book", force=True))
    assert not drive(provider.unsubscribe("orders", "book", force=True))


def test_a_subscription_that_is_not_there_and_another_provider_are_said(
    doubtless: InProcess, redis_url: str, client: Any
) -> None:
    client.xadd("orders", {"body": "x"})

    absent = doubtless("redis", "unsubscribe", "orders", "book", "--provider", redis_url)
    other = doubtless("redis", "subscriptions", "orders", "--provider", "sqlite:///messages.db")
    missing = doubtless("redis", "subscriptions", "orders")

    assert (absent.code, absent.err) == (1, "orders has no subscription book\n")
    assert other.code == 2
    assert "is not Redis Streams" in other.err
    assert missing.code == 2
    assert (
        missing.err == "error: --provider: is missing; give redis://host:6379/0, or set DOUBTLESS_PROVIDER\n"
    )
