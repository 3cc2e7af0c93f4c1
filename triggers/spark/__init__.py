"""Micro-batches of Spark with the document history of services: ``foreach_batch``.

    from triggers.spark import foreach_batch

    @foreach_batch("orders", uuid="uuid", history="redis://127.0.0.1:6379/0")
    def load(new: DataFrame, batch_id: int) -> None: ...          # only NEW rows arrive here

    load.write_stream(stream).option("checkpointLocation", path).start()

A :class:`~triggers.Trigger` runs row by row: ``book.foreach_batch(uuid="uuid", body="value")``.
"""

from history.errors import MissingExtraError

try:
    from triggers.spark.foreach_batch import ForeachBatch, foreach_batch
    from triggers.spark.report import BatchReport
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in {"pyspark", "pyarrow", "pandas", "numpy", "py4j"}:
        raise
    raise MissingExtraError("triggers.spark", extra="spark", package=error.name or "pyspark") from error

__all__ = ["BatchReport", "ForeachBatch", "foreach_batch"]
