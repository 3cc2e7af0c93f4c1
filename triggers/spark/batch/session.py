"""Requests to the session of a micro-batch, each only if it is allowed.

Databricks refuses settings and persisted frames on serverless compute and in standard (shared) access mode,
and Spark Connect has no jobs to describe. Without these, a batch gives the same result, but takes longer.
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
except ModuleNotFoundError:  # a client with only Spark Connect has none
    protocol = None

_log = logging.getLogger(__name__)

#: The exceptions of a session that refuses something, over Spark Connect and over its gateway.
REFUSALS: tuple[type[Exception], ...] = (
    PySparkException,
    *([] if protocol is None else [cast("Any", protocol).Py4JError]),
)

#: How a session refuses, or lacks, a look at its plans.
UNSEEN: tuple[type[Exception], ...] = (AttributeError, TypeError, *REFUSALS)

#: Adaptive execution would make four jobs of one: a seventh of the time of a batch.
_ADAPTIVE = {"spark.sql.adaptive.enabled": "false"}

#: Rows that are dropped after the batch are not worth the search for a compression.
_UNCOMPRESSED = {"spark.sql.inMemoryColumnarStorage.compressed": "false"}

#: The text that Spark shows for a job.
_DESCRIPTION = "spark.job.description"

_LEVELS: Mapping[StorageChoice, StorageLevel] = {
    "memory_and_disk": StorageLevel.MEMORY_AND_DISK_DESER,
    "disk_only": StorageLevel.DISK_ONLY,
    "off_heap": StorageLevel.OFF_HEAP,
}


def persisted(frame: DataFrame, storage: StorageChoice) -> bool:
    """Let Spark keep the computed rows of a frame; return whether it will."""
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
    """Let a session plan or compute verdicts for a while, without features that only help larger work.

    With ``shuffles``, groups are meanwhile brought together in this many tasks. A streaming query has a
    separate session, which nobody else sees.
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
    """Let Spark show the purpose of jobs for a while, after its own description of the query.

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
