"""The time of each dashboard page with 100,000 parked messages, with and without a count in progress.

Then the costs of each page while nothing is counted: processor time, and statements.

``python -m benchmarks.dashboard [STORE ...] [--parked COUNT] [--entries COUNT]``: on a SQLite file, and on
private servers of Redis and PostgreSQL. Their history also remembers five million messages.
"""

import argparse
import asyncio
import re
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import psycopg

from benchmarks import filling
from benchmarks.costs import Cost, Meter, of_redis, of_sql
from history import open_history
from history.beside.charts import ChartStep
from history.beside.kept import KeepsBeside, needed_beside
from history.bridge import drive
from history.message import Message
from history.store import CLAIM_BATCH
from history.store.control import Counts
from history.store.parking import Evidence, Parked, ParkedKind
from triggers.consumer.loaded import keep_what_is_loaded
from triggers.dashboard import Access, Role, Token, create_app
from triggers.dashboard.operations import Operations
from triggers.dashboard.pulse import FRESH
from triggers.dashboard.rendering import load_templates
from triggers.testing.postgres_server import PostgresServer
from triggers.testing.redis_server import RedisServer

#: The number of parked messages, and of remembered entries.
PARKED, ENTRIES = 100_000, 5_000_000

STORES = ("SQLite", "Redis", "PostgreSQL")

#: The triggers of the messages.
TRIGGERS = 3

#: The longest time that a page may take, in seconds.
LONGEST = 0.3

#: How many messages one call parks.
PIECE = 2_000

#: The number of different errors of given-up messages, and of different hosts of the other messages.
ERRORS, HOSTS = 300, 40

#: Pages are opened one after the other for so many seconds.
SECONDS = 15.0

#: The costs of a page are measured so many times.
TIMES = 8

ALWAYS = (
    *("/", "/parked", "/triggers", "/trigger?name=book-1", "/decisions", "/story?uuid=order-1"),
    *("/failures", "/providers", "/spark", "/metrics"),
    f"/message?trigger=book-1&id={1:024x}",
)
OF_A_GROUP = ("/group?key={}", "/group?key={}&page=50", "/decide?key={}&decision=done&all=yes")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs="*", metavar="STORE", help=f"of {', '.join(STORES)}; by default all")
    parser.add_argument("--parked", type=int, default=PARKED, metavar="COUNT")
    parser.add_argument("--entries", type=int, default=ENTRIES, metavar="COUNT")
    given = parser.parse_args()
    for title in given.stores or STORES:
        with tempfile.TemporaryDirectory() as name, served(title, Path(name)) as (url, meter):
            prepare(title, url, given.parked, given.entries)
            asyncio.run(measure(title, url, meter, given.parked))


@contextmanager
def served(title: str, folder: Path) -> Generator[tuple[str, Meter]]:
    """Yield the URL of an empty history, which exists until the block ends, and a meter of its costs."""
    with ExitStack() as stack:
        match title:
            case "SQLite":
                yield f"sqlite:///{folder}/history.db", Meter(stack.enter_context(of_sql()))
            case "Redis":
                server = stack.enter_context(RedisServer(folder))
                yield server.url, Meter(of_redis(server.url), server.pid)
            case "PostgreSQL":
                folder.chmod(0o755)  # the server runs as another user
                postgres = stack.enter_context(PostgresServer(folder))
                yield postgres.url, Meter(stack.enter_context(of_sql()), postgres.pid)
            case _:
                raise SystemExit(f"{title} is none of {', '.join(STORES)}")


def prepare(title: str, url: str, count: int, entries: int) -> None:
    """Fill a history."""
    store, began = open_history(url), time.perf_counter()
    remember(url, store, entries)
    fill(store, count)
    draw(store)
    drive(store.close())
    print(f"{title}: filled in {time.perf_counter() - began:.0f} s", flush=True)


