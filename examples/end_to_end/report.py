import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from doubtless.spark import RedisStreamSource, foreach_batch

REDIS = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")
DATA = Path(os.environ.get("DATA", "data"))


@foreach_batch("bookings", name="load-bookings", uuid="uuid", history=REDIS)
def load(new: DataFrame, batch_id: int) -> None:
    order = F.from_json("body", "id STRING, amount DOUBLE")
    bookings = new.select(order.alias("order")).select("order.*")
    bookings.write.mode("append").json(str(DATA / "bookings"))


spark = SparkSession.builder.master("local[2]").getOrCreate()
spark.dataSource.register(RedisStreamSource)
bookings = (
    spark.readStream.format("redis_streams")
    .option("url", REDIS)
    .option("destination", "bookings")
    .option("body", "string")
    .load()
)
writer = load.write_stream(bookings).option(
    "checkpointLocation", str(DATA / "checkpoint")
)
writer.trigger(availableNow=True).start().awaitTermination()
loaded = spark.read.schema("id STRING, amount DOUBLE").json(
    str(DATA / "bookings")
)
print("loaded:", *sorted(row.id for row in loaded.collect()))
