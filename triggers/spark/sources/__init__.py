"""Sources that a Spark stream can read from; each is a log, and remembers how far a query got by an offset.

from triggers.spark.sources import RedisStreamSource

spark.dataSource.register(RedisStreamSource)
spark.readStream.format("redis_streams").option("url", ...).option("destination", ...).load()
"""

from triggers.spark.sources.publication import PublicationSource
from triggers.spark.sources.redis_stream import RedisStreamSource
from triggers.spark.sources.sqljms import SqlJmsSource

__all__ = ["PublicationSource", "RedisStreamSource", "SqlJmsSource"]
