"""A connection that dies between being made and being looked at, for an atomic trigger."""

import psycopg
import pytest
from psycopg import Connection
from sqlalchemy import create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from history import HistoryUnavailableError, SqlHistory
from history.bridge import drive
from history.contract.common import TRIGGER


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
