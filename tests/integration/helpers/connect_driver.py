"""A client of Spark Connect: ``python -m tests.integration.helpers.connect_driver REDIS HISTORY FOLDER``.

It starts a server on this machine and reads the Redis stream ``orders`` twice: through ``foreach_batch``
into files, and through an atomic sink into the table ``bookings``. When both have ended, it prints the
number of remembered messages and the metrics of its queries.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.fixtures.waiting import eventually
from tests.integration.helpers.scrapes import samples
from triggers.spark import foreach_batch, watch
from triggers.spark.atomic_sink import atomic_sink, into_table
from triggers.spark.document_history import DocumentHistorySource
from triggers.spark.sources import RedisStreamSource


def main(redis: str, history: str, folder: str) -> None:
    builder: Any = SparkSession.builder
    spark: SparkSession = builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.dataSource.register(RedisStreamSource)
    spark.dataSource.register(DocumentHistorySource)

    @foreach_batch("orders", name="load", uuid="uuid", history=redis, query="load", on_replay="execute")
    def load(new: DataFrame, batch_id: int) -> None:
        new.select("uuid").write.mode("overwrite").json(f"{folder}/batch={batch_id}")

    book = atomic_sink(
        "orders",
        name="book",
        uuid="uuid",
        history=history,
        query="book",
        write=into_table("bookings", columns=["uuid"]),
    )
    source = spark.readStream.format("redis_streams").options(url=redis, destination="orders")
    with watch(spark, metrics="127.0.0.1:0") as watching:
        for name, sink in (("load", load), ("book", book)):
            writer = source.load().writeStream.foreachBatch(sink).trigger(availableNow=True).queryName(name)
            query = writer.option("checkpointLocation", f"{folder}/checkpoint-{name}").start()
            query.awaitTermination()
        read = eventually(lambda: read_by_ended(str(watching.metrics_address)))
    history_rows = spark.read.format("document_history").options(url=redis, trigger="load").load()
    sys.stdout.write(json.dumps({"remembered": history_rows.where("outcome = 'ok'").count(), "read": read}))
    sys.stdout.flush()
    Path(folder, "done").touch()
    spark.stop()


def read_by_ended(address: str) -> list[float] | None:
    """Return how many rows each of the queries has read, after both have stopped."""
    found, names = samples(address), ("load", "book")
    if any(found.get(("doubtless_spark_query_terminations_total", "stopped", name)) != 1 for name in names):
        return None
    return [found["doubtless_spark_input_rows_total", name] for name in names]


if __name__ == "__main__":
    main(*sys.argv[1:])
