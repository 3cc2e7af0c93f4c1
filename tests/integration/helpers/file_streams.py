"""Streams of files for the tests of Spark: each file is one micro-batch."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from triggers.spark import ForeachBatch

#: The columns of a stream of orders, unless a test has its own.
ORDERS = "uuid string, JMSMessageID string, JMSXDeliveryCount bigint, body string"


class FileStream:
    """A folder with the files of a stream, one micro-batch each, and the checkpoints of its queries."""

    def __init__(self, spark: SparkSession, folder: Path, schema: str = ORDERS) -> None:
        self.spark = spark
        self.folder = folder
        self.schema = schema
        self._files = 0
        (folder / "in").mkdir(parents=True, exist_ok=True)

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        text = "".join(json.dumps(dict(row)) + "\n" for row in rows)
        hidden = self.folder / "in" / f".{self._files:06}"
        hidden.write_text(text)
        hidden.rename(self.folder / "in" / f"{self._files:06}.json")
        self._files += 1

    def read(self) -> DataFrame:
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder / "in"))

    def run(self, load: ForeachBatch, checkpoint: str = "checkpoint", name: str | None = None) -> None:
        """Run a query until it has seen everything."""
        self.start(load, checkpoint, name).awaitTermination()

    def start(
        self, load: ForeachBatch, checkpoint: str = "checkpoint", name: str | None = None
    ) -> StreamingQuery:
        """Start a query that ends when it has seen everything."""
        writer = self.read().writeStream.foreachBatch(load).trigger(availableNow=True)
        if name is not None:
            writer = writer.queryName(name)
        return writer.option("checkpointLocation", str(self.folder / checkpoint)).start()


def orders(uuids: Sequence[str | None], **more: Any) -> list[dict[str, Any]]:
    return [{"uuid": uuid, "body": json.dumps({"id": uuid}), **more} for uuid in uuids]
