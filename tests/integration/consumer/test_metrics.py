"""What a consumer answers monitoring while it runs, blocking and asyncio."""

import json
import socket
from typing import Any

import pytest

from history.errors import ConfigurationError
from tests.fixtures.waiting import eventually
from tests.integration.helpers import scrapes
from tests.integration.helpers.consumers import Lane, is_drained, send
from triggers import Consumer, FatalError, Message
from triggers.testing.redis_server import RedisServer

ANY_PORT = "127.0.0.1:0"


def ask(consumer: Any, path: str) -> tuple[int, str]:
    """Return status and body, as soon as it listens."""
    eventually(lambda: consumer.metrics_address != ANY_PORT)
    return scrapes.ask(consumer.metrics_address, path)


def test_the_metrics_add_up_with_what_the_service_saw(lane: Lane, redis_url: str) -> None:
    ran: list[str | None] = []

    def work(message: Message) -> None:
        ran.append(message.uuid)
        if message.uuid == "bad":
            raise FatalError("no such account")

    orders = lane.trigger("orders", work)
    returns = lane.trigger("returns", lambda _: None)
    send(redis_url, "orders", *map(str, range(40)), "bad", "3", "4", "5")
    consumer = lane.consumer([orders, returns], redis_url, history=redis_url, metrics=ANY_PORT)

    with lane.running(consumer):
        eventually(lambda: is_drained(redis_url, "orders"))
        eventually(lambda: sum(consumer.counts["orders"].values()) == 44)
        found = scrapes.samples(str(consumer.metrics_address))

    assert found["doubtless_messages_total", "orders", "new"] == 41
    assert found["doubtless_messages_total", "orders", "duplicate"] == 3
    assert found["doubtless_failed_total", "orders"] == 1
    assert found["doubtless_service_seconds_count", "orders"] == len(ran) == 41
    assert found["doubtless_service_seconds_sum", "orders"] >= 0
    assert found["doubtless_messages_total", "returns", "new"] == 0


def test_a_consumer_is_ready_while_its_provider_answers(private_redis: RedisServer, lane: Lane) -> None:
    orders = lane.trigger("orders", lambda _: None, history=None)
    consumer = lane.consumer([orders], private_redis.url, metrics=ANY_PORT)

    with lane.running(consumer):
        eventually(lambda: ask(consumer, "/readyz")[0] == 200)
        private_redis.kill()
        eventually(lambda: ask(consumer, "/readyz")[0] == 503)
        told = json.loads(ask(consumer, "/readyz")[1])
        assert ask(consumer, "/livez")[0] == 200, "it waits, and is not to be killed for that"
        private_redis.start()
        eventually(lambda: ask(consumer, "/readyz")[0] == 200)

    assert "Redis" in told["triggers"]["orders"]["provider_away"]
    assert told["ready"] is False


def test_a_suspended_trigger_is_told_with_its_reason(lane: Lane, redis_url: str) -> None:
    orders = lane.trigger("orders", lambda _: None, history=None)
    consumer = lane.consumer([orders], redis_url, metrics=ANY_PORT)

    with lane.running(consumer):
        eventually(lambda: ask(consumer, "/readyz")[0] == 200)
        consumer.gates[0].suspend("the bank is closed")
        status, text = ask(consumer, "/readyz")

    assert (status, json.loads(text)["triggers"]["orders"]["reason"]) == (503, "the bank is closed")


def test_nobody_listens_before_and_after_a_run(lane: Lane, redis_url: str) -> None:
    consumer = lane.consumer(
        [lane.trigger("orders", lambda _: None)], redis_url, metrics=ANY_PORT, history=redis_url
    )
    assert consumer.metrics_address == ANY_PORT

    with lane.running(consumer):
        eventually(lambda: consumer.metrics_address != ANY_PORT)
        address = str(consumer.metrics_address)

    host, _, port = address.rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_a_port_that_is_taken_ends_a_consumer_before_it_receives(lane: Lane, redis_url: str) -> None:
    ran: list[str | None] = []
    send(redis_url, "orders", "a")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        orders = lane.trigger("orders", lambda message: ran.append(message.uuid))
        consumer = lane.consumer([orders], redis_url, history=redis_url, metrics=address)

        with (
            pytest.raises(ConfigurationError, match=f"^metrics: {address} cannot be listened at"),
            lane.running(consumer) as running,
        ):
            running.join()

    assert ran == []


def test_what_is_no_address_is_refused_on_the_users_line(lane: Lane, redis_url: str) -> None:
    orders = lane.trigger("orders", lambda _: None)

    with pytest.raises(
        ConfigurationError, match=r"^metrics: 'here' is not a host and a port; write"
    ) as refused:
        Consumer([orders], redis_url, history=redis_url, metrics="here")

    assert "test_metrics.py" in str(refused.value)
