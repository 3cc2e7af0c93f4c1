"""Consumers in this process, blocking and asyncio, on a Redis that stays up."""

import sys
import threading
import time
from datetime import timedelta

import pytest

from history import ConfigurationError, State
from history.bridge import drive
from tests.fixtures.histories import with_store
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, entry_in, is_drained, send
from triggers import Message
from triggers.providers.redis_streams import RedisStreams


class TestConsuming:
    def test_every_message_runs_once_and_is_acknowledged(self, lane: Lane, redis_url: str) -> None:
        orders, ran = lane.noting("orders")
        send(redis_url, "orders", *(str(number) for number in range(50)), "7")

        with lane.run([orders], redis_url, history=redis_url) as running:
            eventually(lambda: is_drained(redis_url, "orders"))

        assert sorted(ran, key=str) == sorted(map(str, range(50)))
        assert running.counts == {"orders": {"ok": 50, "duplicate": 1}}

    def test_a_consumer_runs_several_triggers_at_once(self, lane: Lane, redis_url: str) -> None:
        together = threading.Barrier(2)
        triggers = [lane.trigger(name, lambda _: together.wait(PATIENCE)) for name in ("orders", "returns")]
        send(redis_url, "orders", "a")
        send(redis_url, "returns", "b")

        with lane.run(triggers, redis_url, history=redis_url) as running:
            eventually(lambda: is_drained(redis_url, "orders") and is_drained(redis_url, "returns"))

        assert running.counts == {"orders": {"ok": 1}, "returns": {"ok": 1}}

    def test_one_that_ends_when_idle_waits_for_a_copy_whose_original_is_presumed_alive(
        self, lane: Lane, redis_url: str
    ) -> None:
        orders = lane.trigger("orders", lambda _: None)
        with_store(redis_url, lambda store: store.claim("orders", ["a"], "dead", timedelta(seconds=1.5)))
        send(redis_url, "orders", "a", "b")

        with lane.run([orders], redis_url, history=redis_url, until_idle=0.2) as running:
            running.join()

        assert running.counts["orders"] == {"recovered": 1, "in doubt": 1, "ok": 1}
        assert is_drained(redis_url, "orders")


class TestRefusing:
    def test_two_triggers_of_one_name_are_refused(self, lane: Lane, redis_url: str) -> None:
        triggers = [lane.trigger(stream, lambda _: None, name="same") for stream in ("orders", "returns")]

        with pytest.raises(ConfigurationError, match="2 triggers have this name"):
            lane.consumer(triggers, redis_url, history=redis_url)

    def test_a_trigger_without_a_history_is_refused_before_it_receives(
        self, lane: Lane, redis_url: str
    ) -> None:
        with pytest.raises(ConfigurationError, match="no history is named"):
            lane.consumer([lane.trigger("orders", lambda _: None)], redis_url)


class TestEnding:
    def test_sys_exit_in_a_service_ends_the_consumer_and_leaves_the_message_in_doubt(
        self, lane: Lane, redis_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        orders = lane.trigger("orders", lambda _: sys.exit(7))
        send(redis_url, "orders", "fatal")

        with lane.run([orders], redis_url, history=redis_url) as running, pytest.raises(SystemExit) as ended:
            running.join()

        entry = entry_in(redis_url, "orders", "fatal")
        assert ended.value.code == 7
        assert "SystemExit: 7 ended its service and ends this process" in caplog.text
        assert entry is not None
        assert entry.state is State.STARTED
        assert not is_drained(redis_url, "orders")

    def test_sys_exit_in_one_service_lets_another_one_end(self, lane: Lane, redis_url: str) -> None:
        begun, may_end = threading.Event(), threading.Event()

        def leave(_: Message) -> None:
            begun.wait(PATIENCE)
            sys.exit(7)

        def work(_: Message) -> None:
            begun.set()
            may_end.wait(PATIENCE)

        triggers = [lane.trigger("orders", work), lane.trigger("returns", leave)]
        send(redis_url, "orders", "a")
        send(redis_url, "returns", "b")

        with lane.run(triggers, redis_url, history=redis_url) as running:
            eventually(lambda: _is_given_back(redis_url, "returns"))
            may_end.set()
            with pytest.raises(SystemExit):
                running.join()

        assert is_drained(redis_url, "orders")
        assert running.counts["orders"] == {"ok": 1}

    def test_until_idle_waits_for_a_service_that_takes_longer(self, lane: Lane, redis_url: str) -> None:
        orders = lane.trigger("orders", lambda _: time.sleep(0.8))
        send(redis_url, "orders", "slow")

        with lane.run([orders], redis_url, history=redis_url, until_idle=0.2) as running:
            running.join()

        assert running.counts == {"orders": {"ok": 1}}

    def test_a_worker_that_cannot_go_on_ends_the_consumer(self, lane: Lane, redis_url: str) -> None:
        with connected(redis_url) as client:
            client.set("returns", "is no stream")
        triggers = [lane.trigger(name, lambda _: None) for name in ("orders", "returns")]

        with (
            lane.run(triggers, redis_url, history=redis_url) as running,
            pytest.raises(ConfigurationError, match="its key is not a stream"),
        ):
            running.join()


class TestFailing:
    def test_a_provider_that_was_handed_over_is_left_open(self, lane: Lane, redis_url: str) -> None:
        provider = RedisStreams.from_url(redis_url)
        orders = lane.trigger("orders", lambda _: None)

        with lane.run([orders], provider, history=redis_url, until_idle=0.1) as running:
            running.join()

        assert drive(provider.send("orders", [Message(uuid="after", body="")]))
        drive(provider.close())


def _is_given_back(url: str, stream: str) -> bool:
    with connected(url) as client:
        if not client.exists(stream) or not client.xinfo_groups(stream):
            return False
        consumers = client.xinfo_consumers(stream, stream)
        return [(one["name"], one["pending"]) for one in consumers] == [(b"doubtless:waiting", 1)]
