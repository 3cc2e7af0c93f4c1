"""``--sink``: where the retrieval failure events of a consumer go while it runs."""

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import typer

from history.errors import ConfigurationError
from triggers.events import Subscription, flush_events, on_retrieval_failure
from triggers.providers.provider import Provider
from triggers.sinks.opening import SINK_URLS, open_sink
from triggers.sinks.sink import Sink

#: The option that names the sinks.
SINKS_OPTION: Any = typer.Option(
    None,
    "--sink",
    envvar="DOUBTLESS_SINKS",
    help=f"Where events of given-up messages go. May be repeated. Forms: {SINK_URLS}",
)


@contextmanager
def listening(urls: Sequence[str], provider: Provider) -> Generator[None]:
    """Send events to these sinks, and at the end wait for events that are not delivered yet.

    Webhooks receive them in the background, because an unavailable webhook would delay the messages. Other
    sinks receive them before the message is acknowledged.

    Raises:
        ConfigurationError: one of the sinks cannot be opened.
    """
    subscribed: list[tuple[Sink, Subscription]] = []
    try:
        for url in urls:
            sink = opened_sink(url, provider)
            subscribed.append((sink, on_retrieval_failure(synchronous=not _is_web(url))(sink)))
        yield
    finally:
        flush_events()
        for sink, subscription in subscribed:
            subscription.close(timedelta(0))
            sink.close()


def opened_sink(url: str, provider: Provider) -> Sink:
    """Open a sink of the command line.

    Raises:
        ConfigurationError: it cannot be opened.
    """
    if _is_web(url):
        # It logs the whole URL of each request at level INFO, and a webhook's URL is often its password.
        logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        return open_sink(url, provider=provider)
    except ConfigurationError as error:
        raise ConfigurationError("--sink", error.problem, error.remedy) from error
    except ValueError as error:
        raise ConfigurationError("--sink", str(error), "correct its URL") from error


def _is_web(url: str) -> bool:
    return url.partition(":")[0].lower() in {"http", "https"}
