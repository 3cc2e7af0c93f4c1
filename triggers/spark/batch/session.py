"""How the verdicts of a micro-batch are computed: without what helps only where more is done with them."""

from collections.abc import Generator
from contextlib import contextmanager

from pyspark.sql import SparkSession

#: Adaptive execution would make four jobs of one, and rows that are dropped after the batch are not worth the
#: search for how they could be compressed: together a sixth of the time of a batch.
_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}


@contextmanager
def without_adaptive_execution(spark: SparkSession) -> Generator[None]:
    """Let a session compute so for a while. A streaming query has one of its own, which nobody else sees."""
    before = {name: spark.conf.get(name) or "" for name in _SETTINGS}
    try:
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