async def measure(title: str, url: str, meter: Meter, count: int) -> None:
    """Open each page again and again, and print its durations and costs."""
    store = open_history(url)
    token = Token.drawn("somebody", Role.ADMIN)
    app = create_app(url, access=Access(tokens=[token]), store=store)
    operations: Operations = app.state.operations
    load_templates()
    keep_what_is_loaded()
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as browser:
        await browser.post("/sign-in", data={"token": token.secret})
        began, counting = time.perf_counter(), dict[str, list[float]]()
        while operations.surveyor.latest().made_at is None:
            await opened(browser, ALWAYS, counting)
        took = time.perf_counter() - began
        print(f"{title}: {count:,} counted in {took:.1f} s; meanwhile, median, 95 of 100 and worst in ms:")
        show(counting)
        found = re.search(r"key=(\w+)", (await browser.get("/parked")).text)
        assert found is not None
        pages, worst = [*ALWAYS, *(path.format(found[1]) for path in OF_A_GROUP)], dict[str, list[float]]()
        ends = time.perf_counter() + SECONDS
        while time.perf_counter() < ends:
            await opened(browser, pages, worst)
            await asyncio.sleep(0.2)
        print(f"{title}: {SECONDS:.0f} s, while they are counted again:")
        show(worst)
        await until_counted(operations)
        print(f"{title}: what a page costs: processor time here and in the server in ms, and statements:")
        await costs(browser, pages, meter)
    operations.close()
    drive(store.close())


async def opened(browser: httpx.AsyncClient, paths: Sequence[str], times: dict[str, list[float]]) -> None:
    """Open each page once, and note its duration."""
    for path in paths:
        began = time.perf_counter()
        answer = await browser.get(path)
        assert answer.is_success, answer.text
        times.setdefault(path, []).append(time.perf_counter() - began)


def show(times: dict[str, list[float]]) -> None:
    """Print the median, the time of 95 of 100 requests, and the longest time of each page, in ms."""
    for path, found in sorted(times.items(), key=lambda item: -max(item[1])):
        most = sorted(found)[round(0.95 * (len(found) - 1))]
        numbers = (statistics.median(found), most, max(found))
        mark = "*" if most > LONGEST else " "
        print(f" {mark}", *(f"{number * 1000:6.0f}" for number in numbers), f" {path}", flush=True)


async def until_counted(operations: Operations) -> None:
    """Wait until a count of the parked messages has just ended, so that no count runs for a while."""
    before = operations.surveyor.latest().made_at
    while operations.surveyor.latest().made_at == before:  # noqa: ASYNC110  (a thread counts)
        await asyncio.sleep(0.1)


async def costs(browser: httpx.AsyncClient, paths: Sequence[str], meter: Meter) -> None:
    """Open each page several times, each time after a pause, and print its mean cost."""
    for path in paths:
        spent = Cost()
        for _ in range(TIMES):
            await asyncio.sleep(FRESH)
            before = meter.read()
            await browser.get(path)
            spent += meter.since(before)
        numbers = [f"{1000 * seconds / TIMES:6.1f}" for seconds in (spent.here, spent.server)]
        print("  ", *numbers, f"{spent.statements / TIMES:6.1f}", f" {path}", flush=True)


