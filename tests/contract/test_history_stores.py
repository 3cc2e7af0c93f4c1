"""Every document history against the one conformance suite, blocking and asyncio.

The asyncio form of a store runs the same lines (``history.bridge``). Claims and races are checked through it
every day, and the rest by ``make prove``.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import cast

import psycopg
import pytest

from history import MemoryHistory, RedisHistory, open_history
from history.contract import HistoryContract
from history.contract.amounts import AmountContract
from history.contract.batches import BatchContract
from history.contract.claims import ClaimContract
from history.contract.common import TRIGGER
from history.contract.races import RaceContract
from history.contract.rollback import Restore
from history.sql.statements.dialects import Dialect
from history.sql.tables.script import history_script
from history.store import HistoryStore
from tests.contract.beside.amounts import AmountsBesideContract
from tests.contract.beside.charts import ChartContract
from tests.contract.beside.comments import CommentContract
from tests.contract.beside.control import ControlContract
from tests.contract.beside.decisions import DecisionContract
from tests.contract.beside.filters import FilterContract
from tests.contract.beside.fingerprints import FingerprintContract
from tests.contract.beside.join_periods import JoinPeriodContract
from tests.contract.beside.joining import JoiningContract
from tests.contract.beside.joins import JoinRaceContract
from tests.contract.beside.journal import JournalContract, SecurityLogContract
from tests.contract.beside.parking import ParkingContract
from tests.contract.beside.progress import ProgressContract
from tests.contract.beside.results import ResultContract
from tests.fixtures.backups import backup_of
from tests.fixtures.beside import EntriesOnly
from tests.fixtures.keys import a_key, encrypting, write_keys
from tests.fixtures.servers.postgres import grant_data_rights, limited_role
from tests.fixtures.spoiling import spoil_entry

#: Opens one more client of the store under test.
Opening = Callable[[], HistoryStore]

BLOCKING = ["memory", "redis", "sqlite", "postgres"]
ASYNCIO = ["redis-asyncio", "sqlite-asyncio", "postgres-asyncio"]


@pytest.fixture
def opening(kind: str, request: pytest.FixtureRequest) -> Opening:
    """Return a function that opens a client; all clients of one test see the same entries."""
    server, _, form = kind.partition("-")
    match server:
        case "memory":
            memory = MemoryHistory()
            return lambda: memory
        case "sqlite":
            url = f"sqlite:///{request.getfixturevalue('tmp_path')}/history.sqlite3"
        case _:
            url = request.getfixturevalue(f"{server}_url")
    if form == "asyncio":
        return lambda: open_history(url).for_asyncio()
    return lambda: open_history(url)


class OnServers:
    server: str | None = None

    @pytest.fixture(autouse=True)
    def _remember_the_server(self, kind: str, request: pytest.FixtureRequest) -> None:
        if kind.startswith("sqlite"):
            self.server = f"sqlite:///{request.getfixturevalue('tmp_path')}/history.sqlite3"
        elif kind != "memory":
            self.server = request.getfixturevalue(f"{kind.partition('-')[0]}_url")

    async def snapshot(self, store: HistoryStore) -> Restore | None:  # noqa: ARG002
        if self.server is None:
            return None
        restore = await asyncio.to_thread(backup_of, self.server)
        return lambda: asyncio.to_thread(restore)

    async def spoil_entry(self, store: HistoryStore, uuid: str) -> bool:
        if not isinstance(store, RedisHistory) or self.server is None:
            return False
        await asyncio.to_thread(spoil_entry, self.server, TRIGGER, uuid)
        return True

    @pytest.fixture
    def blocking(self, kind: str) -> bool:
        return not kind.endswith("asyncio")

    def survives_forks(self, store: HistoryStore) -> bool:
        return not isinstance(store, MemoryHistory)

    @pytest.fixture
    async def store(self, opening: Opening) -> AsyncIterator[HistoryStore]:
        store = opening()
        yield store
        await store.close()

    @pytest.fixture
    async def another(self, opening: Opening) -> AsyncIterator[HistoryStore]:
        another = opening()
        yield another
        await another.close()


class TestHistoryStores(OnServers, HistoryContract):
    @pytest.fixture(params=BLOCKING)
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)


class KeptBesideContract(
    ParkingContract,
    DecisionContract,
    JoiningContract,
    JoinPeriodContract,
    ControlContract,
    AmountsBesideContract,
    ChartContract,
    ResultContract,
    CommentContract,
    FilterContract,
    FingerprintContract,
    JoinRaceContract,
    JournalContract,
    SecurityLogContract,
    ProgressContract,
):
    """The contracts of features that are written once, over the records of every store."""


class TestKeptBeside(OnServers, KeptBesideContract):
    @pytest.fixture(params=BLOCKING)
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)


class TestEntriesOnly(AmountContract, BatchContract):
    """A history without records passes: the suite skips the tests that need records."""

    @pytest.fixture
    def blocking(self) -> bool:
        return True

    @pytest.fixture
    def store(self) -> HistoryStore:
        return cast("HistoryStore", EntriesOnly())

    @pytest.fixture
    def another(self, store: HistoryStore) -> HistoryStore:
        return store


class TestHistoryStoresThroughAsyncio(OnServers, ClaimContract, RaceContract):
    @pytest.fixture(params=ASYNCIO)
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)


@pytest.mark.prove
@pytest.mark.slow
class TestEverythingThroughAsyncio(OnServers, HistoryContract, KeptBesideContract):
    @pytest.fixture(params=ASYNCIO)
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)


class TestEncryptedStores(
    OnServers,
    ParkingContract,
    DecisionContract,
    ResultContract,
    CommentContract,
    FilterContract,
    JoiningContract,
):
    """An encrypted store keeps, finds and decides messages in the same way as a plain store."""

    @pytest.fixture(params=["redis-encrypted", "sqlite-encrypted"])
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def opening(self, tmp_path: Path, _remember_the_server: None) -> Opening:
        assert self.server is not None
        url = encrypting(self.server, write_keys(tmp_path / "key", a_key()))
        return lambda: open_history(url)


@pytest.mark.prove
@pytest.mark.slow
class TestDataRightsOnly(OnServers, HistoryContract, KeptBesideContract):
    """The owner has made the tables by the script, and the workers' role may only read and write rows."""

    @pytest.fixture(params=["postgres-limited"])
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def opening(self, postgres_url: str) -> Iterator[Opening]:
        with psycopg.connect(postgres_url, autocommit=True) as owner:
            for statement in history_script(Dialect.POSTGRESQL):
                owner.execute(statement.encode())
        with limited_role(postgres_url) as role:
            grant_data_rights(postgres_url, role)
            yield lambda: open_history(role)
