"""What is asked of the session of a micro-batch, each of it only where it is allowed.

Databricks refuses settings and persisted frames on serverless compute and in standard (shared) access mode,
and Spark Connect has no jobs to describe. A batch comes out the same without; it takes longer.
"""

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, cast

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from history.support.rendering import text_of
from triggers.spark.settings import StorageChoice

try:
    from py4j import protocol  # pyright: ignore[reportMissingTypeStubs]
except ModuleNotFoundError:  # a client of Spark Connect alone has none
    protocol = None

_log = logging.getLogger(__name__)

#: What a session raises that refuses something, over Spark Connect and over its gateway.
REFUSALS: tuple[type[Exception], ...] = (
    PySparkException,
    *([] if protocol is None else [cast("Any", protocol).Py4JError]),
)

#: Adaptive execution would make four jobs of one: a seventh of the time of a batch.
_ADAPTIVE = {"spark.sql.adaptive.enabled": "false"}

#: Rows that are dropped after the batch are not worth the search for how they could be compressed.
_UNCOMPRESSED = {"spark.sql.inMemoryColumnarStorage.compressed": "false"}

#: What Spark shows beside a job.
_DESCRIPTION = "spark.job.description"

_LEVELS: Mapping[StorageChoice, StorageLevel] = {
    "memory_and_disk": StorageLevel.MEMORY_AND_DISK_DESER,
    "disk_only": StorageLevel.DISK_ONLY,
    "off_heap": StorageLevel.OFF_HEAP,
}


def persisted(frame: DataFrame, storage: StorageChoice) -> bool:
    """Let Spark keep what is computed of a frame; return whether it will."""
    if storage == "none":
        return False
    try:
        frame.persist(_LEVELS[storage])
    except REFUSALS as error:
        _log.info("this session keeps no frames, so the batch is computed more than once: %s", text_of(error))
        return False
    return True


@contextmanager
def for_verdicts(
    spark: SparkSession, storage: StorageChoice, *, shuffles: int | None = None
) -> Generator[None]:
    """Let a session plan or compute verdicts for a while: without what helps only where more is done.

    With ``shuffles``, what is grouped meanwhile is brought together in so many tasks. A streaming query has a
    session of its own, which nobody else sees.
    """
    wanted = {**_ADAPTIVE, **(_UNCOMPRESSED if storage == "memory_and_disk" else {})}
    if shuffles is not None:
        wanted["spark.sql.shuffle.partitions"] = f"{shuffles}"
    before: dict[str, str] = {}
    try:
        for name, value in wanted.items():
            with suppress(*REFUSALS):
                was = spark.conf.get(name) or ""
                spark.conf.set(name, value)
                before[name] = was
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


@contextmanager
def described(spark: SparkSession, what: str) -> Generator[None]:
    """Let Spark show what the jobs of a while are for, behind what it says of the query.

    The group of the jobs stays: Spark stops a query by it.
    """
    context = _context_of(spark)
    if context is None:
        yield
        return
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, f"{before}\n{what}" if before else what)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)


def _context_of(spark: SparkSession) -> Any:
    try:
        return spark.sparkContext
    except Exception:  # noqa: BLE001  (Spark Connect has no context, and says so in many ways)
        return None
