"""A pipeline of Spark and a service share one document history: each skips the orders of the other.

Orders come from the web shop as a stream, and some of them several times. The pipeline reads them in
micro-batches, looks up the customer's country, and writes them as JSON files. Clerks at the counter also
type orders, and some of these are also in the stream. :func:`book_at_the_counter` books them. Both have
the name "book-order" in the same history. So the first of the two books the order, and for the other it is
a duplicate.

    python pipeline.py                                # on a new Redis server
    python pipeline.py redis://127.0.0.1:6379/0       # on yours, in a database that is empty

Each batch has its own folder below the folder of its checkpoint. If Spark runs a batch again, it overwrites
that folder. So ``on_replay="execute"`` is safe, and nothing stays In Doubt after a crash.
"""

import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from doubtless import Consumer, Message, trigger
from doubtless.history import drive
from doubtless.providers import RedisStreams
from doubtless.spark import (
    BatchInfo,
    ForeachBatch,
    RedisStreamSource,
    foreach_batch,
)
from doubtless.testing import RedisServer

CUSTOMERS = ("Garcia", "Sato", "Okafor", "Kaya", "Silva")
COUNTRIES = "('Garcia', 'ES'), ('Sato', 'JP'), ('Okafor', 'NG'), ('Kaya', 'TR'), ('Silva', 'PT')"

#: The number of the web shop's orders, how many it sends again, and the orders that the clerks type.
ORDERS, AGAIN, AT_THE_COUNTER = 300, 60, range(250, 350)

COUNTER_BOOK = Path(os.environ.get("COUNTER_BOOK", "counter.jsonl"))


class Order(BaseModel):
    """The body of a message."""

    id: str
    customer: str
    amount: float


@trigger("counter-orders", name="book-order")
def book_at_the_counter(order: Order) -> None:
    """Book one order that a clerk has typed."""
    with COUNTER_BOOK.open("a", encoding="utf-8") as book:
        book.write(order.model_dump_json() + "\n")


def make_pipeline(
    spark: SparkSession, redis_url: str, folder: Path
) -> ForeachBatch:
    """Return a function that enriches a batch of orders and writes it to its folder."""
    countries = spark.sql(
        f"SELECT * FROM VALUES {COUNTRIES} AS known (customer, country)"  # noqa: S608  (ours)
    )

    @foreach_batch(
        "orders",
        name="book-order",
        uuid="uuid",
        history=redis_url,
        on_replay="execute",
    )
    def book(new: DataFrame, batch: BatchInfo) -> None:
        order = F.from_json("body", "id string, customer string, amount double")
        orders = new.select("uuid", order.alias("order")).select(
            "uuid", "order.*"
        )
        enriched = orders.join(F.broadcast(countries), "customer", "left")
        enriched.write.mode("overwrite").json(
            str(folder / batch.lineage / f"batch={batch.batch_id}")
        )

    return book


def run_pipeline(redis_url: str, folder: Path) -> dict[str, int]:
    """Read the whole stream, and return the sum of the reports."""
    os.environ.setdefault(
        "PYSPARK_PYTHON", sys.executable
    )  # the tasks need the packages of this Python
    builder = SparkSession.Builder().master("local[2]").appName("orders")
    builder = builder.config("spark.driver.host", "127.0.0.1").config(
        "spark.ui.enabled", "false"
    )
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.dataSource.register(RedisStreamSource)
    source = session.readStream.format("redis_streams").option("body", "string")
    stream = (
        source.option("url", redis_url)
        .option("destination", "orders")
        .option("maxRowsPerBatch", 200)
    )
    book = make_pipeline(session, redis_url, folder)
    query = book.write_stream(stream.load()).option(
        "checkpointLocation", str(folder / "checkpoint")
    )
    query.trigger(availableNow=True).start().awaitTermination()
    session.stop()
    counts = Counter[str]()
    for report in book.reports:
        counts.update(report.counts)
    return dict(counts)


def send(redis_url: str) -> None:
    """Send the web shop's orders, some of them twice, and the counter's orders."""
    provider = RedisStreams.from_url(redis_url)
    from_the_web = [
        _order(number) for number in (*range(ORDERS), *range(AGAIN))
    ]
    drive(provider.send("orders", from_the_web))
    drive(
        provider.send(
            "counter-orders", [_order(number) for number in AT_THE_COUNTER]
        )
    )
    drive(provider.close())


def _order(number: int) -> Message:
    customer = CUSTOMERS[number % len(CUSTOMERS)]
    order = Order(id=f"N-{number:04}", customer=customer, amount=10.0 + number)
    return Message(uuid=f"order-{number}", body=order.model_dump())


def main(redis_url: str) -> None:
    """Send orders, let the counter and the pipeline book them, and count the bookings."""
    folder = Path("booked")
    send(redis_url)
    Consumer([book_at_the_counter], redis_url, history=redis_url).run(
        until_idle=1.0
    )
    counted = run_pipeline(redis_url, folder)
    booked: list[str] = [
        json.loads(line)["id"] for line in COUNTER_BOOK.read_text().splitlines()
    ]
    print(f"counter: {len(booked)} booked")
    print(
        f"pipeline: {counted['rows']} rows, {counted['new']} new, {counted['duplicate']} duplicate"
    )
    for file in folder.glob("*/batch=*/*.json"):
        booked += [
            json.loads(line)["id"] for line in file.read_text().splitlines()
        ]
    print(
        f"booked: {len(booked)} orders, {len(booked) - len(set(booked))} of them twice"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with (
            tempfile.TemporaryDirectory() as name,
            RedisServer(Path(name), appendfsync="everysec") as server,
        ):
            main(server.url)
