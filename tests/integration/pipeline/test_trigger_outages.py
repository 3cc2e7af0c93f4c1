"""A trigger loses its process or its history while its service runs, on real servers."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from history import EntryOutcome, ParkedKind, State
from history.bridge import drive
from tests.fixtures.histories import FragileHistory
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import eventually
from tests.integration.helpers.rows import UUID, Bench, Effects, order
from triggers import Status, TransientError
from triggers.events import Cause
from triggers.pipeline.completion import EntryCompletion
from triggers.pipeline.pipeline import MessagePipeline
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
        assert outcome.reason == "FAILED: a fatal error; not parked (row 7)"
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
        uuids = sorted(str(parked.uuid) for parked in fragile.parked_locally())
        assert uuids == [f"order/{n}" for n in range(3)]


class TestRedis:
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
    """Make a snapshot fail. After that, a server with ``stop-writes-on-bgsave-error`` refuses all writes."""
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    client.bgsave()
    eventually(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
