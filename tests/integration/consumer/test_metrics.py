"""A running consumer answers monitoring, blocking and asyncio."""

import json
import socket
import threading
from datetime import timedelta
from typing import Any

import pytest

from tests.fixtures.network import NetworkBefore
from tests.fixtures.waiting import eventually
from tests.integration.helpers import scrapes
from tests.integration.helpers.consumers import Lane, is_drained, send
from triggers import ConfigurationError, FatalError, Message
from triggers.detection.suspension import Suspension
from triggers.testing.postgres_server import PostgresServer
from triggers.testing.redis_server import RedisServer

ANY_PORT = "127.0.0.1:0"


def ask(consumer: Any, path: str) -> tuple[int, str]:
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


def is_ready(consumer: Any, trigger: str) -> bool:
    """Whether the readiness page and the gauges report a healthy consumer. They must agree."""
    status, _ = ask(consumer, "/readyz")
    found = scrapes.samples(str(consumer.metrics_address))
    up = found["doubtless_provider_up", trigger] == found["doubtless_history_up", trigger] == 1
    return status == 200 and up


def test_an_idle_ordered_trigger_stays_unready_while_its_redis_is_away(
    private_redis: RedisServer, lane: Lane, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.consumer.ordering.active.LEASE", timedelta(seconds=2))
    looks: list[int] = []

    def stands_by() -> bool:
        looks.append(ask(consumer, "/readyz")[0])
        return "it is unknown which consumer is active" in caplog.text

    orders = lane.trigger("orders", lambda _: None, ordered=True)
    consumer = lane.consumer([orders], private_redis.url, history=private_redis.url, metrics=ANY_PORT)

    with lane.running(consumer):
        eventually(lambda: is_ready(consumer, "orders"))
        private_redis.kill()
        eventually(lambda: ask(consumer, "/readyz")[0] == 503)
        eventually(stands_by)  # after its lease
        looks += [ask(consumer, "/readyz")[0] for _ in range(10)]
        up = scrapes.samples(str(consumer.metrics_address))
        private_redis.start()
        eventually(lambda: is_ready(consumer, "orders"))

    assert (set(looks), up["doubtless_history_up", "orders"]) == ({503}, 0)


def test_an_idle_trigger_is_unready_while_its_history_is_away(
    redis_url: str, lane: Lane, private_postgres: PostgresServer
) -> None:
    orders = lane.trigger("orders", lambda _: None)
    consumer = lane.consumer([orders], redis_url, history=private_postgres.url, metrics=ANY_PORT)

    with lane.running(consumer):
        eventually(lambda: is_ready(consumer, "orders"))
        private_postgres.kill()
        eventually(lambda: ask(consumer, "/readyz")[0] == 503)
        told = json.loads(ask(consumer, "/readyz")[1])["triggers"]["orders"]
        up = scrapes.samples(str(consumer.metrics_address))
        private_postgres.start()
        eventually(lambda: is_ready(consumer, "orders"))

    assert told["history_away"] is not None
    assert told["provider_away"] is None
    assert (up["doubtless_history_up", "orders"], up["doubtless_provider_up", "orders"]) == (0, 1)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("silent", ["provider", "history"])
def test_a_trigger_is_unready_while_a_call_to_a_silent_server_has_not_returned(
    redis_url: str,
    postgres_url: str,
    lane: Lane,
    network_before: NetworkBefore,
    silent: str,
    ordered: bool,  # noqa: FBT001  (a parameter of the test)
) -> None:
    network = network_before(postgres_url)
    # The driver never gives up.
    postgres = network.url(postgres_url) + "&reply_timeout=0&connect_timeout=600"
    provider, history = (postgres, redis_url) if silent == "provider" else (redis_url, postgres)
    orders = lane.trigger("orders", lambda _: None, ordered=ordered)
    consumer = lane.consumer([orders], provider, history=history, metrics=ANY_PORT)

    with lane.running(consumer):
        eventually(lambda: is_ready(consumer, "orders"))
        network.swallow()
        eventually(lambda: ask(consumer, "/readyz")[0] == 503)
        told = json.loads(ask(consumer, "/readyz")[1])["triggers"]["orders"]
        up = scrapes.samples(str(consumer.metrics_address))
        network.flow()
        eventually(lambda: is_ready(consumer, "orders"))

    assert told[f"{silent}_away"] is not None
    assert up[f"doubtless_{silent}_up", "orders"] == 0


def test_a_trigger_is_unready_if_its_history_is_silent_from_the_start(
    redis_url: str, postgres_url: str, lane: Lane, network_before: NetworkBefore
) -> None:
    network = network_before(postgres_url)
    network.swallow()
    history = network.url(postgres_url) + "&reply_timeout=0&connect_timeout=600"
    consumer = lane.consumer([lane.trigger("orders", print)], redis_url, history=history, metrics=ANY_PORT)

    with lane.running(consumer):
        eventually(lambda: ask(consumer, "/readyz")[0] == 503 and "no answer" in ask(consumer, "/readyz")[1])
        network.flow()
        eventually(lambda: is_ready(consumer, "orders"))


def test_a_trigger_that_does_without_its_history_stays_ready(
    redis_url: str, lane: Lane, private_postgres: PostgresServer
) -> None:
    orders = lane.trigger("orders", lambda _: None, on_history_error="resolve")
    consumer = lane.consumer([orders], redis_url, history=private_postgres.url, metrics=ANY_PORT)

    with lane.running(consumer):
        eventually(lambda: is_ready(consumer, "orders"))
        private_postgres.kill()
        gauges = ("doubtless_history_up", "orders")
        eventually(lambda: scrapes.samples(str(consumer.metrics_address))[gauges] == 0)
        status, _ = ask(consumer, "/readyz")

    assert status == 200


def test_the_age_of_the_oldest_delivery_is_told(redis_url: str, lane: Lane) -> None:
    let_go = threading.Event()
    send(redis_url, "orders", "a")
    orders = lane.trigger("orders", lambda _: let_go.wait(60))
    consumer = lane.consumer([orders], redis_url, history=redis_url, metrics=ANY_PORT)
    oldest = ("doubtless_oldest_delivery_seconds", "orders")

    with lane.running(consumer):
        eventually(lambda: consumer.metrics_address != ANY_PORT)
        eventually(lambda: scrapes.samples(str(consumer.metrics_address))[oldest] > 0.2)
        let_go.set()
        eventually(lambda: scrapes.samples(str(consumer.metrics_address))[oldest] == 0)


def test_a_suspended_trigger_is_told_with_its_reason(lane: Lane, redis_url: str) -> None:
    orders = lane.trigger("orders", lambda _: None, history=None)
    consumer = lane.consumer([orders], redis_url, metrics=ANY_PORT)

    with lane.running(consumer):
        eventually(lambda: ask(consumer, "/readyz")[0] == 200)
        consumer.gates[0].suspend("the bank is closed", Suspension.RESOURCE)
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
