"""The settings of the RabbitMQ provider, and the names that it makes."""

from dataclasses import dataclass
from typing import Any, Literal, Self

from history.errors import ConfigurationError
from triggers.providers.backlog import Backlog
from triggers.providers.brokers.trust import FirstCount
from triggers.providers.brokers.url import BrokerUrl

QueueType = Literal["quorum", "classic"]

#: The prefix of a destination that is a queue of that name, which somebody else declared.
QUEUE = "queue:"

#: The prefix of a temporary destination's queue.
TEMPORARY = "doubtless.temporary."

_EXAMPLE = "rabbitmq://user:password@host:5672/vhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitmqSettings:
    """The settings, which the URL's query holds.

    - ``queue_type`` of the queues that are declared here: ``quorum`` (the default) with an exact delivery
      count, or ``classic`` without one. For a ``queue:NAME`` it says what that queue is; left out, a missing
      count is -1.
    - ``first_count``: see :class:`~triggers.providers.brokers.trust.FirstCount`.
    """

    queue_type: QueueType | None = None
    first_count: FirstCount = FirstCount.WEIGHED

    @classmethod
    def from_url(cls, url: str) -> tuple[Self, BrokerUrl]:
        """Read a URL.

        Raises:
            ConfigurationError: it is not valid, or a setting has no such value.
        """
        read = BrokerUrl.read(url, example=_EXAMPLE, ports=(5672, 5671), known={"queue_type", "first_count"})
        settings: dict[str, Any] = dict(read.options)
        if settings.get("queue_type", "quorum") not in {"quorum", "classic"}:
            raise ConfigurationError(
                "queue_type", f"{settings['queue_type']!r} is unknown", "give quorum or classic"
            )
        if "first_count" in settings:
            settings["first_count"] = FirstCount.read(settings["first_count"])
        return cls(**settings), read


def queue_of(destination: str, subscription: str) -> str:
    """Name the queue of a subscription."""
    return f"{destination}:{subscription}"


def queue_at(destination: str, subscription: str) -> str:
    """Name the queue that is read at a place; all subscriptions of ``queue:NAME`` share one."""
    if destination.startswith(QUEUE):
        return destination.removeprefix(QUEUE)
    return queue_of(destination, subscription)


def unknown_backlog(destination: str, subscription: str) -> Backlog:
    """Return the backlog of a place without numbers; all subscriptions of ``queue:NAME`` share one."""
    if destination.startswith(QUEUE):
        return Backlog(destination=destination)
    return Backlog(destination=destination, subscription=subscription)


def address_of(destination: str) -> tuple[str, str]:
    """Return exchange and routing key of a destination."""
    if destination.startswith((QUEUE, TEMPORARY)):
        return "", destination.removeprefix(QUEUE)
    return destination, ""


def refuse_stream(queue: str, queue_type: str | None) -> None:
    """Refuse a stream: it takes nothing back, and starts each consumer at its end.

    Raises:
        ConfigurationError: the queue is a stream.
    """
    if queue_type == "stream":
        raise ConfigurationError(
            "destination",
            f"{queue!r} is a stream, which delivers again nothing that was given back, nor what came while "
            "nobody consumed",
            "consume a quorum queue that is bound to the same exchange",
        )


def dead_letters_of(destination: str) -> str:
    """Name the destination of the dead letters of a destination."""
    return f"DLQ.{destination.removeprefix(QUEUE)}"


#: Since this version RabbitMQ expels messages that were delivered too often; before, the default was no
#: limit.
LIMITING = 4


def arguments_of(destination: str, *, quorum: bool, version: int) -> dict[str, Any]:
    """Return the arguments with which a subscription's queue is declared, on that version of RabbitMQ."""
    arguments: dict[str, Any] = {"x-queue-type": "quorum" if quorum else "classic"}
    if not destination.startswith(dead_letters_of("")):
        arguments["x-dead-letter-exchange"] = dead_letters_of(destination)
    if quorum:
        # A message that a policy expels stays until its dead letter is stored. Without one, none is expelled.
        arguments |= {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
        if version >= LIMITING:
            arguments["x-delivery-limit"] = -1
    return arguments
