"""Sources for Spark streams; each is a log, and an offset remembers how far a query got.

::

    from doubtless.spark import RedisStreamSource

    spark.dataSource.register(RedisStreamSource)
    spark.readStream.format("redis_streams").option("url", ...).option("destination", ...).load()

=======================  ========================================================================
``log.py``               the methods of a log that a query needs, for any storage
``reader.py``            a log as a source of Spark, and its options
``message_rows.py``      messages as rows
``redis_stream.py``      the source ``redis_streams``, and its log
``sqljms.py``            the source ``sqljms``, and its log
``publication.py``       the source ``publication``, and its log
=======================  ========================================================================
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.spark.sources.log import Log
    from triggers.spark.sources.publication import PublicationSource
    from triggers.spark.sources.reader import LogSource
    from triggers.spark.sources.redis_stream import RedisStreamSource
    from triggers.spark.sources.sqljms import SqlJmsSource
else:  # a type checker would accept any name
    __getattr__ = lazy(__name__)

__all__ = ["Log", "LogSource", "PublicationSource", "RedisStreamSource", "SqlJmsSource"]
