"""Micro-batches of Spark: see :mod:`triggers.spark`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.spark import *
    from triggers.spark.atomic_sink import AtomicSink as AtomicSink
    from triggers.spark.atomic_sink import atomic_sink as atomic_sink
    from triggers.spark.atomic_sink import into_table as into_table
    from triggers.spark.document_history import DocumentHistorySource as DocumentHistorySource
    from triggers.spark.sources import PublicationSource as PublicationSource
    from triggers.spark.sources import RedisStreamSource as RedisStreamSource
    from triggers.spark.sources import SqlJmsSource as SqlJmsSource
else:
    __getattr__ = lazy(__name__)
