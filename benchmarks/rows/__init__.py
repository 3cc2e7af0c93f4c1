"""All rows, in the order of the report. A new row is a function in a file here, and a line in ``ROWS``."""

from benchmarks.bench import Row
from benchmarks.rows import (
    atomic,
    consumer,
    guards,
    handling,
    kafka,
    links,
    nats,
    powertools,
    remembered,
    spark_batches,
    sqljms,
    starts,
    tasks,
    watched,
)

ROWS = (
    Row("new", handling.measure_new),
    Row("powertools", powertools.measure),
    Row("duplicate", handling.measure_duplicates),
    Row("consumer", consumer.measure),
    Row("kafka", kafka.measure),
    Row("nats", nats.measure),
    Row("tasks", tasks.measure),
    Row("guards", guards.measure),
    Row("batch", handling.measure_new_batches),
    Row("batch-duplicates", handling.measure_batches_of_duplicates),
    Row("spark", spark_batches.measure),
    Row("links", links.measure),
    Row("memory", remembered.measure_memory),
    Row("growth", remembered.measure_growth, full=True),
    Row("sqljms", sqljms.measure),
    Row("atomic", atomic.measure),
    Row("starts", starts.measure),
    Row("dashboard", watched.measure),
    Row("sqljms-growth", sqljms.measure_growth, full=True),
)