def remember(url: str, store: KeepsBeside, entries: int) -> None:
    """Fill the history with completed messages of the triggers that the pages are about.

    A SQL database makes them itself, with one statement for each trigger.
    """
    claim_and_complete(store, 0, min(entries, CLAIM_BATCH * TRIGGERS))
    more = max(0, entries // TRIGGERS - CLAIM_BATCH)
    if url.startswith("redis"):
        claim_and_complete(store, CLAIM_BATCH * TRIGGERS, entries)
    elif url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database, database:
            for number in range(TRIGGERS):
                database.execute(IN_SQLITE, {"trigger": f"book-{number}", "count": more})
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            for number in range(TRIGGERS):
                connection.execute(IN_POSTGRESQL, {"trigger": f"book-{number}", "count": more})
            connection.execute("VACUUM ANALYZE doubtless_history")


#: The columns of a completed entry.
_ENTRY = """
    INSERT INTO doubtless_history (trigger_name, digest, state, outcome, owner, fence, started_at, expires_at)
"""

IN_SQLITE = f"""
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
    {_ENTRY} SELECT :trigger, digest, 'completed', 'ok', 'benchmark', 1, at, at + 604800000
    FROM (SELECT randomblob(16) AS digest, 1000 * unixepoch() AS at FROM numbers)
    ORDER BY digest
"""  # noqa: S608  (no value in it comes from outside)

IN_POSTGRESQL = f"""
    {_ENTRY} SELECT %(trigger)s, digest, 'completed', 'ok', 'benchmark', 1, at, at + 604800000
    FROM (SELECT uuid_send(gen_random_uuid()) AS digest,
        CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) AS at
        FROM generate_series(1, CAST(%(count)s AS INTEGER))) AS made
    ORDER BY digest
"""  # noqa: S608  (as above)


def claim_and_complete(store: KeepsBeside, first: int, last: int) -> None:
    """Claim and complete messages."""
    for start in range(first, last, CLAIM_BATCH):
        name = f"book-{start // CLAIM_BATCH % TRIGGERS}"
        filling.remember(
            store, name, [f"booked-{number}" for number in range(start, min(last, start + CLAIM_BATCH))]
        )


def draw(store: KeepsBeside) -> None:
    """Add a step of the triggers' consumers to the charts for each minute of a day."""
    charts, now = needed_beside(store, "history", "charts").charts, datetime.now(UTC)
    for number in range(TRIGGERS):
        for ago in range(24 * 60, -1, -1):
            at, new = now - timedelta(minutes=ago), 3000 * (2000 - ago)
            counts = Counts(new=new, duplicate=new // 30, runs=new, microseconds=new * 30_000)
            drive(charts.add(f"book-{number}", at, partial(_step, ChartStep(at, counts, PARKED // TRIGGERS))))


async def _step(step: ChartStep) -> ChartStep:
    return step


def fill(store: KeepsBeside, count: int) -> None:
    """Park messages of a few triggers: half In Doubt, half given up, each with its own reason."""
    now = datetime.now(UTC)
    for start in range(0, count, PIECE):
        numbers = range(start, min(count, start + PIECE))
        drive(store.parking.park([parked(number, now - timedelta(seconds=number)) for number in numbers]))


def parked(number: int, at: datetime) -> Parked:
    """Return one parked message with a unique reason."""
    uuid = f"order-{number}"
    known: dict[str, object] = {
        "id": f"{number:024x}",
        "trigger_name": f"book-{number % TRIGGERS}",
        "uuid": uuid,
        "destination": "orders",
        "message": Message(body={"id": uuid, "text": "x" * 300}, uuid=uuid),
        "evidence": Evidence(owner=f"host-{number % HOSTS}:1:2", fence=number + 1, started_at=at),
        "parked_at": at,
    }
    return Parked.model_validate(known | (given_up(number) if number // TRIGGERS % 2 else in_doubt(number)))


def in_doubt(number: int) -> dict[str, object]:
    """Return the reason of a message In Doubt: its resolver names the customer in letters."""
    customer = str(number).translate(str.maketrans("0123456789", "aeioulmnrs"))
    words = "the resolver says IN_DOUBT; kept for you to decide; resolver: the ledger has no"
    reason = f"an earlier run started and never finished; {words} booking of {customer} yet (row 11)"
    return {"kind": ParkedKind.IN_DOUBT, "reason": reason}


def given_up(number: int) -> dict[str, object]:
    """Return why a message was given up: its reason has a token and a number."""
    words = f"its end could not be written: no answer to request {number} of host-1:42:{number:x}"
    return {
        "kind": ParkedKind.REJECTED,
        "reason": f"it was not seen before; the service failed for good; {words} (row 7)",
        "error_class": f"shop.Problem{number % ERRORS}Error",
        "error_message": f"no customer {number}",
    }


if __name__ == "__main__":
    main()
