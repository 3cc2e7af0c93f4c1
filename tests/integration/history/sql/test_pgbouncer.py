"""The history and SQL-JMS behind a real PgBouncer in transaction mode."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy import Connection, text

from history import ConfigurationError, SqlHistory, open_history
from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.contract.claims import ClaimContract
from history.message import Message as HistoryMessage
from triggers import Message, Status, trigger
from triggers.providers import Arrival
from triggers.providers.sqljms.provider import SqlJms


class TestTheHistory(ClaimContract):
    @pytest.fixture(params=[True, False])
    def blocking(self, request: pytest.FixtureRequest) -> bool:
        return bool(request.param)

    @pytest.fixture
    async def store(self, pgbouncer_url: str, *, blocking: bool) -> AsyncIterator[KeepsBeside]:
        store = open_history(pgbouncer_url)
        store = store if blocking else store.for_asyncio()
        yield store
        await store.close()

    @pytest.fixture
    async def another(self, pgbouncer_url: str, *, blocking: bool) -> AsyncIterator[KeepsBeside]:
        another = open_history(pgbouncer_url)
        another = another if blocking else another.for_asyncio()
        yield another
        await another.close()


def test_statements_that_are_repeated_are_not_prepared(pgbouncer_url: str) -> None:
    stores = [SqlHistory.from_url(pgbouncer_url) for _ in range(2)]

    for n in range(30):
        store = stores[n % 2]  # on the backend where the other client would have prepared the same statement
        (claim,) = drive(store.claim("book", [f"u{n}"], f"worker-{n}"))
        assert drive(store.complete("book", f"u{n}", claim.fence))

    assert drive(stores[0].stats("book")).completed == 30
    for store in stores:
        drive(store.close())


def test_an_atomic_trigger_runs_behind_it(pgbouncer_url: str) -> None:
    def book(message: Message, connection: Connection) -> None:
        connection.execute(text("CREATE TABLE IF NOT EXISTS booked (uuid TEXT)"))
        connection.execute(text("INSERT INTO booked VALUES (:uuid)"), {"uuid": message.uuid})

    one = trigger("orders", name="book", history=pgbouncer_url, transacted=True)(book)

    outcomes = [one.handle(Message(uuid=f"u{n // 2}", body="")) for n in range(20)]

    assert [outcome.status for outcome in outcomes] == [Status.NEW, Status.DUPLICATE] * 10
    one.close()


@pytest.mark.parametrize("is_asyncio", [False, True])
async def test_sql_jms_delivers_behind_it(pgbouncer_url: str, *, is_asyncio: bool) -> None:
    provider = SqlJms.from_url(f"{pgbouncer_url}?poll_interval=0.05", asyncio=is_asyncio)
    receiver = await provider.open_receiver("queue://orders", subscription="book", name="one")

    seen: list[object] = []
    for n in range(10):
        await provider.send("queue://orders", [HistoryMessage(uuid=f"u{n}", body=n)])
        for received in await receiver.receive(1, timedelta(seconds=30)):
            assert isinstance(received, Arrival)
            seen.append(received.message.uuid)
            await receiver.acknowledge([received])

    assert seen == [f"u{n}" for n in range(10)]
    await receiver.close()
    await provider.close()


@pytest.mark.parametrize("query", ["options=-csearch_path%3Dshop", "statement_timeout=5s"])
def test_what_a_pooler_does_not_keep_is_refused_with_the_remedy(pgbouncer_url: str, query: str) -> None:
    store = SqlHistory.from_url(f"{pgbouncer_url}?{query}")

    with pytest.raises(ConfigurationError, match="ALTER ROLE"):
        drive(store.lookup("book", ["u1"]))
    drive(store.close())
