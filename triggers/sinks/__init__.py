"""Places for retrieval failure events, in addition to your own handlers.

A sink is a handler: ``on_retrieval_failure(trigger="*")(LogSink())``. Sinks load their drivers at their first
use, so importing this package stays cheap.

``sink.py`` is the protocol of a sink, with the one for logs; ``opening.py`` makes one from a URL.
``redis_stream.py``, ``sql_table.py``, ``webhook.py`` and ``dead_letter.py`` have one each.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.sinks.dead_letter import DeadLetterSink as DeadLetterSink
    from triggers.sinks.opening import SINK_URLS as SINK_URLS
    from triggers.sinks.opening import open_sink as open_sink
    from triggers.sinks.redis_stream import RedisStreamSink as RedisStreamSink
    from triggers.sinks.sink import LogSink as LogSink
    from triggers.sinks.sink import Sink as Sink
    from triggers.sinks.sink import SinkUnavailableError as SinkUnavailableError
    from triggers.sinks.sql_table import SqlTableSink as SqlTableSink
    from triggers.sinks.webhook import WebhookSink as WebhookSink
else:
    __getattr__ = lazy(__name__)
