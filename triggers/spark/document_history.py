"""``document_history``: what triggers remember, as a table to analyse at scale.

::

    from doubtless.spark import DocumentHistorySource

    spark.dataSource.register(DocumentHistorySource)
    history = spark.read.format("document_history").option("url", "redis://127.0.0.1:6379/0").load()
    history.groupBy("trigger", "state", "outcome").count().show()

The uuid itself is not remembered, only its digest: ``history.entry.short_digest(uuid)`` finds its row.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from pyspark.sql import types as T  # noqa: N812  (as everybody calls it)

from history.bridge import drive, drive_each
from history.errors import ConfigurationError
from history.opening import open_history
from history.store import ScannedEntry, ScanPart
from history.support.paging import pages
from history.support.urls import is_of_one_process
from triggers.spark.rows.arrow import RecordBatch, record_batch
from triggers.spark.rows.older_spark import too_old
from triggers.spark.sources.reader import SourceOptions

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
except ImportError as error:
    raise too_old("document_history", "4.0") from error

#: How many entries one call of the store reads, about.
PAGE = 5000

#: The default for how many tasks read one trigger.
PARTITIONS = 8

_COLUMNS: Mapping[str, T.DataType] = {
    "trigger": T.StringType(),
    "digest": T.BinaryType(),
    "state": T.StringType(),
    "outcome": T.StringType(),
    "owner": T.StringType(),
    "fence": T.LongType(),
    "started_at": T.TimestampType(),
    "lease_until": T.TimestampType(),
    "expires_at": T.TimestampType(),
    "batch": T.BooleanType(),
}

_SCHEMA = T.StructType([T.StructField(name, data_type) for name, data_type in _COLUMNS.items()])


class DocumentHistorySource(DataSource):
    """The entries of a document history in Redis or SQL; each task reads a part of one trigger's.

    Options: ``url`` of the history; ``trigger``, or the entries of all triggers; ``partitions``, the number
    of tasks for each trigger's entries (a power of 2, default 8).

    Columns: ``trigger``, ``digest``, ``state`` (started or completed), ``outcome`` (ok or failed), ``owner``
    (null if the store keeps none), ``fence``, ``started_at``, ``lease_until``, ``expires_at``, and ``batch``:
    whether the owner is a batch's token. Expired entries are left out. Nothing is locked: an entry that
    changes meanwhile may occur twice, in both states; none is missing.

    Raises:
        ConfigurationError: an option is missing, unknown or cannot be used.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "document_history"

    def schema(self) -> T.StructType:
        """Return the columns."""
        return _SCHEMA

    def reader(self, schema: T.StructType) -> "DocumentHistoryReader":  # noqa: ARG002
        """Return the object with which Spark plans and reads."""
        options = SourceOptions(self.name(), cast("Mapping[str, str]", self.options))
        url = options.needed("url", "redis://127.0.0.1:6379/0")
        trigger, parts = options.text("trigger"), options.count("partitions") or PARTITIONS
        options.all_known()
        if parts & (parts - 1):
            raise ConfigurationError("partitions", f"{parts} parts are not possible", "use a power of 2")
        if is_of_one_process(url):
            raise ConfigurationError("url", "a history in memory belongs to one process", "use another")
        return DocumentHistoryReader(url, trigger, [ScanPart(number, parts) for number in range(parts)])


class TriggerPart(InputPartition):
    """The part of one task."""

    def __init__(self, trigger: str, part: ScanPart) -> None:
        super().__init__((trigger, part))
        self.trigger = trigger
        self.part = part


class DocumentHistoryReader(DataSourceReader):
    """Plans the parts on the driver, and reads them on the executors."""

    def __init__(self, url: str, trigger: str | None, parts: Sequence[ScanPart]) -> None:
        self._url = url
        self._trigger = trigger
        self._parts = parts

    def partitions(self) -> Sequence[InputPartition]:
        """Divide each trigger's entries."""
        triggers = [self._trigger] if self._trigger is not None else self._all_triggers()
        return [TriggerPart(trigger, part) for trigger in triggers for part in self._parts]

    def _all_triggers(self) -> Sequence[str]:
        store = open_history(self._url)
        try:
            return drive(store.triggers())
        finally:
            drive(store.close())

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Read one part, some thousand entries at a time."""
        asked = cast("TriggerPart", partition)
        store = open_history(self._url)
        try:
            scan = partial(store.scan, asked.trigger, limit=PAGE, part=asked.part)
            for page in drive_each(pages(lambda cursor: scan(cursor=cursor))):
                yield record_batch([_row(asked.trigger, entry) for entry in page.entries], _SCHEMA)
        finally:
            drive(store.close())


def _row(trigger: str, scanned: ScannedEntry) -> tuple[Any, ...]:
    entry = scanned.entry
    return (
        trigger,
        scanned.digest,
        entry.state.value,
        None if entry.outcome is None else entry.outcome.value,
        entry.owner,
        entry.fence,
        entry.started_at,
        entry.lease_until,
        entry.expires_at,
        entry.batch,
    )
