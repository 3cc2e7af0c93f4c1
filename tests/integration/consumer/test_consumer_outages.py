"""Consumers on bad days: the provider or the history is away, comes back, comes back empty, or is full."""

import logging
import threading
import time
from datetime import timedelta

import pytest

from history import RedisHistory
from tests.fixtures.network import NetworkBefore
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, entry_in, is_drained, send
from triggers import Message
from triggers.testing.redis_server import RedisServer

#: A silent consumer counts as dead soon.
FAST = "?claim_idle=60&reclaim_interval=0.1"


class TestProviderAway:
    def test_a_consumer_may_start_before_redis_does(
        self, lane: Lane, private_redis: RedisServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        url = private_redis.url
        orders, ran = lane.noting("orders")
        send(url, "orders", "patient")
        private_redis.stop()

        with lane.run([orders], url, history=url):
            eventually(lambda: "trying again" in caplog.text)
            private_redis.start()
            eventually(lambda: is_drained(url, "orders"))

        assert ran == ["patient"]

    def test_until_idle_waits_for_a_provider_that_is_away(
        self, lane: Lane, private_redis: RedisServer
    ) -> None:
        url = private_redis.url
        private_redis.stop()

        with lane.run([lane.trigger("orders", lambda _: None)], url, history=url, until_idle=0.1) as running:
            time.sleep(1)  # in this time it must not end
            assert running.alive
            private_redis.start()
            running.join()

    def test_an_acknowledgement_that_cannot_be_sent_makes_a_duplicate(
        self, lane: Lane, redis_url: str, network_before: NetworkBefore, caplog: pytest.LogCaptureFixture
    ) -> None:
        ran: list[str | None] = []
        network = network_before(redis_url)

        def work(message: Message) -> None:
            ran.append(message.uuid)
            if message.uuid == "b":
                network.take_down()

        send(redis_url, "orders", *"abcd")
        # One at a time: for several, the history in the same Redis acknowledges through its own connection.
        orders = lane.trigger("orders", work, prefetch=1)
        with lane.run([orders], network.url(redis_url), history=redis_url) as running:
            eventually(lambda: "trying again" in caplog.text)
            assert _is_completed(redis_url, "b")
            network.bring_up()
            eventually(lambda: is_drained(redis_url, "orders"))

        assert sorted(ran, key=str) == list("abcd")
        assert running.counts["orders"]["duplicate"] == 1

    def test_a_consumer_drains_while_its_provider_is_away(
        self, lane: Lane, redis_url: str, network_before: NetworkBefore
    ) -> None:
        network = network_before(redis_url)
        begun, may_end = threading.Event(), threading.Event()

        def work(_: Message) -> None:
            begun.set()
            may_end.wait(PATIENCE)

        send(redis_url, "orders", "a", "b")
        with lane.run([lane.trigger("orders", work)], network.url(redis_url), history=redis_url) as running:
            begun.wait(PATIENCE)
            network.take_down()
            running.stop()
            may_end.set()
            running.join()

        assert _is_completed(redis_url, "a")
        assert entry_in(redis_url, "orders", "b") is None


class TestHistoryAway:
    def test_a_history_that_can_be_read_and_not_written_is_not_back(
        self,
        lane: Lane,
        redis_url: str,
        private_redis: RedisServer,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("triggers.consumer.housekeeping.HISTORY_PROBE", timedelta(seconds=0.1))
        ran: list[Message] = []
        orders = lane.trigger("orders", ran.append, history=private_redis.url)
        with connected(private_redis.url) as client:
            client.config_set("maxmemory", 1)
            send(redis_url, "orders", "patient")

            with lane.run([orders], redis_url + FAST) as running:
                eventually(lambda: running.gates[0].suspended)
                eventually(lambda: caplog.text.count("its history takes no claims") >= 2)
                client.config_set("maxmemory", 0)
                eventually(lambda: is_drained(redis_url, "orders"))

        assert [one.delivery_count for one in ran] == [2]

    def test_what_a_provider_refuses_is_quoted_once(
        self, lane: Lane, private_redis: RedisServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        orders = lane.trigger("orders", lambda _: None, history=private_redis.url)
        with connected(private_redis.url) as client:
            client.config_set("maxmemory", 1)
            with lane.run([orders], private_redis.url + FAST):
                eventually(lambda: "trying again in" in caplog.text)
                client.config_set("maxmemory", 0)

        (line, *_) = [one.message for one in caplog.records if "trying again in" in one.message]
        assert line.count("'maxmemory'") == 1

    @pytest.mark.parametrize("emptied", ["history", "provider"])
    def test_a_server_that_comes_back_empty_is_told_of_and_work_goes_on(
        self,
        lane: Lane,
        redis_url: str,
        private_redis: RedisServer,
        caplog: pytest.LogCaptureFixture,
        emptied: str,
    ) -> None:
        orders, ran = lane.noting("orders", history=private_redis.url)
        url = redis_url if emptied == "history" else private_redis.url
        send(url, "orders", "before")

        with lane.run([orders], url + FAST):
            eventually(lambda: is_drained(url, "orders"))
            with connected(private_redis.url) as client:
                client.flushall()
            send(url, "orders", "after")
            eventually(lambda: is_drained(url, "orders"))

        assert ran == ["before", "after"]
        if emptied == "history":
            loud = [one for one in caplog.records if one.levelno == logging.CRITICAL]
            assert [one.name for one in loud] == [RedisHistory.__module__]
        else:
            assert "is gone (the server was flushed" in caplog.text


def _is_completed(url: str, uuid: str) -> bool:
    entry = entry_in(url, "orders", uuid)
    return entry is not None and entry.outcome is not None
