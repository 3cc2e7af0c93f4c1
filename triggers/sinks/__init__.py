"""Where retrieval failure events can go, besides your own handlers: the log and a Redis stream.

A sink is a handler: ``on_retrieval_failure(trigger="*")(LogSink())``.
"""

from triggers.sinks.log import LogSink
from triggers.sinks.redis_stream import RedisStreamSink

__all__ = ["LogSink", "RedisStreamSink"]
