"""Where retrieval failure events can go, besides your own handlers.

A sink is a handler: ``on_retrieval_failure(trigger="*")(LogSink())``. Sinks load their drivers when they are
first asked for, so importing this package stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from history.errors import MissingExtraError
from triggers.sinks.log import LogSink
from triggers.sinks.opening import SINK_URLS, open_sink
from triggers.sinks.sink import Sink, SinkUnavailableError

if TYPE_CHECKING:
    from triggers.sinks.dead_letter import DeadLetterSink
    from triggers.sinks.redis_stream import RedisStreamSink
    from triggers.sinks.sql_table import SqlTableSink
    from triggers.sinks.webhook import WebhookSink

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

_PLACES = {
    "DeadLetterSink": "dead_letter",
    "RedisStreamSink": "redis_stream",
    "SqlTableSink": "sql_table",
    "WebhookSink": "webhook",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"triggers.sinks.{_PLACES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise MissingExtraError(name, extra="http", package="httpx") from error
