import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from doubtless.spark import foreach_batch


@foreach_batch(
    "orders",  # where the rows come from
    name="load-orders",  # the name in the history
    uuid="uuid",  # the column with the identity of a row
    history="sqlite:///history.sqlite3",  # or redis://..., postgresql://...
)
def load(new: DataFrame, batch_id: int) -> None:
    new.write.mode("append").json("loaded")  # only NEW rows arrive here


inbox = Path("inbox")
inbox.mkdir(exist_ok=True)
spark = SparkSession.builder.master("local[2]").getOrCreate()
columns = "uuid STRING, amount INT"
stream = spark.readStream.schema(columns).json(str(inbox))
writer = (
    load.write_stream(stream)
    .queryName("orders")
    .option("checkpointLocation", "checkpoint")
    .trigger(availableNow=True)
)

orders = [{"uuid": f"order-{n}", "amount": n} for n in range(3)]
for name in ("monday.json", "monday-again.json"):
    (inbox / name).write_text("\n".join(json.dumps(row) for row in orders))
    writer.start().awaitTermination()
    print(load.reports[-1])

print(spark.read.json("loaded").count(), "rows loaded")
