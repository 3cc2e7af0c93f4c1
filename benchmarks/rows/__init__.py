"""All rows, in the order of the report. A new row is a file here and a line in :data:`ROWS`."""

from benchmarks.bench import Row
from benchmarks.rows import (
    atomic,
    batch_duplicates,
    batch_new,
    consumer,
    duplicate,
    growth,
    guards,
    kafka,
    links,
    memory,
    nats,
    new_message,
    powertools,
    spark_batches,
    sqljms,
    starts,
    tasks,
)

ROWS = (
    Row("new", new_message.measure),
    Row("powertools", powertools.measure),
    Row("duplicate", duplicate.measure),
    Row("consumer", consumer.measure),
    Row("kafka", kafka.measure),
    Row("nats", nats.measure),
    Row("tasks", tasks.measure),
    Row("guards", guards.measure),
    Row("batch", batch_new.measure),
    Row("batch-duplicates", batch_duplicates.measure),
    Row("spark", spark_batches.measure),
    Row("links", links.measure),
    Row("memory", memory.measure),
    Row("growth", growth.measure, full=True),
    Row("sqljms", sqljms.measure),
    Row("atomic", atomic.measure),
    Row("starts", starts.measure),
    Row("sqljms-growth", sqljms.measure_growth, full=True),
)
