"""PostgreSQL stops answering, but keeps its connections. The history gives it up, and finds it again."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import Engine, create_engine, text

from history import ConfigurationError, EntryOutcome, HistoryUnavailableError, Message, SqlHistory
from history.bridge import drive
from history.contract.common import TRIGGER, claim_one
from history.sql.database.engine import open_engine
from tests.fixtures.histories import wait_for_circuits
from tests.fixtures.network import Network, NetworkBefore
from tests.fixtures.waiting import eventually
from triggers.providers import Arrival, ProviderUnavailableError
from triggers.providers.sqljms.provider import SqlJms

#: Short, for a test. If a reply takes longer, a thread asks whether the server still answers.
IMPATIENT = "&reply_timeout=0.3"


@pytest.fixture
def network(postgres_url: str, network_before: NetworkBefore) -> Network:
    return network_before(postgres_url)


class TestASilentServer:
    @pytest.mark.parametrize("is_asyncio", [False, True])
    async def test_a_history_gives_it_up_and_finds_it_again(
        self, postgres_url: str, network: Network, *, is_asyncio: bool
    ) -> None:
        store = SqlHistory.from_url(network.url(postgres_url) + IMPATIENT)
        store = store.for_asyncio() if is_asyncio else store
        first = await claim_one(store, "u1", "worker-1")
        network.swallow()

        with pytest.raises(HistoryUnavailableError):
            await store.complete(TRIGGER, "u1", first.fence)
        with pytest.raises(HistoryUnavailableError, match="the circuit is open"):
            await store.lookup(TRIGGER, ["u1"])

        network.flow()
        await asyncio.to_thread(wait_for_circuits)
        assert await store.complete(TRIGGER, "u1", first.fence)
        (entry,) = await store.lookup(TRIGGER, ["u1"])
        assert entry is not None
        assert entry.outcome is EntryOutcome.OK
        await store.close()

    @pytest.mark.parametrize("is_asyncio", [False, True])
    async def test_sql_jms_gives_it_up_and_goes_on(
        self, postgres_url: str, network: Network, *, is_asyncio: bool
    ) -> None:
        url = network.url(postgres_url) + IMPATIENT
        provider = SqlJms.from_url(url, asyncio=is_asyncio)
        receiver = await provider.open_receiver("queue://orders", subscription="book", name="one")
        network.swallow()

        with pytest.raises(ProviderUnavailableError):
            await receiver.receive(1, timedelta())
        with pytest.raises(ProviderUnavailableError):
            await provider.send("queue://orders", [Message(uuid="u1", body="")])

        network.flow()
        await provider.send("queue://orders", [Message(uuid="u2", body="")])
        received = await receiver.receive(9, timedelta())
        uuids = [one.message.uuid for one in received if isinstance(one, Arrival)]
        assert uuids[-1:] == ["u2"]
        await receiver.acknowledge(received)
        await receiver.close()
        await provider.close()

    def test_a_reply_that_is_only_late_is_waited_for(self, postgres_url: str) -> None:
        store = SqlHistory.from_url(postgres_url + IMPATIENT)
        drive(store.check())
        engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
        with ThreadPoolExecutor(1) as threads, engine.connect() as holder:
            holder.execute(text("LOCK TABLE doubtless_history IN ACCESS EXCLUSIVE MODE"))
            waiting = threads.submit(drive, claim_one(store, "u1", "worker-1"))
            eventually(_asks)
            holder.rollback()

            assert waiting.result().found is None
        eventually(lambda: not _asks())  # its connection is closed
        drive(store.close())
        engine.dispose()


def _asks() -> bool:
    """Whether a thread asks whether the server still answers."""
    return any(thread.name == "doubtless-silence" for thread in threading.enumerate())


@pytest.mark.parametrize(
    "option", ["reply_timeout=soon", "reply_timeout=-1", "connections=0", "connections=many"]
)
def test_an_option_that_cannot_be_used_is_named(option: str) -> None:
    with pytest.raises(ConfigurationError, match=option.partition("=")[0]):
        SqlHistory.from_url(f"postgresql://host/database?{option}")


def test_time_outs_of_the_server_are_set_by_the_url(postgres_url: str) -> None:
    engine = open_engine(f"{postgres_url}&lock_timeout=50&statement_timeout=20s", asyncio=False)
    assert isinstance(engine, Engine)

    with engine.connect() as connection:
        names = ("lock_timeout", "statement_timeout", "client_connection_check_interval")
        seen = [connection.execute(text(f"SHOW {name}")).scalar() for name in names]

    assert seen == ["50ms", "20s", "10s"]
    engine.dispose()
