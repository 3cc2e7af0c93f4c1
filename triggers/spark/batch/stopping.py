"""Whether a function failed because its query was stopped or its jobs were cancelled, by Spark's answer."""

import re
from collections.abc import Iterator
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

#: Spark's names of a failure that is a cancellation.
_CONDITIONS = frozenset({"SPARK_JOB_CANCELLED", "OPERATION_CANCELED"})

#: The same in Spark 3.5, which has no name for it.
_JOB_CANCELLED = re.compile(r"Job \d+ cancelled\b")

#: The exceptions of the JVM in a thread that is to end.
_INTERRUPTIONS = frozenset(
    {
        "java.lang.InterruptedException",
        "java.io.InterruptedIOException",
        "java.nio.channels.ClosedByInterruptException",
    }
)

#: The most exceptions to look at in a chain, which may be a circle.
_LONGEST_CHAIN = 20


def is_being_stopped(spark: SparkSession, query: str) -> bool:
    """Whether somebody has told the query with this id to stop; False if Spark does not know."""
    try:
        gate: Any = spark
        state, jvm = gate._jsparkSession.sharedState(), gate.sparkContext._jvm  # noqa: SLF001  (PySpark has no other way)
        found = state.activeStreamingQueries().get(jvm.java.util.UUID.fromString(query))
        return found is not None and not found.isActive()
    except Exception:  # noqa: BLE001  (Spark Connect, shared clusters and batches of no query, each in its way)
        return False


def is_cancellation(error: BaseException) -> bool:
    """Whether Spark reports with an exception, or with its cause, that a job was cancelled."""
    return any(_is_cancelled(one) for one in _chain(error))


def _is_cancelled(error: BaseException) -> bool:
    if isinstance(error, PySparkException) and _condition_of(error) in _CONDITIONS:
        return True
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    return java is not None and any(_is_java_cancelled(one) for one in _java_chain(java))


def _is_java_cancelled(error: Any) -> bool:
    name = str(error.getClass().getName())
    if name in _INTERRUPTIONS:
        return True
    if name != "org.apache.spark.SparkException":
        return False
    condition = _condition_of(error)
    return condition in _CONDITIONS or (
        condition is None and _JOB_CANCELLED.match(error.getMessage() or "") is not None
    )


def _condition_of(error: Any) -> str | None:
    """Return Spark's name of a failure; Spark 4 has another method for it."""
    try:
        found = error.getErrorClass() if hasattr(error, "getErrorClass") else error.getCondition()
    except Exception:  # noqa: BLE001  (any error of a gateway for what is not there)
        return None
    return None if found is None else str(found)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(_LONGEST_CHAIN):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _java_chain(error: Any) -> Iterator[Any]:
    for _ in range(_LONGEST_CHAIN):
        if error is None:
            return
        yield error
        error = error.getCause()
