"""Places for retrieval failure events, in addition to your own handlers.

A sink is a handler: ``on_retrieval_failure(trigger="*")(LogSink())``. Sinks load their drivers at their first
use, so importing this package stays cheap.

``sink.py`` is the protocol of a sink, with the one for logs; ``opening.py`` makes one from a URL.
``redis_stream.py``, ``sql_table.py``, ``webhook.py`` and ``dead_letter.py`` have one each.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy
from triggers.sinks.opening import SINK_URLS, open_sink
from triggers.sinks.sink import LogSink, Sink, SinkUnavailableError

if TYPE_CHECKING:
    from triggers.sinks.dead_letter import DeadLetterSink
    from triggers.sinks.redis_stream import RedisStreamSink
    from triggers.sinks.sql_table import SqlTableSink
    from triggers.sinks.webhook import WebhookSink
else:
    __getattr__ = lazy(__name__)

__all__ = [
    "SINK_URLS",
    "DeadLetterSink",
    "LogSink",
    "RedisStreamSink",
    "Sink",
    "SinkUnavailableError",
    "SqlTableSink",
    "WebhookSink",
    "open_sink",
]
