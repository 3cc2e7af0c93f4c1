"""Every document history against the one conformance suite, blocking and asyncio."""

from collections.abc import AsyncIterator, Callable

import pytest

from history.contract import HistoryContract
from history.memory import MemoryHistory
from history.opening import open_history
from history.store import HistoryStore

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
