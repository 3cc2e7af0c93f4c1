"""A trigger whose process or history goes away while its service runs, on real servers."""

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from history.bridge import drive
from history.entry import EntryOutcome, State
from history.store.parking import ParkedKind
from tests import ROOT
from tests.fixtures.histories import FragileHistory, wait_for_circuits
from tests.fixtures.network import Network
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import eventually
from tests.integration.helpers.rows import NAME, UUID, Bench, Effects, order
from triggers.detection.table import Status
from triggers.events import Cause
from triggers.pipeline.completion import EntryCompletion
from triggers.pipeline.pipeline import MessagePipeline
from triggers.service.failures import TransientError
from triggers.testing.redis_server import RedisServer


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def bench(history_url: str, tmp_path: Path, closing: ExitStack) -> Bench:
    return Bench(history_url, tmp_path, asyncio=False, closing=closing)


@pytest.fixture
def fragile(form: str, fragile_history: FragileHistory, tmp_path: Path, closing: ExitStack) -> Bench:
    return Bench(fragile_history.url, tmp_path, form == "asyncio", closing)


def die_in_the_service(url: str, lease: float) -> None:
    """Let another process handle the message, and be killed by its own service."""
    words = [sys.executable, "-m", "tests.integration.pipeline.dying_service", url, str(lease)]
    died = subprocess.run(words, cwd=ROOT, check=False, capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()


class TestProcessDeath:
    def test_a_message_whose_process_was_killed_is_in_doubt_and_never_runs_again(self, bench: Bench) -> None:
        die_in_the_service(bench.url, 0)
        left = bench.state()
        effects = Effects()
        book = bench.trigger(effects)

        outcomes = [bench.deliver(book, order(delivery_count=count)) for count in (2, 3)]

        assert left is State.STARTED
        assert [(outcome.row, outcome.status) for outcome in outcomes] == [(10, Status.IN_DOUBT)] * 2
        assert effects.runs == []
        (parked,) = bench.parked()
        assert (parked.kind, parked.message) == (ParkedKind.IN_DOUBT, order(delivery_count=3))
        assert bench.heard == []

    def test_with_a_lease_it_is_waited_for_first(self, bench: Bench) -> None:
        die_in_the_service(bench.url, 60)
        book = bench.trigger(Effects(), lease=timedelta(seconds=60))

        first = bench.deliver(book, order(delivery_count=2))
        bench.end_lease()
        second = bench.deliver(book, order(delivery_count=3))

        assert (first.row, first.acknowledge) == (12, False)
        assert (second.row, second.parked) == (10, True)


class TestHistoryGoesAway:
    def test_a_success_that_cannot_be_recorded_is_parked_acknowledged_and_never_run_again(
        self, fragile: Bench, fragile_history: FragileHistory
    ) -> None:
        effects = Effects(meanwhile=fragile_history.take_away)
        book = fragile.trigger(effects, lease=None)

        outcome = fragile.deliver(book, order(delivery_count=1))

        fragile_history.give_back()
        assert (outcome.status, outcome.executed, outcome.result) == (Status.NEW, True, "booked")
        assert (outcome.acknowledge, outcome.parked) == (True, True)
        assert "its end could not be written" in outcome.reason
        (parked,) = fragile.parked_locally()
        assert (parked.kind, parked.message) == (ParkedKind.IN_DOUBT, order(delivery_count=1))
        assert parked.reason == outcome.reason
        assert fragile.state() is State.STARTED

        again = fragile.deliver(book, order(delivery_count=2))

        assert (again.row, again.executed) == (10, False)
        assert len(effects.runs) == 1

    def test_a_failure_that_cannot_be_recorded_is_parked_told_and_never_run_again(
        self, fragile: Bench, fragile_history: FragileHistory
    ) -> None:
        effects = Effects(ValueError("no such customer"), meanwhile=fragile_history.take_away)
        book = fragile.trigger(effects, lease=None)

        outcome = fragile.deliver(book, order())

        fragile_history.give_back()
        assert (outcome.acknowledge, outcome.parked) == (True, True)
        assert [event.cause for event in fragile.heard] == [Cause.SERVICE_FAILED]
        (parked,) = fragile.parked_locally()
        assert (parked.kind, parked.error_message) == (ParkedKind.REJECTED, "no such customer")
        assert fragile.state() is State.STARTED

        again = fragile.deliver(book, order(delivery_count=2))

        assert (again.row, again.executed) == (10, False)

    def test_a_message_that_cannot_be_released_is_given_back_and_in_doubt(
        self, fragile: Bench, fragile_history: FragileHistory
    ) -> None:
        effects = Effects(TransientError(), meanwhile=fragile_history.take_away)
        book = fragile.trigger(effects, on_retry_failure="suspend", lease=None)

        outcome = fragile.deliver(book, order())

        fragile_history.give_back()
        assert (outcome.acknowledge, outcome.suspend, outcome.parked) == (False, True, False)
        assert fragile.state() is State.STARTED
        assert fragile.deliver(book, order(delivery_count=2)).row == 10

    def test_what_cannot_be_parked_anywhere_is_not_acknowledged(
        self, fragile: Bench, fragile_history: FragileHistory, caplog: pytest.LogCaptureFixture
    ) -> None:
        fragile.local_file.parent.write_text("a file where a folder should be")
        book = fragile.trigger(Effects(ValueError(), meanwhile=fragile_history.take_away))

        with caplog.at_level(logging.CRITICAL, "triggers.pipeline.parking.lot"):
            outcome = fragile.deliver(book, order())

        assert [record.levelname for record in caplog.records] == ["CRITICAL"]
        fragile_history.give_back()
        assert (outcome.acknowledge, outcome.parked) == (False, False)
        assert outcome.recover_after > 0

    def test_a_short_outage_is_waited_out(
        self, fragile_history: FragileHistory, tmp_path: Path, closing: ExitStack
    ) -> None:
        fragile = Bench(fragile_history.url, tmp_path, asyncio=False, closing=closing)
        effects = Effects(meanwhile=fragile_history.take_away)
        pauses: list[float] = []
        book = fragile.trigger(effects)

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            fragile_history.give_back()

        pipeline = book.pipeline()
        assert isinstance(pipeline, MessagePipeline)
        assert isinstance(pipeline.completion, EntryCompletion)
        completion = replace(pipeline.completion, sleep=sleep)
        outcome = drive(replace(pipeline, completion=completion).handle(order()))

        assert pauses
        assert (outcome.acknowledge, outcome.parked) == (True, False)
        assert fragile.state() is EntryOutcome.OK

    def test_a_batch_of_which_nothing_can_be_recorded_is_parked_whole(
        self, fragile_history: FragileHistory, tmp_path: Path, closing: ExitStack
    ) -> None:
        fragile = Bench(fragile_history.url, tmp_path, asyncio=False, closing=closing)
        effects = Effects(meanwhile=fragile_history.take_away)
        book = fragile.trigger(effects)

        outcomes = book.handle_batch([order(f"order/{n}") for n in range(3)])

        fragile_history.give_back()
        assert [(outcome.executed, outcome.acknowledge) for outcome in outcomes] == [(True, True)] * 3
        assert sorted(str(parked.uuid) for parked in fragile.parked_locally()) == [
            "order/0",
            "order/1",
            "order/2",
        ]


class TestRedis:
    def test_a_server_that_is_killed_while_the_service_runs_costs_a_parked_copy_and_no_second_run(
        self, private_redis: RedisServer, tmp_path: Path, closing: ExitStack
    ) -> None:
        bench = Bench(private_redis.url, tmp_path, asyncio=False, closing=closing)
        effects = Effects(meanwhile=private_redis.kill)
        book = bench.trigger(effects, lease=None)

        outcome = bench.deliver(book, order())
        private_redis.start()
        wait_for_circuits()
        again = bench.deliver(book, order(delivery_count=2))

        assert (outcome.executed, outcome.acknowledge, outcome.parked) == (True, True, True)
        assert [parked.message for parked in bench.parked_locally()] == [order()]
        assert (again.row, again.status) == (10, Status.IN_DOUBT)
        assert len(effects.runs) == 1

    def test_an_end_whose_reply_is_lost_is_recorded_once(
        self, redis_url: str, tmp_path: Path, closing: ExitStack
    ) -> None:
        address = urlsplit(redis_url)
        network = closing.enter_context(Network("127.0.0.1", address.port or 0))
        bench = Bench(network.url(redis_url), tmp_path, asyncio=False, closing=closing)
        lost: list[threading.Event] = []
        book = bench.trigger(Effects(meanwhile=lambda: lost.append(network.lose_reply_to(b"EVALSHA"))))

        outcome = bench.deliver(book, order())

        assert lost[0].is_set()
        assert (outcome.acknowledge, outcome.parked) == (True, False)
        assert bench.state() is EntryOutcome.OK

    def test_a_server_that_is_flushed_while_the_service_runs_learns_of_its_end_anew(
        self, redis_url: str, tmp_path: Path, closing: ExitStack, form: str
    ) -> None:
        bench = Bench(redis_url, tmp_path, form == "asyncio", closing)
        client = closing.enter_context(connected(redis_url))
        effects = Effects(meanwhile=client.flushdb)
        book = bench.trigger(effects)

        outcome = bench.deliver(book, order())
        again = bench.deliver(book, order(delivery_count=2))

        assert (outcome.acknowledge, outcome.parked) == (True, False)
        assert "recorded anew" in outcome.reason
        assert again.status is Status.DUPLICATE
        assert len(effects.runs) == 1

    def test_a_server_that_cannot_write_to_its_disk_is_a_history_that_is_away(
        self, tmp_path: Path, closing: ExitStack, form: str
    ) -> None:
        folder = tmp_path / "redis"
        folder.mkdir()
        server = closing.enter_context(RedisServer(folder, appendonly="no", save="3600 1"))
        bench = Bench(server.url, tmp_path, form == "asyncio", closing)
        client = closing.enter_context(connected(server.url))
        effects = Effects(meanwhile=lambda: fill_disk(client, folder))
        book = bench.trigger(effects)

        outcome = bench.deliver(book, order())
        refused = bench.deliver(book, order("order/2"))

        assert (outcome.executed, outcome.acknowledge, outcome.parked) == (True, True, True)
        assert (refused.row, refused.acknowledge, refused.suspend) == (13, False, True)
        assert [parked.uuid for parked in bench.parked_locally()] == [UUID]


def fill_disk(client: Any, folder: Path) -> None:
    """Make the next snapshot fail; a server that is told to care refuses every write from then on."""
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    client.bgsave()
    eventually(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")


class TestLostFence:
    def test_a_late_worker_gives_back_and_records_nothing(self, bench: Bench) -> None:
        def take_over() -> None:
            entry = bench.entry()
            assert entry is not None
            assert drive(bench.store.take_over(NAME, UUID, "successor", None, entry.fence)) is not None

        book = bench.trigger(Effects(meanwhile=take_over))

        outcome = bench.deliver(book, order())

        entry = bench.entry()
        assert entry is not None
        assert (outcome.executed, outcome.acknowledge, outcome.parked) == (True, False, False)
        assert "to successor: its end is not recorded" in outcome.reason
        assert (entry.state, entry.owner) == (State.STARTED, "successor")

    def test_an_end_that_was_forgotten_is_recorded_anew(self, bench: Bench) -> None:
        effects = Effects(meanwhile=lambda: drive(bench.store.forget(NAME, UUID)))
        book = bench.trigger(effects)

        outcome, again = bench.deliver(book, order()), bench.deliver(book, order(delivery_count=2))

        assert outcome.acknowledge
        assert (again.row, again.status) == (8, Status.DUPLICATE)
        assert len(effects.runs) == 1
