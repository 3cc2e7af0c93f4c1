"""The settings of a producer, checked once, with errors that name the setting and the remedy."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from history.errors import ConfigurationError
from triggers.service.checking import (
    check_kind,
    check_name,
    check_provider,
    check_switch,
    check_text,
    check_tracing,
    check_whole,
)
from triggers.service.failures import Retry

#: How many messages a client-side queue holds by default.
DEFAULT_QUEUE_LIMIT = 100_000

#: After so many failures, counted while the provider is there, a queued message is given up. With the pauses
#: between them, it has been tried for some minutes then.
DEFAULT_MAX_REDELIVERY_COUNT = 20

#: The further tries of one send, before it raises or is queued.
DEFAULT_SEND_RETRY = Retry(max_attempts=2, interval=timedelta(milliseconds=100), backoff=3)

#: Means no limit.
UNLIMITED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """All settings of a producer, except the provider."""

    alias: str
    queue: Path | None
    queue_limit: int
    ordered: bool
    retry: Retry
    max_redelivery_count: int
    tracing: bool = False

    def __post_init__(self) -> None:
        check_name("alias", self.alias)
        check_switch("ordered", self.ordered)
        check_tracing(self.tracing)
        check_kind("retry", self.retry, Retry, "use Retry(max_attempts=2), or leave it out")
        check_whole("queue_limit", self.queue_limit, UNLIMITED)
        check_whole("max_redelivery_count", self.max_redelivery_count, 1)
        if self.queue is None:
            return
        if not self.queue.absolute().parent.is_dir():
            raise ConfigurationError(
                "queue", f"the folder {self.queue.absolute().parent} does not exist", "create it first"
            )
        if self.queue.is_dir():
            raise ConfigurationError("queue", f"{self.queue} is a folder", "name a file in it")


def check_sources(provider: Any, queue: Any) -> None:
    """Check what a producer sends to, and the file of its queue.

    Raises:
        ConfigurationError: one of them is of a wrong kind.
    """
    check_provider(provider)
    if queue is not None and not isinstance(queue, Path):
        check_text("queue", queue, "give a Path, or leave it out")
