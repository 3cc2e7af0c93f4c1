"""Failures of Spark: their causes, and whether they only mean that a query was stopped or a job cancelled."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from history.support.rendering import class_of, text_of

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

#: The most exceptions to look at in a chain of causes, which may be a circle.
MOST_CAUSES = 20


def causes_of(error: BaseException) -> Sequence[str]:
    """Return an exception and its causes as "class: message", the outermost first.

    An exception of Java has the name of its Java class, such as ``"org.postgresql.util.PSQLException:
    Connection refused"``. The exception of a task on an executor is in the message of the failed job. Over
    Spark Connect the classes are PySpark's, and the message begins with Spark's name of the error, if it has
    one.
    """
    causes: list[str] = []
    for cause in _chain(error):
        thrown = _thrown_by_java(cause)
        if thrown is not None:
            return causes + [
                f"{java.getClass().getName()}: {java.getMessage() or ''}" for java in _java_chain(thrown)
            ]
        causes.append(f"{class_of(cause)}: {text_of(cause)}")
    return causes


def is_being_stopped(spark: SparkSession, query: str) -> bool:
    """Whether somebody has told the query with this id to stop; False if Spark does not know."""
    try:
        gate: Any = spark
        state, jvm = gate._jsparkSession.sharedState(), gate.sparkContext._jvm  # noqa: SLF001  (PySpark has no other way)
        active = state.activeStreamingQueries().get(jvm.java.util.UUID.fromString(query))
        return active is not None and not active.isActive()
    except Exception:  # noqa: BLE001  (Spark Connect, shared clusters and batches of no query, each in its way)
        return False


def is_cancellation(error: BaseException) -> bool:
    """Whether Spark reports with an exception, or with its cause, that a job was cancelled."""
    return any(_is_cancelled(cause) for cause in _chain(error))


def _is_cancelled(error: BaseException) -> bool:
    if isinstance(error, PySparkException) and _condition_of(error) in _CONDITIONS:
        return True
    return any(_is_java_cancelled(cause) for cause in _java_chain(_thrown_by_java(error)))


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
        condition = error.getErrorClass() if hasattr(error, "getErrorClass") else error.getCondition()
    except Exception:  # noqa: BLE001  (any error of a gateway for what is not there)
        return None
    return None if condition is None else str(condition)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(MOST_CAUSES):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _thrown_by_java(error: BaseException) -> Any:
    """Return py4j's handle of Java's exception, which PySpark keeps; None for an exception of Python."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def _java_chain(error: Any) -> Iterator[Any]:
    for _ in range(MOST_CAUSES):
        if error is None:
            return
        yield error
        error = error.getCause()
