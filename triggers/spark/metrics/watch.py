"""``watch``: metrics of the streaming queries of a driver.

::

    with watch(spark, load, metrics="127.0.0.1:9464"):
        load.write_stream(stream).queryName("orders").option(...).start().awaitTermination()
"""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from pyspark.version import __version__ as version

from history.errors import ConfigurationError
from history.support.rendering import text_of
from triggers.service.checking import pointing
from triggers.spark.batch.session import REFUSALS
from triggers.spark.batch_info import RowCounts
from triggers.spark.metrics.queries import Queries, QueryListener, WatchedQueries
from triggers.spark.rows.older_spark import too_old

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from triggers.metrics.endpoint import Endpoint
    from triggers.spark.handler import BatchHandler
    from triggers.spark.metrics.exposition import StreamCollector

_log = logging.getLogger(__name__)

#: The exceptions of a session that was stopped, or of an unavailable JVM or server.
GONE: tuple[type[Exception], ...] = (*REFUSALS, OSError)


@pointing()
def watch(spark: "SparkSession", *handlers: "BatchHandler", metrics: str | None = None) -> "StreamWatch":
    """Begin to make metrics of a session's streaming queries, including queries that already run.

    Queries of other sessions (``spark.newSession()``) do not appear. Over Spark Connect the client's process
    listens. It needs Spark 4.0, and takes no handlers, because they count in a process of the server.

    Args:
        spark: the session that starts the queries.
        handlers: made by ``foreach_batch``, ``Trigger.foreach_batch`` or ``atomic_sink``: their rows are
            counted by verdict.
        metrics: the address to answer at, as ``host:port``; None opens no endpoint: register
            :attr:`StreamWatch.collector` in your own registry.

    Raises:
        ConfigurationError: naming what is wrong and the remedy; MissingExtraError if it is the extra
            ``metrics``.
    """
    _check(spark, handlers)
    return StreamWatch(spark, handlers, metrics)


class StreamWatch:
    """Made by :func:`watch`; ends with :meth:`stop`, or with the ``with`` statement that it is entered in.

    Spark informs its listeners a little later, in a separate thread. So right after the end of a query, its
    last work may be missing in the metrics. The rows of handlers are counted immediately.
    """

    def __init__(
        self, spark: "SparkSession", handlers: Sequence["BatchHandler"], metrics: str | None
    ) -> None:
        self._spark = spark
        self._handlers = tuple(handlers)
        self._queries = Queries()
        self._endpoint: Endpoint | None = None
        with ExitStack() as opening:
            if metrics is not None:
                self._endpoint = opening.enter_context(self._make_endpoint(metrics))
            self._listen(opening)
            self._opened = opening.pop_all()
        self._find_running()

    @property
    def collector(self) -> "StreamCollector":
        """The metrics, as a collector of ``prometheus_client``.

        Raises:
            MissingExtraError: the extra ``metrics`` is missing.
        """
        from triggers.spark.metrics.exposition import StreamCollector  # noqa: PLC0415  (an extra)

        return StreamCollector(self._queries, self._handlers)

    @property
    def metrics_address(self) -> str | None:
        """Where metrics are served, as ``host:port``, with the real port; None without an endpoint."""
        return None if self._endpoint is None else str(self._endpoint.address)

    def stop(self) -> None:
        """Stop listening and answering; the queries go on. A second call does nothing."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _make_endpoint(self, metrics: str) -> "Endpoint":
        from triggers.metrics.endpoint import Endpoint, address_of  # noqa: PLC0415  (an extra)

        return Endpoint(address_of(metrics), WatchedQueries(self._queries), self.collector)

    def _listen(self, opening: ExitStack) -> None:
        listener = QueryListener(self._queries)
        try:
            self._spark.streams.addListener(listener)
        except REFUSALS as error:
            raise ConfigurationError(
                "watch",
                f"this session takes no listener ({text_of(error)})",
                "read the batch ledger, or give foreach_batch on_batch=",
            ) from error
        opening.callback(self._listen_no_more, listener)

    def _listen_no_more(self, listener: QueryListener) -> None:
        try:
            self._spark.streams.removeListener(listener)
        except GONE as error:
            _log.info("the listener of queries went with its session: %s", text_of(error))

    def _find_running(self) -> None:
        """Note the queries that already run, except queries that end at this moment."""
        for query in self._spark.streams.active:
            named = UUID(query.id), UUID(query.runId)
            self._queries.started(*named, query.name)
            if not query.isActive:
                self._queries.gone(*named)


def _check(spark: Any, handlers: Sequence[Any]) -> None:
    if not hasattr(spark, "streams"):
        raise ConfigurationError(
            "watch", f"{spark!r:.60} is no session", "give the SparkSession first: watch(spark, load)"
        )
    for handler in handlers:
        if not isinstance(getattr(handler, "counts", None), RowCounts):
            raise ConfigurationError(
                "watch",
                f"{handler!r:.60} counts no rows",
                "give what foreach_batch, Trigger.foreach_batch or atomic_sink made",
            )
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        _check_connect(handlers)


def _check_connect(handlers: Sequence[Any]) -> None:
    if version.startswith("3."):  # there, listeners are sent to the server, which would answer in our place
        raise too_old("watch over Spark Connect", "4.0")
    if handlers:
        raise ConfigurationError(
            "watch",
            "over Spark Connect handlers run in a process of the server, which counts their rows",
            "leave the handlers out here; the batch ledger has the counts of each batch",
        )
