"""How long each page of the dashboard takes with 100,000 parked messages, also while they are counted.

``python -m benchmarks.dashboard [COUNT [ENTRIES]]``: on a SQLite file and on a Redis server of its own, whose
history remembers a million messages besides.
"""

import asyncio
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from history import HistoryStore, open_history
from history.bridge import drive
from history.entry import EntryOutcome, Settlement
from history.message import Message, Uuid
from history.store import CLAIM_BATCH
from history.store.parking import Evidence, Parked, ParkedKind
from triggers.dashboard import Access, Role, Token, create_app
from triggers.dashboard.command import keep_what_is_loaded
from triggers.dashboard.operations import Operations
from triggers.testing.redis_server import RedisServer

#: How many messages are parked, and how many are remembered.
USUAL = (100_000, 1_000_000)

#: How many messages one call parks.
PIECE = 2_000

#: How many errors those have that were given up, and on how many hosts workers had begun the others.
ERRORS, HOSTS = 300, 40

#: For how long pages are opened, one after the other, in seconds.
SECONDS = 15.0

ALWAYS = (
    *("/", "/parked", "/triggers", "/trigger?name=book-1", "/decisions", "/story?uuid=order-1"),
    *("/failures", "/providers", "/spark", "/metrics"),
    f"/message?trigger=book-1&id={1:024x}",
)
OF_A_GROUP = ("/group?key={}", "/group?key={}&page=50", "/decide?key={}&decision=done&all=yes")


def main() -> None:
    """Measure and print."""
    given = [int(word) for word in sys.argv[1:]]
    count, entries = (*given, *USUAL[len(given) :])
    with tempfile.TemporaryDirectory() as name:
        for title, url in urls(Path(name)):
            asyncio.run(measure(title, url, count, entries))


def urls(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield a SQLite file, and a Redis server for as long as it is used."""
    yield "SQLite", f"sqlite:///{folder}/history.db"
    with RedisServer(folder) as server:
        yield "Redis", server.url


async def measure(title: str, url: str, count: int, entries: int) -> None:
    """Open each page again and again, and print how long it took."""
    store = open_history(url)
    remember(store, entries)
    fill(store, count)
    token = Token.drawn("somebody", Role.ADMIN)
    app = create_app(url, access=Access(tokens=[token]), store=store)
    operations: Operations = app.state.operations
    keep_what_is_loaded()
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as browser:
        await browser.post("/sign-in", data={"token": token.secret})
        began, counting = time.perf_counter(), dict[str, list[float]]()
        while operations.surveyor.latest().made_at is None:
            await opened(browser, ALWAYS, counting)
        took = time.perf_counter() - began
        print(f"{title}: {count:,} counted in {took:.1f} s; meanwhile, median and worst in ms:")
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
    operations.close()
    drive(store.close())


async def opened(browser: httpx.AsyncClient, paths: Sequence[str], times: dict[str, list[float]]) -> None:
    """Open each page once, and note how long that took."""
    for path in paths:
        began = time.perf_counter()
        answer = await browser.get(path)
        assert answer.is_success, answer.text
        times.setdefault(path, []).append(time.perf_counter() - began)


def show(times: dict[str, list[float]]) -> None:
    """Print the median and the longest time of each page."""
    for path, all_times in sorted(times.items(), key=lambda item: -max(item[1])):
        print(f"  {statistics.median(all_times) * 1000:6.0f} {max(all_times) * 1000:6.0f}  {path}")


def remember(store: HistoryStore, entries: int) -> None:
    """Claim and complete messages of the triggers that the pages are about."""
    for start in range(0, entries, CLAIM_BATCH):
        name = f"book-{start // CLAIM_BATCH % 3}"
        uuids = [f"booked-{number}" for number in range(start, start + CLAIM_BATCH)]
        claims = drive(store.claim(name, uuids, "benchmark"))
        ends = [
            Settlement(Uuid(uuid), claim.fence, EntryOutcome.OK)
            for uuid, claim in zip(uuids, claims, strict=True)
        ]
        drive(store.settle(name, ends))


def fill(store: HistoryStore, count: int) -> None:
    """Park messages of a few triggers; half In Doubt, half given up, each for its own reason."""
    now = datetime.now(UTC)
    for start in range(0, count, PIECE):
        numbers = range(start, min(count, start + PIECE))
        drive(store.parking.park([parked(number, now - timedelta(seconds=number)) for number in numbers]))


def parked(number: int, at: datetime) -> Parked:
    """Return one parked message, with a reason that no other one has."""
    uuid = f"order-{number}"
    known: dict[str, object] = {
        "id": f"{number:024x}",
        "trigger_name": f"book-{number % 3}",
        "uuid": uuid,
        "destination": "orders",
        "message": Message(body={"id": uuid, "text": "x" * 300}, uuid=uuid),
        "evidence": Evidence(owner=f"host-{number % HOSTS}:1:2", fence=number + 1, started_at=at),
        "parked_at": at,
    }
    return Parked.model_validate(known | (given_up(number) if number // 3 % 2 else in_doubt(number)))


def in_doubt(number: int) -> dict[str, object]:
    """Return why a message is In Doubt: its resolver names the customer, in letters."""
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
