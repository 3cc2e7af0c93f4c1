"""From a URL to a sink."""

from urllib.parse import parse_qsl

from history.errors import ConfigurationError
from history.support.references import dereferenced
from history.support.urls import guarded, refuse_unknown, split_url
from triggers.providers.provider import Provider
from triggers.sinks.sink import Sink

#: The URLs that :func:`open_sink` understands, for its errors and for ``--help``.
SINK_URLS = (
    "log:, redis://host:6379/0?stream=name, sqlite:///file.db?table=name, "
    "postgresql://user@host/database?table=name, https://host/path or dead-letter:NAME"
)


def open_sink(url: str, *, provider: str | Provider | None = None) -> Sink:
    """Open the sink at ``url``; it connects at the first event.

    =============================  ========================================================================
    ``log:``                       :class:`LogSink`
    ``redis://``, ``rediss://``    :class:`RedisStreamSink`; ``?stream=`` and ``?maxlen=`` are its settings
    ``sqlite:``, ``postgresql:``   :class:`SqlTableSink`; ``?table=`` is its setting
    ``http://``, ``https://``      :class:`WebhookSink`
    ``dead-letter:``               :class:`DeadLetterSink` over ``provider``; ``dead-letter:orders.dead``
                                   names the destination
    =============================  ========================================================================

    The rest of the query goes to the driver, or to the webhook.

    Raises:
        ConfigurationError: the scheme is unknown, a setting is wrong, or dead letters have no provider;
            (MissingExtraError) a driver is not installed.
    """
    url = dereferenced(url, "sink")
    with guarded(url, "sink"):
        return _open(url, provider)


def _open(url: str, provider: str | Provider | None) -> Sink:
    match split_url(url).scheme.partition("+")[0]:
        case "log":
            from triggers.sinks.sink import LogSink  # noqa: PLC0415  (as below)

            refuse_unknown([name for name, _ in parse_qsl(split_url(url).query)], (), "sink")
            return LogSink()
        case "redis" | "rediss" | "unix":
            return _open_redis(url)
        case "sqlite" | "postgresql" | "postgres":
            from triggers.sinks.sql_table import DEFAULT_TABLE, SqlTableSink  # noqa: PLC0415  (a driver loads)

            bare, table = _taken(url, "table")
            return SqlTableSink(bare, table=DEFAULT_TABLE if table is None else table)
        case "http" | "https":
            return _open_webhook(url)
        case "dead-letter":
            return _open_dead_letter(url, provider)
        case scheme:
            raise ConfigurationError("sink", f"unknown URL scheme {scheme!r}", f"use {SINK_URLS}")


def _open_redis(url: str) -> Sink:
    from triggers.sinks.redis_stream import DEFAULT_MAXLEN, DEFAULT_STREAM, RedisStreamSink  # noqa: PLC0415  (a driver loads at its first use)

    bare, stream = _taken(url, "stream")
    bare, maxlen = _taken(bare, "maxlen")
    if maxlen is not None and not (maxlen.isascii() and maxlen.isdigit()):
        raise ConfigurationError("maxlen", f"must be a number, not {maxlen!r}", "write ?maxlen=100000")
    return RedisStreamSink(
        bare, stream=stream or DEFAULT_STREAM, maxlen=DEFAULT_MAXLEN if maxlen is None else int(maxlen)
    )


def _open_webhook(url: str) -> Sink:
    from triggers.sinks.webhook import WebhookSink  # noqa: PLC0415  (as above; says so if httpx is missing)

    return WebhookSink(url)


def _open_dead_letter(url: str, provider: str | Provider | None) -> Sink:
    from triggers.sinks.dead_letter import DeadLetterSink  # noqa: PLC0415  (as above)

    if provider is None:
        raise ConfigurationError(
            "sink", "dead-letter: needs a provider to send to", "use it with doubtless run, or DeadLetterSink"
        )
    return DeadLetterSink(provider, destination=url.partition(":")[2] or None)


def _taken(url: str, name: str) -> tuple[str, str | None]:
    """Remove our setting from the query of a URL, and return both; the rest stays unchanged."""
    head, mark, query = url.partition("?")
    options = query.split("&") if mark else []
    ours = [word for word in options if word.partition("=")[0] == name]
    if not ours:
        return url, None
    rest = "&".join(word for word in options if word not in ours)
    return f"{head}?{rest}" if rest else head, dict(parse_qsl(ours[-1])).get(name)
