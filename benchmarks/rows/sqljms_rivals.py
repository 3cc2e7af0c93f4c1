"""procrastinate and PgQueuer, each with a job that does nothing or writes one row."""

import asyncio
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import procrastinate
import psycopg
import psycopg_pool
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import PsycopgDriver

#: How many jobs procrastinate runs at a time, how many PgQueuer fetches, and their connections for rows.
CONCURRENCY, FETCHED, CONNECTIONS = 20, 100, 10

INSERT = "INSERT INTO effects VALUES ('job')"


@dataclass(slots=True)
class _Watch:
    """Notes when jobs were called, until there were enough."""

    wanted: int
    calls: list[float] = field(default_factory=list[float])
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self) -> None:
        self.calls.append(time.perf_counter())
        if len(self.calls) == self.wanted:
            self.done.set()

    def seconds(self) -> float:
        """Return how long one job took."""
        return (self.calls[self.wanted - 1] - self.calls[0]) / (self.wanted - 1)


def _pool(url: str) -> Any:
    return psycopg_pool.AsyncConnectionPool(
        url, min_size=1, max_size=CONNECTIONS, open=False, kwargs={"autocommit": True}
    )


@dataclass(slots=True)
class RivalJobs(ABC):
    """The queue of another library, and its asyncio worker."""

    url: str
    insert: bool
    _installed: bool = False

    def fill(self, count: int) -> None:
        """Queue so many jobs, in batches."""
        asyncio.run(self._fill(count))

    def work(self, count: int) -> float:
        """Run a worker until so many jobs are done; return the seconds for each."""
        return asyncio.run(self._work(count))

    @abstractmethod
    async def _fill(self, count: int) -> None: ...

    @abstractmethod
    async def _work(self, count: int) -> float: ...


@dataclass(slots=True)
class ProcrastinateJobs(RivalJobs):
    """procrastinate, with its asyncio worker."""

    def _app(self) -> Any:
        return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=self.url))

    async def _fill(self, count: int) -> None:
        app = self._app()
        job = app.task(name="job", queue="bench")(_nothing)
        async with app.open_async():
            if not self._installed:
                await app.schema_manager.apply_schema_async()
                self._installed = True
            for _ in range(0, count, 1000):
                await job.batch_defer_async(*[{} for _ in range(min(count, 1000))])

    async def _work(self, count: int) -> float:
        app, watch = self._app(), _Watch(count)

        async def job() -> None:
            if self.insert:
                async with pool.connection() as connection:
                    await connection.execute(INSERT)
            watch.note()

        app.task(name="job", queue="bench")(job)
        async with _pool(self.url) as pool, app.open_async():
            worker = asyncio.create_task(
                app.run_worker_async(
                    queues=["bench"], concurrency=CONCURRENCY, install_signal_handlers=False, wait=True
                )
            )
            await watch.done.wait()
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
        return watch.seconds()


async def _nothing() -> None:
    """Take the job's place where it is deferred."""


@dataclass(slots=True)
class PgQueuerJobs(RivalJobs):
    """PgQueuer, over psycopg."""

    async def _fill(self, count: int) -> None:
        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
            queries = Queries(PsycopgDriver(connection))
            if not self._installed:
                await queries.install()
                self._installed = True
            for _ in range(0, count, 1000):
                some = min(count, 1000)
                await queries.enqueue(["job"] * some, [b'{"n": 1}'] * some, [0] * some)

    async def _work(self, count: int) -> float:
        watch = _Watch(count)
        async with (
            _pool(self.url) as pool,
            await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection,
        ):
            queue = PgQueuer(PsycopgDriver(connection))

            async def job(_: Any) -> None:
                if self.insert:
                    async with pool.connection() as own:
                        await own.execute(INSERT)
                watch.note()
                if watch.done.is_set():
                    queue.shutdown.set()

            queue.entrypoint("job")(job)
            await queue.run(batch_size=FETCHED, dequeue_timeout=timedelta(seconds=1))
        return watch.seconds()
