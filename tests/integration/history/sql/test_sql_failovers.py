"""Connections die or become read-only, and a standby is missing the last commits of its primary."""

import logging
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import psycopg
import pytest
from psycopg import Connection
from sqlalchemy import create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from history import HistoryUnavailableError, SqlHistory
from history.bridge import drive
from history.contract.common import TRIGGER, claim_one
from tests.fixtures.servers.postgres_pair import Pair
from triggers.testing.postgres_server import PostgresServer


@contextmanager
def read_only(server: PostgresServer) -> Generator[None]:
    """Inside the block, new sessions can read but not write, as on a standby."""
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
        yield
        admin.execute("ALTER DATABASE postgres RESET default_transaction_read_only")


@pytest.mark.parametrize("is_asyncio", [False, True])
async def test_a_history_leaves_what_does_not_write_any_more(
    private_postgres: PostgresServer, *, is_asyncio: bool
) -> None:
    history = SqlHistory.from_url(private_postgres.url)
    await history.check()
    await history.close()
    history = history.for_asyncio() if is_asyncio else history
    with read_only(private_postgres):
        await history.lookup(TRIGGER, ["u1"])
        with pytest.raises(HistoryUnavailableError):
            await claim_one(history, "u1", "worker-1")
        await history.lookup(TRIGGER, ["u1"])

    claimed = await claim_one(history, "u1", "worker-1")

    assert claimed.found is None
    assert await history.complete(TRIGGER, "u1", claimed.fence)
    await history.close()


def test_all_that_is_in_the_pool_is_left_at_once(private_postgres: PostgresServer) -> None:
    history = SqlHistory.from_url(private_postgres.url)
    drive(history.check())
    drive(history.close())
    at_once = Barrier(4)

    def look(_: int) -> None:
        at_once.wait()
        drive(history.lookup(TRIGGER, [f"u{n}" for n in range(500)]))

    with read_only(private_postgres), ThreadPoolExecutor(4) as threads:
        list(threads.map(look, range(4)))

    for n in range(20):
        (claim,) = drive(history.claim(TRIGGER, [f"u{n}"], "worker-1"))
        assert claim.found is None
    drive(history.close())


#: More than the fences that PostgreSQL logs ahead.
MANY = 100


@pytest.mark.parametrize("client", ["new", "old"])
def test_no_fence_is_granted_again_after_a_promotion(
    postgres_pair: Pair, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqlHistory.from_url(postgres_pair.url)
    (kept,) = drive(store.claim(TRIGGER, ["kept"], "worker"))
    assert drive(store.complete(TRIGGER, "kept", kept.fence))
    postgres_pair.copy()
    lost = drive(store.claim(TRIGGER, [f"lost-{n}" for n in range(MANY)], "worker"))
    postgres_pair.fail_over()
    if client == "new":
        drive(store.close())
        store = SqlHistory.from_url(postgres_pair.url)

    with caplog.at_level(logging.WARNING):
        claims = drive(store.claim(TRIGGER, ["lost-1", "kept"], "worker-2"))

    assert [claim.found is None for claim in claims] == [True, False]
    assert claims[0].fence > max(claim.fence for claim in lost)
    assert "on another server than before" in caplog.text
    drive(store.close())


def test_a_server_that_only_restarts_is_the_same(
    private_postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    def fence(uuid: str) -> int:
        store = SqlHistory.from_url(private_postgres.url)
        (claim,) = drive(store.claim(TRIGGER, [uuid], "worker"))
        drive(store.close())
        return claim.fence

    first = fence("u1")
    private_postgres.restart()

    with caplog.at_level(logging.WARNING):
        assert fence("u2") == first + 1
    assert "another server" not in caplog.text


async def _complete(store: SqlHistory, uuid: str) -> bool:
    async with await store.transaction() as transaction:
        (claim,) = await transaction.history.claim(TRIGGER, [uuid], "worker")
        return await transaction.history.complete(TRIGGER, uuid, claim.fence)


def test_a_connection_that_dies_as_it_is_greeted_is_an_outage_and_no_other_error(postgres_url: str) -> None:
    engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    store = SqlHistory(engine, circuit=False)
    assert drive(_complete(store, "u1"))
    engine.dispose()
    deaths = 0

    @event.listens_for(engine, "checkout")
    def die(_dbapi: DBAPIConnection, record: ConnectionPoolEntry, _proxy: object) -> None:
        nonlocal deaths
        driver = record.driver_connection
        assert isinstance(driver, Connection)
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s, 60000)", [driver.info.backend_pid])
        deaths += 1

    with pytest.raises(HistoryUnavailableError):
        drive(_complete(store, "u2"))
    event.remove(engine, "checkout", die)

    assert deaths == 1
    assert drive(_complete(store, "u3"))
    engine.dispose()
