"""The longest command on a Redis history with a week of one batch per second in its ledger.

``python -m benchmarks.ledger_week``. The batches are written by a script, some of them over. Then real
batches claim, settle and tidy up, and everything that walks through the ledger does. Redis's slow log tells
what each command took. Exit code 1: the ledger did not shrink to what is alive.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha1
from typing import Any, cast

import redis
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.servers import private_redis
from history.bridge import drive
from history.entry import EntryOutcome
from history.opening import open_history
from history.redis.assembly import assembled, script_names
from history.store import BatchOwner, HistoryStore
from triggers import trigger
from triggers.spark.batch_info import BatchReport
from triggers.spark.handler import Purging
from triggers.spark.settings import BatchSettings
from triggers.testing.redis_server import RedisServer

#: The trigger, and how many rows each batch has.
NAME, ROWS = "load", 10

#: The seconds of a week.
WEEK = 604_800

#: One call writes so many batches.
_PIECE = 5_000

#: The report lists commands that take longer, in milliseconds.
SLOW = 20.0

#: Writes batches `first` to `last`. A batch that is n seconds old expires in `life` - n seconds.
_FILL = """
local ledger, life = KEYS[1] .. ':batches', tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = clock[1] * 1000
local meta = redis.call('HGET', KEYS[1], 'meta')
local layout, fence = struct.unpack('>BI7', meta)
for n = ARGV[1], ARGV[2] do
  fence = fence + 1
  local number, started = string.format('%.0f', fence), now - n * 1000
  local token = 'query/' .. n .. '/run'
  redis.call('HSET', ledger, 'o ' .. token, number, 'c ' .. number, 10,
             'b ' .. number, 'O' .. struct.pack('>I8I8I8I8', fence, started, 0, started + life) .. token)
end
redis.call('HSET', KEYS[1], 'meta', struct.pack('>BI7', layout, fence) .. string.sub(meta, 9))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The number of batches in the ledger, and the slowest call of each command in milliseconds."""

    filled: int
    left: int
    alive: int
    slowest: Mapping[str, float]


def measure(server: RedisServer, *, batches: int, expired: int, new: int) -> Found:
    """Fill the ledger, run ``new`` batches, and read the ledger in every way."""
    store = open_history(server.url)
    try:
        with cast("Any", redis.Redis).from_url(server.url) as client:
            _run_batch(store, "first")
            _fill(client, batches, expired)
            filled = _batches(client)
            client.config_set("slowlog-log-slower-than", 200)
            client.config_set("slowlog-max-len", 100_000)
            client.slowlog_reset()
            _go_on(store, server.url, new)
            _walk(store)
            slowest = _slowest(client)
            alive = 1 + batches - expired + new
            return Found(filled=filled, left=_batches(client), alive=alive, slowest=slowest)
    finally:
        drive(store.close())


def _run_batch(store: HistoryStore, name: str) -> None:
    owner = BatchOwner(f"query/{name}/run")
    drive(store.claim(NAME, [f"{name}-{row}" for row in range(ROWS)], owner))
    drive(store.settle_batch(NAME, owner, EntryOutcome.OK))


def _fill(client: Any, batches: int, expired: int) -> None:
    """Write batches, each a second older than the next. The oldest ``expired`` batches have expired."""
    life = int(timedelta(seconds=WEEK).total_seconds() * 1000)
    oldest = WEEK + expired
    for first in range(oldest - batches + 1, oldest + 1, _PIECE):
        last = min(first + _PIECE - 1, oldest)
        client.eval(_FILL, 1, f"doubtless:{{{NAME}}}:history", first, last, life)


def _batches(client: Any) -> int:
    """Count the batches in the ledger. Each has three fields, and the ledger has one more field."""
    return int((client.hlen(f"doubtless:{{{NAME}}}:history:batches") - 1) // 3)


def _go_on(store: HistoryStore, url: str, batches: int) -> None:
    """Run batches like a Spark driver, which cleans up after each batch."""

    @trigger("orders", name=NAME, history=url)
    def work(_message: object) -> None: ...

    settings = BatchSettings.of("orders", {"name": NAME}, work, uuid="uuid", history=url)
    purging = Purging(settings)
    for number in range(batches):
        _run_batch(store, f"new-{number}")
        purging.after(BatchReport(batch_id=number, query="query", rows=ROWS))


def _walk(store: HistoryStore) -> None:
    """Call everything that reads all entries."""
    drive(store.stats(NAME))
    drive(store.lookup(NAME, [f"first-{row}" for row in range(ROWS)]))
    cursor = None
    while True:
        _, cursor = drive(store.purge_some(NAME, cursor))
        if cursor is None:
            return


def _slowest(client: Any) -> Mapping[str, float]:
    """Return the slowest call of each script, and of each other command, in milliseconds."""
    names = {sha1(_script(name)).hexdigest(): name for name in script_names("history.redis")}  # noqa: S324
    slowest: dict[str, float] = {}
    for entry in client.slowlog_get(100_000):
        parts: list[str] = entry["command"].decode(errors="replace").split()
        command = next((names[word] for word in parts[1:2] if word in names), parts[0])
        took: float = entry["duration"] / 1000
        slowest[command] = max(slowest.get(command, 0.0), took)
    return slowest


def _script(name: str) -> bytes:
    return assembled("history.redis", name).encode()


def main(
    batches: int = typer.Option(WEEK, min=1000, help="How many batches the ledger holds."),
    expired: int = typer.Option(20_000, min=0, help="How many of them are over."),
    new: int = typer.Option(600, min=1, help="How many more to run."),
) -> None:
    """Fill the ledger, use it, and tell the slowest commands."""
    console = Console()
    with private_redis() as server:
        week = measure(server, batches=batches, expired=expired, new=new)
    table = Table(title=f"{week.filled:,} batches at first, {week.left:,} in the end")
    table.add_column("command")
    table.add_column("slowest call, ms", justify="right")
    slowest = sorted(week.slowest.items(), key=lambda item: -item[1])
    for command, took in slowest[:12]:
        table.add_row(command, f"{took:.2f}")
    console.print(table)
    slow = [command for command, took in slowest if took > SLOW]
    console.print(f"{len(slow)} kinds of commands took more than {SLOW:.0f} ms")
    sys.exit(1 if week.left > week.alive else 0)


if __name__ == "__main__":
    typer.run(main)
