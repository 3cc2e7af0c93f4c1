"""Micro-batches of Spark with the document history of services: ``foreach_batch``.

    from doubtless.spark import foreach_batch

    @foreach_batch("orders", uuid="uuid", history="redis://127.0.0.1:6379/0")
    def load(new: DataFrame, batch_id: int) -> None: ...          # only NEW rows arrive here

    load.write_stream(stream).option("checkpointLocation", path).start()

A :class:`~triggers.Trigger` runs row by row: ``book.foreach_batch(uuid="uuid", body="value")``.

=======================  ========================================================================
``decorator.py``         ``@foreach_batch``, and its steps in a table
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

from importlib import import_module
from typing import TYPE_CHECKING

from history.errors import MissingExtraError
from history.support.faces import lazy

try:
    for _package in ("pyspark", "pyarrow", "numpy"):
        import_module(_package)
except ModuleNotFoundError as error:
    raise MissingExtraError("doubtless.spark", extra="spark", package=error.name or "pyspark") from error

if TYPE_CHECKING:
    from triggers.spark.batch_info import BatchInfo, BatchReport
    from triggers.spark.decorator import ForeachBatch, foreach_batch
    from triggers.spark.failures import causes_of
    from triggers.spark.metrics.watch import StreamWatch, watch
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)

__all__ = ["BatchInfo", "BatchReport", "ForeachBatch", "StreamWatch", "causes_of", "foreach_batch", "watch"]
