"""A query over all data of a source, run to its end."""

from collections.abc import Callable
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

#: Spark's error if a Python process took more than ten seconds to start; no setting changes this limit.
TOO_SLOW_FOR_SPARK = "Python worker failed to connect back"


def run(stream: DataFrame, folder: Path, handle: Callable[[DataFrame, int], None]) -> None:
    """Run a query over all present data, and stop it; on a very slow machine, more than once."""
    while True:
        writer = stream.writeStream.foreachBatch(handle)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if TOO_SLOW_FOR_SPARK not in str(error):
                raise
        else:
            return
