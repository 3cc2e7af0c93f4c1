"""The causes of a failure of Spark, for a ``transient=`` that decides by them."""

from collections.abc import Sequence
from typing import Any

from history.support.rendering import class_of, text_of

#: The most causes of an exception to look at: a chain may be a circle.
MOST_CAUSES = 20


def causes_of(error: BaseException) -> Sequence[str]:
    """Return an exception and its causes as "class: message", the outermost first.

    An exception of Java has the name of its Java class, such as ``"org.postgresql.util.PSQLException:
    Connection refused"``. The exception of a task on an executor is in the message of the failed job. Over
    Spark Connect the classes are PySpark's, and the message begins with Spark's name of the error, if it has
    one.
    """
    found: list[str] = []
    current: BaseException | None = error
    while current is not None and len(found) < MOST_CAUSES:
        thrown = _thrown_by_java(current)
        if thrown is not None:
            return found + _java_causes(thrown)
        found.append(f"{class_of(current)}: {text_of(current)}")
        current = current.__cause__ or current.__context__
    return found


def _thrown_by_java(error: BaseException) -> Any:
    """Return py4j's handle of Java's exception, which PySpark keeps; None for an exception of Python."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def _java_causes(thrown: Any) -> list[str]:
    found: list[str] = []
    while thrown is not None and len(found) < MOST_CAUSES:
        found.append(f"{thrown.getClass().getName()}: {thrown.getMessage() or ''}")
        thrown = thrown.getCause()
    return found
