"""A driver that runs a recipe of the docs: ``spark_sleeper FOLDER HISTORY DATABASE RECIPE (stop | go)``.

With "stop" it stops itself (SIGSTOP) when it has entered the function, as a driver that hangs does; of the
atomic sink all its processes stop, inside a transaction. It reads the recipe's code from the page, with the
paths, the history and the database of the test.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import Connection

from tests.fixtures.servers.lakes import DELTA, ICEBERG, LAKES
from tests.fixtures.servers.spark import local_session
from triggers.spark import BatchInfo, ForeachBatch, foreach_batch
from triggers.spark.atomic_sink import AtomicSink, RowsWriter
from triggers.spark.batch.batch import BatchStep

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to"

WRITE, RUN = HOW_TO / "write-from-spark-exactly-once.md", HOW_TO / "run-on-spark.md"

KAFKA = HOW_TO / "run-on-kafka.md"

#: The columns that the recipes read.
SCHEMA = "uuid STRING, customer STRING, amount DOUBLE"

#: By name of what a recipe makes: its page, the beginning of its code, and the text that follows the code.
RECIPES: Mapping[str, tuple[Path, str, str]] = {
    "load": (WRITE, "def load(", "```"),
    "load_folder": (WRITE, "def load_folder(", "```"),
    "load_shop": (WRITE, "def load_shop(", "```"),
    "bookings": (WRITE, "bookings = atomic_sink(", "\nquery = "),
    DELTA.recipe: (WRITE, "def load_delta(", "```"),
    ICEBERG.recipe: (WRITE, "def load_iceberg(", "```"),
    "load_bookings": (RUN, "def load_bookings(", "```"),
}


@dataclass(frozen=True)
class Place:
    """Where a recipe reads and writes; the rows are in ``folder / "inbox"``."""

    folder: Path
    history: str
    database: str = ""
    broker: str = ""

    @property
    def inbox(self) -> str:
        return str(self.folder / "inbox")

    def start(self, recipe: str, how: str) -> "subprocess.Popen[bytes]":
        """Start a driver in its own process group."""
        arguments = [str(self.folder), self.history, self.database, recipe, how]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.crash.spark.spark_sleeper", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=LAKES[recipe].environment if recipe in LAKES else None,
        )

    def made(self, recipe: str) -> ForeachBatch | AtomicSink:
        made: ForeachBatch | AtomicSink = self._run_block(*RECIPES[recipe])[recipe]
        return made

    def newest_folders(self) -> list[str]:
        """Return which folders the page tells readers to read."""
        given = self._run_block(WRITE, "def newest_folders(", "\n\norders = ")
        folders: list[str] = given["newest_folders"](self.folder / "orders")
        return folders

    def orders_of_kafka(self, rows_of_batch: int) -> DataFrame:
        """Return the stream that a page reads from Kafka, with smaller batches."""
        given = self._run_block(KAFKA, "uuid = F.expr(", "\nrecords = ")
        shown, until = "topic = spark.readStream.format", "\nquery = "
        more = {name: given[name] for name in ("spark", "uuid", "F")}
        more["rows_of_batch"] = rows_of_batch
        found = self._run_block(WRITE, shown, until, more)
        orders: DataFrame = found["orders"].select("uuid", "order.*")
        return orders

    def _run_block(
        self, page: Path, holds: str, until: str, more: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        blocks = re.findall(r"```python no-run\n(.*?)```", page.read_text(), re.DOTALL)
        (code,) = [one.partition(until)[0] for one in blocks if holds in one]
        for shown, own in self._own().items():
            code = code.replace(shown, own)
        names: dict[str, Any] = {"Path": Path, "DataFrame": DataFrame, "BatchInfo": BatchInfo}
        names |= {"foreach_batch": foreach_batch, "__name__": __name__, **(more or {})}
        exec(code, names)  # noqa: S102  (it is the code of our own pages)
        return names

    def _own(self) -> Mapping[str, str]:
        """Return, for each value on the pages, the value that replaces it here."""
        return {
            "/data": str(self.folder),
            "redis://127.0.0.1:6379/0": self.history,
            "jdbc:postgresql://127.0.0.1/shop": self._jdbc(),
            "postgresql+psycopg://shop@127.0.0.1/shop": self.database.replace("://", "+psycopg://"),
            "postgresql://shop@127.0.0.1/shop": self.database,
            "localhost:9092": self.broker,
            "100_000": "rows_of_batch",
            "from shop import book": "",
        }

    def _jdbc(self) -> str:
        parts = urlsplit(self.database)
        (schema,) = parse_qs(parts.query).get("options", ["="])
        account = f"user={parts.username}&password={parts.password or ''}"
        where = f"{parts.hostname}:{parts.port}{parts.path}?{account}"
        return f"jdbc:postgresql://{where}&currentSchema={schema.partition('=')[2]}"


@dataclass(frozen=True)
class StoppingWriter:
    """Stops all processes of a driver inside the first transaction, and then writes."""

    write: RowsWriter
    stopped: Path
    driver: int

    def __call__(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        if not self.stopped.exists():
            # Spark's Python workers are in a separate process group.
            self.stopped.write_text(str(os.getpgid(0)))
            os.killpg(self.driver, signal.SIGSTOP)
            stop_here()
        self.write(connection, rows)


def stop_here() -> None:
    """Stop this process before the next line of this thread runs.

    If a stop is sent to the process, another thread may receive it. Until that thread gets a processor, this
    thread goes on, and the JVM carries out its next command although Python is stopped.
    """
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def stop_inside(made: ForeachBatch | AtomicSink, stopped: Path) -> None:
    """Let a driver stop itself in the middle of its first batch."""

    def observe(step: BatchStep) -> None:
        if step is BatchStep.ENTERED:
            stopped.touch()
            stop_here()

    if isinstance(made, ForeachBatch):
        made.observe = observe
    else:
        made._write = StoppingWriter(made._write, stopped, os.getpgid(0))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def run(spark: SparkSession, place: Place, recipe: str, *, stops: bool) -> None:
    """Run the recipe's query until it has seen everything."""
    made = place.made(recipe)
    if stops:
        stop_inside(made, place.folder / "stopped")
    stream = spark.readStream.schema(SCHEMA).parquet(place.inbox)
    query = made.write_stream(stream).queryName("q").trigger(availableNow=True)
    query.option("checkpointLocation", str(place.folder / "checkpoint")).start().awaitTermination()


if __name__ == "__main__":
    where = Place(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
    options: Mapping[str, str] = LAKES[sys.argv[4]].options if sys.argv[4] in LAKES else {}
    session = local_session(where.folder / str(os.getpid()), **options)
    run(session, where, sys.argv[4], stops=sys.argv[5] == "stop")
    session.stop()
