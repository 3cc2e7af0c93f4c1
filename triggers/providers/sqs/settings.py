"""The settings of the SQS provider, and the names that it makes."""

import re
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from history.errors import ConfigurationError
from history.support.urls import refuse_unknown
from triggers.providers.brokers.url import whole_number

#: The settings in a URL that are whole numbers, and the least and most of each, in seconds.
_RANGES = {"visibility": (3, 43_200), "retention": (60, 1_209_600)}

_KNOWN = {"create", "endpoint", *_RANGES}

_REGION = re.compile(r"[a-z0-9-]+")

#: The names that SQS allows for a queue.
_QUEUE = re.compile(r"[A-Za-z0-9_-]{1,75}(\.fifo)?")

#: The suffix of a queue that keeps the order of its groups.
FIFO = ".fifo"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsSettings:
    """The settings: region and queue are in the URL, the others in its query.

    - ``region``: of AWS, such as ``eu-west-1``.
    - ``queue``: the only queue of this provider; left out, any.
    - ``visibility``: for how many seconds a message is hidden from other consumers; 30 by default. A running
      consumer renews it three times in that time, for twelve hours at most, as SQS says.
    - ``create``: ``false`` if others make the queues; a missing one is then refused.
    - ``retention``: for how many seconds queues that are made here keep a message; 14 days by default, which
      is the most.
    - ``endpoint``: another address than Amazon's, such as of a test server.
    """

    region: str
    queue: str | None = None
    visibility: int = 30
    create: bool = True
    retention: int = 1_209_600
    endpoint: str | None = None

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Read a URL.

        Raises:
            ConfigurationError: it is not valid, or a setting has no such value.
        """
        parts = urlsplit(url)
        if "@" in parts.netloc:
            raise ConfigurationError(
                "provider",
                "its URL has an account, which SQS takes from the usual places of AWS",
                "leave it out, and set AWS_ACCESS_KEY_ID, a profile or a role",
            )
        if not _REGION.fullmatch(parts.netloc):
            raise ConfigurationError("provider", "its URL names no region", "use sqs://eu-west-1")
        options: dict[str, Any] = dict(parse_qsl(parts.query, keep_blank_values=True))
        refuse_unknown(list(options), tuple(sorted(_KNOWN)), "provider")
        options |= {
            name: whole_number(name, options[name], least=least, most=most, unit="seconds")
            for name, (least, most) in _RANGES.items()
            if name in options
        }
        if options.get("create", "true") not in {"true", "false"}:
            raise ConfigurationError("create", f"{options['create']!r} is unknown", "give true or false")
        options["create"] = options.get("create", "true") == "true"
        queue = parts.path.removeprefix("/") or None
        return cls(region=parts.netloc, queue=None if queue is None else check_queue(queue), **options)

    def queue_of(self, destination: str) -> str:
        """Return the name of a destination's queue.

        Raises:
            ConfigurationError: SQS does not allow it, or the URL names another queue.
        """
        check_queue(destination)
        if self.queue is not None and destination not in {self.queue, dead_letters_of(self.queue)}:
            raise ConfigurationError(
                "destination",
                f"{destination!r} is not the queue {self.queue!r} of the provider's URL",
                "leave the queue out of the URL, or correct one of them",
            )
        return destination


def check_queue(name: str) -> str:
    """Return the name of a queue.

    Raises:
        ConfigurationError: SQS does not allow it.
    """
    if not _QUEUE.fullmatch(name):
        raise ConfigurationError(
            "destination",
            f"{name!r} is not a name of a queue of SQS",
            "use at most 75 letters, digits, - and _, and .fifo at the end of a FIFO queue's name",
        )
    return name


def dead_letters_of(queue: str) -> str:
    """Name the queue of the dead letters of a queue; those of a FIFO queue also have an order."""
    return f"DLQ-{queue}"
