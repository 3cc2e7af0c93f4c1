"""Micro-batches of Spark with the document history of services: ``foreach_batch``.

    from doubtless.spark import foreach_batch

    @foreach_batch("orders", uuid="uuid", history="redis://127.0.0.1:6379/0")
    def load(new: DataFrame, batch_id: int) -> None: ...          # only NEW rows arrive here

    load.write_stream(stream).option("checkpointLocation", path).start()

A :class:`~triggers.Trigger` runs row by row: ``book.foreach_batch(uuid="uuid", body="value")``.

=======================  ========================================================================
``foreach_batch.py``     ``@foreach_batch``, and its steps in a table
``handler.py``           its common part with ``row_service/`` and ``atomic_sink/``
``batch/``               one micro-batch of it: claims, second look, lease, completion
``row_service/``         a trigger, row by row on the executors
``atomic_sink/``         rows and history entries in one transaction of a database
``sources/``             sources of streams: a Redis stream, SQL-JMS, a publication of SQL Remote
``rows/``                rows as messages, and back
``metrics/``             the queries of a driver for Prometheus: ``watch``
``document_history.py``  what triggers remember, as a table
``batch_info.py``        which batch it is, for functions that need it, and the results of its rows
``settings.py``          the settings, which travel to the executors
``connections.py``       the histories that driver and executors have opened
``failures.py``          the causes of a failure of Spark, and whether it is a cancellation
=======================  ========================================================================
"""

from history.errors import MissingExtraError

try:
    from triggers.spark.batch_info import BatchInfo, BatchReport
    from triggers.spark.failures import causes_of
    from triggers.spark.foreach_batch import ForeachBatch, foreach_batch
    from triggers.spark.metrics.watch import StreamWatch, watch
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in {"pyspark", "pyarrow", "pandas", "numpy", "py4j"}:
        raise
    raise MissingExtraError("doubtless.spark", extra="spark", package=error.name or "pyspark") from error

__all__ = ["BatchInfo", "BatchReport", "ForeachBatch", "StreamWatch", "causes_of", "foreach_batch", "watch"]
