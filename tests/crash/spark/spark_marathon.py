"""A driver with two pipelines over one stream; it kills itself at a random moment.

Called as ``spark_marathon FOLDER REDIS SQL SEED``. With a seed it dies at a step of a batch, or some time
after its queries have started. With ``-`` instead of a seed it runs to its end.

Each batch has new rows, rows that it contains twice, rows of the batch before, and rows that a dead owner
had started. The resolver says NEW to some rows of the last kind, and In Doubt to others; both are executed.
The keys are bytes, and some keys are not valid text.
"""

import os
import random
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from history.message import Message
from resolvers import Resolution
from tests.fixtures.servers.spark import local_session
from tests.integration.helpers.file_streams import FileStream
from triggers.spark import foreach_batch
from triggers.spark.atomic_sink import atomic_sink, into_table
from triggers.spark.batch.batch import BatchStep

#: The columns of the stream; the key is hexadecimal.
SCHEMA = "key string, body string"

#: How many steps of batches, and how many seconds, a driver lives at most.
MOST_STEPS, MOST_SECONDS = 12, 3.0


def keys_of(batch: int) -> list[bytes]:
    """Return the keys that come with a batch for the first time."""
    return [*(b"u%d-%d" % (batch, n) for n in range(8)), b"x%d" % batch, b"y%d" % batch, b"\xff%d" % batch]


def started_by_others(batches: int) -> list[bytes]:
    """Return the keys of the rows that a dead owner had started."""
    return [b"%c%d" % (letter, batch) for batch in range(batches) for letter in b"xy"]


def fill(folder: Path, batches: int) -> None:
    stream = FileStream(None, folder, SCHEMA)  # type: ignore[arg-type]
    for batch in range(batches):
        keys = [*keys_of(batch), keys_of(batch)[0], *keys_of(max(batch - 1, 0))[3:]]
        stream.add({"key": key.hex(), "body": f"body {key.hex()}"} for key in keys)


def some_are_new(
    uuids: Sequence[str], trigger_name: str, messages: Sequence[Message]
) -> Sequence[Resolution]:
    """Say NEW to some rows, and In Doubt to others, which are executed too."""
    assert trigger_name in {"folder", "book"}
    assert len(messages) == len(uuids)
    new = "x", b"x".hex()  # the identity of bytes is their hexadecimal
    return [Resolution.NEW if uuid.startswith(new) else Resolution.IN_DOUBT for uuid in uuids]


def one_is_new(uuid: str, trigger_name: str, message: Message) -> Resolution:
    return some_are_new([uuid], trigger_name, [message])[0]


def die() -> None:
    os.killpg(os.getpgid(0), signal.SIGKILL)


class Death:
    """When this driver dies."""

    def __init__(self, seed: str, most_seconds: float = MOST_SECONDS) -> None:
        chosen = random.Random(seed)  # noqa: S311  (no secret)
        self._lives = seed == "-"
        self._steps = chosen.randint(1, MOST_STEPS)
        self._seconds = chosen.uniform(0, most_seconds)
        self._by_steps = chosen.random() < 0.5

    def observe(self, _: BatchStep) -> None:
        self._steps -= 1
        if self._by_steps and not self._lives and not self._steps:
            die()

    def begin(self) -> None:
        """Start the timer that kills the driver if no step does."""
        if not self._lives:
            seconds = 60.0 if self._by_steps else self._seconds
            timer = threading.Timer(seconds, die)
            timer.daemon = True
            timer.start()


def main(folder: Path, redis: str, sql: str, seed: str) -> None:
    """Run both pipelines."""
    spark = local_session(folder)
    stream, death = FileStream(spark, folder, SCHEMA), Death(seed)

    @foreach_batch(
        "orders",
        name="folder",
        uuid="uuid",
        history=redis,
        resolver=some_are_new,
        on_replay="execute",
        in_doubt="execute",
    )
    def overwrite(new: DataFrame, batch_id: int) -> None:
        new.write.mode("overwrite").parquet(str(folder / "out" / f"batch_id={batch_id}"))

    overwrite.observe = death.observe
    book = atomic_sink(
        "orders",
        name="book",
        uuid="uuid",
        history=sql,
        write=into_table("bookings", columns=["uuid", "body"]),
        resolver=one_is_new,
        in_doubt="execute",
        rows_per_transaction=5,
    )
    plans: list[tuple[str, Any, str]] = [
        ("folder", overwrite, "unhex(key)"),
        ("book", book, "CAST(unhex(key) AS STRING)"),
    ]
    queries: list[StreamingQuery] = []
    for name, sink, uuid in plans:
        rows = stream.read().selectExpr(f"{uuid} AS uuid", "body")
        writer = sink.write_stream(rows).queryName(name).trigger(availableNow=True)
        queries.append(writer.option("checkpointLocation", str(folder / f"checkpoint-{name}")).start())
    death.begin()
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:5])
