"""Objects with connections, threads or locks still work after a fork, in the parent and in the children."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine

from history import ConfigurationError, Fence, SqlHistory, Uuid, open_history
from history.bridge import drive
from history.contract.common import TRIGGER, claim_one, found
from history.contract.forks import CHILDREN, DONE, claim_and_complete, ended, fork
from tests.fixtures.histories import with_store
from tests.fixtures.servers.webhook_server import WebhookServer
from tests.fixtures.waiting import PATIENCE, eventually
from tests.unit.helpers.given_up import event
from triggers import ClientQueue, Message, Retry
from triggers.detection.table import HistoryUse
from triggers.events import RetrievalFailureEvent
from triggers.pipeline.finding import Finding
from triggers.pipeline.leases import LeaseKeeper
from triggers.pipeline.run import Run
from triggers.sinks import RedisStreamSink, SqlTableSink, WebhookSink


def _blocking(work: Callable[[], object]) -> Callable[[], Coroutine[Any, Any, None]]:
    async def run() -> None:
        work()

    return run


def run_of(uuid: str, fence: int, owner: str) -> Run:
    return Run(Message(body="", uuid=Uuid(uuid)), Finding(HistoryUse.ON, fence=Fence(fence), owner=owner))


def run_in_children(work: Callable[[int], object]) -> list[int]:
    """Call ``work`` in forked children that run together. Return their process ids."""
    return [fork(_blocking(partial(work, number)), blocking=True) for number in range(CHILDREN)]


def tell_often(sink: Callable[[RetrievalFailureEvent], object]) -> None:
    for _ in range(10):
        sink(event())


def all_done(children: list[int]) -> bool:
    """Wait for the children, and return whether all succeeded."""
    return list(asyncio.run(ended(children))) == [DONE] * len(children)


class TestSqlite:
    def test_what_a_child_commits_outlives_the_parents_last_connection(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path}/history.sqlite3"
        store = open_history(url)
        drive(claim_one(store, "u1", "parent"))
        go, gone = os.pipe(), os.pipe()

        def claim_then_wait() -> None:
            drive(claim_one(store, "u2", "child"))
            os.write(gone[1], b".")
            os.read(go[0], 1)
            drive(claim_one(store, "u3", "child"))

        child = fork(_blocking(claim_then_wait), blocking=True)
        os.read(gone[0], 1)
        drive(claim_one(store, "u4", "parent"))
        drive(store.close())  # the last connection would delete the write-ahead log
        os.write(go[1], b".")

        assert all_done([child])
        entries = with_store(url, lambda store: store.lookup(TRIGGER, ["u1", "u2", "u3", "u4"]))
        assert [entry and entry.owner for entry in entries] == ["parent", "child", "child", "parent"]

    def test_a_fork_waits_for_a_transaction_of_another_thread(self, tmp_path: Path) -> None:
        store = SqlHistory.from_url(f"sqlite:///{tmp_path}/history.sqlite3")
        drive(claim_one(store, "u1", "parent"))
        begun = threading.Event()

        async def write_slowly() -> None:
            async with await store.transaction() as transaction:
                begun.set()
                threading.Event().wait(0.3)
                await claim_one(transaction.history, "u2", "thread")

        thread = threading.Thread(target=lambda: drive(write_slowly()))
        thread.start()
        begun.wait()

        child = fork(partial(claim_and_complete, store, "child"), blocking=True)
        thread.join()

        assert all_done([child])
        drive(claim_and_complete(store, "parent"))
        drive(store.close())

    def test_a_child_of_a_service_in_a_transaction_is_refused_the_file(self, tmp_path: Path) -> None:
        store = SqlHistory.from_url(f"sqlite:///{tmp_path}/history.sqlite3")
        children: list[int] = []

        async def use() -> None:
            with pytest.raises(ConfigurationError, match="forked while its parent had a transaction open"):
                await claim_one(store, "u2", "child")

        async def serve() -> None:
            async with await store.transaction() as transaction:
                await claim_one(transaction.history, "u1", "parent")
                children.append(fork(use, blocking=True))

        drive(serve())

        assert all_done(children)
        drive(claim_and_complete(store, "parent"))
        drive(store.close())

    def test_an_engine_of_ones_own_in_memory_keeps_its_data(self) -> None:
        store = SqlHistory(create_engine("sqlite://"))
        drive(claim_one(store, "u1", "parent"))

        async def look() -> None:
            assert (await store.lookup(TRIGGER, ["u1"]))[0] is not None

        assert all_done([fork(look, blocking=True)])
        assert drive(store.lookup(TRIGGER, ["u1"]))[0] is not None


class TestPostgresql:
    def test_an_engine_of_ones_own_serves_parent_and_children(self, postgres_url: str) -> None:
        engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
        store = SqlHistory(engine)
        drive(claim_one(store, "u1", "parent"))

        children = [
            fork(partial(claim_and_complete, store, f"child-{n}"), blocking=True) for n in range(CHILDREN)
        ]
        drive(claim_and_complete(store, "parent"))

        assert all_done(children)
        engine.dispose()

    def test_a_transaction_of_the_parent_goes_on(self, postgres_url: str) -> None:
        store = SqlHistory.from_url(postgres_url)
        children: list[int] = []

        async def serve() -> None:
            async with await store.transaction() as transaction:
                await claim_one(transaction.history, "u1", "parent")
                children.append(fork(partial(claim_and_complete, store, "child"), blocking=True))
                await ended(children)
                await claim_one(transaction.history, "u2", "parent")

        asyncio.run(serve())

        entries = drive(store.lookup(TRIGGER, ["u1", "u2", "child-0"]))
        drive(store.close())
        assert [entry is not None for entry in entries] == [True, True, True]

    def test_a_child_that_lives_on_does_not_keep_its_dead_parents_transaction_open(
        self, postgres_url: str, postgres_server: str
    ) -> None:
        ready, end = os.pipe(), os.pipe()

        async def lock_and_fork() -> None:
            store = SqlHistory.from_url(postgres_url)
            async with await store.transaction() as transaction:
                await claim_one(transaction.history, "u1", "parent")
                if os.fork() == 0:
                    os.write(ready[1], b".")
                    os.read(end[0], 1)
                    os._exit(0)
                os.read(ready[0], 1)
                os._exit(DONE)  # dies with its transaction open

        assert all_done([fork(lock_and_fork, blocking=True)])
        store = SqlHistory.from_url(postgres_url)
        try:
            with psycopg.connect(postgres_server, autocommit=True) as looking:
                query = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
                eventually(lambda: looking.execute(query).fetchone() == (0,))
            assert drive(claim_one(store, "u1", "another")).found is None
        finally:
            os.write(end[1], b".")
            drive(store.close())


class TestSinks:
    def test_the_webhook_has_connections_of_its_own_in_each_process(self) -> None:
        with WebhookServer() as server:
            handler: Any = server.RequestHandlerClass
            handler.protocol_version = "HTTP/1.1"  # it would keep the connection open
            retry = Retry(max_attempts=0)
            sink = WebhookSink(f"{server.url}/hook", retry=retry, timeout=timedelta(seconds=5))
            sink(event())

            children = run_in_children(lambda _: tell_often(sink))
            for _ in range(10):
                sink(event())

            assert all_done(children)
            assert len(server.posted) == 1 + 10 * (CHILDREN + 1)
            sink.close()

    @pytest.fixture(params=["redis", "sqlite", "postgres"])
    def sink(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., object]]:
        sink: RedisStreamSink | SqlTableSink
        if request.param == "redis":
            sink = RedisStreamSink(request.getfixturevalue("redis_url"))
        elif request.param == "sqlite":
            sink = SqlTableSink(f"sqlite:///{tmp_path}/events.sqlite3")
        else:
            sink = SqlTableSink(request.getfixturevalue("postgres_url"))
        yield sink
        sink.close()

    def test_tables_and_streams_serve_parent_and_children(self, sink: Callable[..., object]) -> None:
        sink(event())

        children = run_in_children(lambda _: tell_often(sink))
        for _ in range(10):
            sink(event())

        assert all_done(children)


class TestThreadsAndFiles:
    def test_a_child_renews_no_lease_of_its_parents(self, tmp_path: Path) -> None:
        store = open_history(f"sqlite:///{tmp_path}/history.sqlite3")
        lease = timedelta(seconds=0.6)
        keeper = LeaseKeeper(TRIGGER, lease, store)
        mine = drive(claim_one(store, "u1", "parent", lease=lease))
        run = run_of("u1", mine.fence, "parent")
        keeper.hold([run], monotonic())

        looking, looked = os.pipe()

        def hold_another() -> None:
            os.close(looked)
            claimed = drive(claim_one(store, "u2", "child", lease=lease))
            keeper.hold([run_of("u2", claimed.fence, "child")], monotonic())
            os.read(looking, 1)  # until the parent has looked

        child = fork(_blocking(hold_another), blocking=True)
        os.close(looking)
        keeper.let_go([run])
        keeper.close()

        try:
            eventually(lambda: drive(store.lookup(TRIGGER, ["u2"]))[0])
            eventually(lambda: not drive(found(store, "u1")).lease_alive)
            eventually(lambda: drive(found(store, "u2")).lease_alive)
        finally:
            os.close(looked)
            assert all_done([child])
            drive(store.close())

    def test_a_queue_on_disk_loses_nothing_of_any_process(self, tmp_path: Path) -> None:
        queue = ClientQueue(tmp_path / "queue", alias="orders")
        queue.put("orders", [Message(body="first")])

        def put(number: int) -> None:
            for _ in range(10):
                queue.put("orders", [Message(body=f"{number}")])

        children = run_in_children(put)
        for _ in range(10):
            queue.put("orders", [Message(body="parent")])
        queue.close()

        assert all_done(children)
        with sqlite3.connect(queue.file) as connection:
            ((count,),) = connection.execute("SELECT COUNT(*) FROM queued")
        connection.close()
        assert count == 1 + 10 * (CHILDREN + 1)
        assert queue.size() == count
        queue.close()

    def test_a_child_drains_a_queue_that_its_parent_was_draining(self, tmp_path: Path) -> None:
        queue = ClientQueue(tmp_path / "queue", alias="orders")
        draining, go_on = threading.Event(), threading.Event()

        def drain() -> None:
            with queue.draining() as mine:
                assert mine
                draining.set()
                go_on.wait()

        def mine() -> bool:
            with queue.draining() as mine:
                return mine

        heard, saying = os.pipe()

        def take_turn() -> None:
            os.write(saying, b"mine" if mine() else b"busy")
            eventually(mine)

        parent = threading.Thread(target=drain)
        parent.start()
        assert draining.wait(PATIENCE)
        child = fork(_blocking(take_turn), blocking=True)

        try:
            assert os.read(heard, 4) == b"busy", "the parent has the lock, also after the child has closed it"
            assert not mine()
        finally:
            go_on.set()
            parent.join()
            for end in (heard, saying):
                os.close(end)
            assert all_done([child])
            queue.close()
