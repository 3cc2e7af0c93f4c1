"""Open connections to a PostgreSQL that does not write any more, where new ones lead to one that does."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import psycopg
import pytest

from history import HistoryUnavailableError, SqlHistory
from history.bridge import drive
from history.contract.common import TRIGGER, claim_one
from triggers.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.usefixtures("private_postgres")


@contextmanager
def read_only(server: PostgresServer) -> Generator[None]:
    """Let every session that begins meanwhile be as on a standby: it reads, and refuses to write."""
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
