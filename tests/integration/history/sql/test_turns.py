"""If all connections of a pool are in use, threads and tasks get one in the order in which they asked."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread

import pytest
from sqlalchemy import Pool, QueuePool
from sqlalchemy.pool import ConnectionPoolEntry

from history import Fence, SqlHistory
from history.bridge import drive
from history.sql.database.turns import ConnectionQueue
from tests.fixtures.threads import in_threads
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.history.sql.sql_worker import TRIGGER, opened

#: So many workers share one connection, and each uses it so often. The busiest worker may use it at most MOST
#: times until then. Without turns, one worker would use it a thousand times while the others still wait.
WORKERS, USES, MOST = 4, 50, 500


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlHistory]:
    """A history with one connection."""
    url = f"sqlite:///{tmp_path}/history.sqlite3"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url") + "&connections=1"
    with opened(url) as store:
        drive(store.check())
        yield store


class Uses:
    """How often each worker has used the connection."""

    def __init__(self) -> None:
        self.counts = [0] * WORKERS

    @property
    def over(self) -> bool:
        """Whether everybody had enough turns, or somebody far too many."""
        return min(self.counts) >= USES or max(self.counts) >= MOST


async def work(store: SqlHistory, uses: Uses, me: int) -> None:
    while not uses.over:
        uuid = f"{me}-{uses.counts[me]}"
        (claim,) = await store.claim(TRIGGER, [uuid], "worker")
        assert await store.complete(TRIGGER, uuid, Fence(claim.fence))
        uses.counts[me] += 1


def test_threads_take_turns(store: SqlHistory) -> None:
    uses, together = Uses(), Barrier(WORKERS)

    def run(me: int) -> None:
        together.wait()
        drive(work(store, uses, me))

    in_threads(run, range(WORKERS))

    assert max(uses.counts) < MOST, uses.counts


def test_tasks_take_turns(store: SqlHistory) -> None:
    async def run() -> Uses:
        view, uses = store.for_asyncio(), Uses()
        await asyncio.gather(*[work(view, uses, me) for me in range(WORKERS)])
        await view.close()
        return uses

    uses = asyncio.run(run())

    assert max(uses.counts) < MOST, uses.counts


@pytest.fixture
def kept_looking(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a waiting worker found a lost connection, each time it looked."""
    looks: list[bool] = []
    look = ConnectionQueue.has_lost

    def noting(line: ConnectionQueue, pool: QueuePool) -> bool:
        looks.append(look(line, pool))
        return looks[-1]

    monkeypatch.setattr(ConnectionQueue, "has_lost", noting)
    return looks


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it was never closed
def test_a_connection_that_a_signal_took_from_the_pool_is_replaced(
    store: SqlHistory, monkeypatch: pytest.MonkeyPatch, kept_looking: list[bool]
) -> None:
    def cut_off(_pool: Pool, _record: ConnectionPoolEntry) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Pool, "_return_conn", cut_off)
        with pytest.raises(KeyboardInterrupt):
            drive(store.lookup(TRIGGER, ["u1"]))

    claiming = Thread(target=drive, args=(store.claim(TRIGGER, ["u1"], "worker"),), daemon=True)
    claiming.start()
    claiming.join(PATIENCE)

    assert not claiming.is_alive(), "it waits for a connection that nobody has"
    assert kept_looking == [True]
    known, unknown = drive(store.lookup(TRIGGER, ["u1", "u2"]))
    assert known is not None
    assert unknown is None


def test_those_who_wait_for_a_connection_that_is_held_keep_the_pool(
    store: SqlHistory, kept_looking: list[bool]
) -> None:
    async def hold() -> None:
        async with await store.transaction():
            claiming.start()
            eventually(lambda: kept_looking)

    claiming = Thread(target=drive, args=(store.claim(TRIGGER, ["u1"], "worker"),), daemon=True)
    drive(hold())
    claiming.join(PATIENCE)

    assert not claiming.is_alive()
    assert set(kept_looking) == {False}


def test_counting_very_many_leaves_others_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("history.sql.entries.counting.COUNTED", 3)
    with opened(f"sqlite:///{tmp_path}/history.sqlite3") as store:
        drive(store.claim(TRIGGER, [f"u{n}" for n in range(3_000)], "worker"))
        looked, counting = 0, Thread(target=drive, args=(store.stats(TRIGGER),))
        counting.start()
        while counting.is_alive():
            drive(store.lookup(TRIGGER, ["u1"]))
            looked += 1

    # Two statements a piece, and a thousand pieces.
    assert looked > 200, "one that counts kept the connection to itself"
