"""Every document history against the one conformance suite, blocking and asyncio."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from history.contract import HistoryContract
from history.contract.rollback import Restore
from history.memory import MemoryHistory
from history.opening import open_history
from history.store import HistoryStore
from tests.fixtures.backups import backup_of

#: Opens one more client of the store under test.
Opening = Callable[[], HistoryStore]

KINDS = ["memory", "redis", "redis-asyncio", "sqlite", "sqlite-asyncio", "postgres", "postgres-asyncio"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def opening(kind: str, request: pytest.FixtureRequest) -> Opening:
    """Return what opens a client; each client of one test meets the same entries."""
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


class TestHistoryStores(HistoryContract):
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
