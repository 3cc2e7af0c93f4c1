"""What can be set on the RabbitMQ provider, and the names it gives things."""

from dataclasses import dataclass
from typing import Any, Literal, Self

from history.errors import ConfigurationError
from triggers.providers.backlog import Backlog
from triggers.providers.brokers.trust import FirstCount
from triggers.providers.brokers.url import BrokerUrl

QueueType = Literal["quorum", "classic"]

#: How a destination begins that is a queue of that name, which somebody else declared.
QUEUE = "queue:"

#: How the name of a temporary destination's queue begins.
TEMPORARY = "doubtless.temporary."

_EXAMPLE = "rabbitmq://user:password@host:5672/vhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitmqSettings:
    """The settings; they stand in the URL's query.

    - ``queue_type`` of the queues that are declared here: ``quorum`` (the default), whose delivery count is
      exact, or ``classic``, which has none. For a ``queue:NAME`` it says what that queue is; left out, a
      missing count is -1.
    - ``first_count``: see :class:`~triggers.providers.brokers.trust.FirstCount`.
    """

    queue_type: QueueType | None = None
    first_count: FirstCount = FirstCount.WEIGHED

    @classmethod
    def from_url(cls, url: str) -> tuple[Self, BrokerUrl]:
        """Read a URL.

        Raises:
            ConfigurationError: it is none, or a setting has no such value.
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
    """Name the queue that is read at a place; ``queue:NAME`` is one for all subscriptions."""
    if destination.startswith(QUEUE):
        return destination.removeprefix(QUEUE)
    return queue_of(destination, subscription)


def unknown_backlog(destination: str, subscription: str) -> Backlog:
    """Return the backlog of a place without numbers; of a ``queue:NAME`` all are one."""
    if destination.startswith(QUEUE):
        return Backlog(destination=destination)
    return Backlog(destination=destination, subscription=subscription)


def address_of(destination: str) -> tuple[str, str]:
    """Return exchange and routing key of a destination."""
    if destination.startswith((QUEUE, TEMPORARY)):
        return "", destination.removeprefix(QUEUE)
    return destination, ""


def refuse_stream(queue: str, kind: str | None) -> None:
    """Refuse a stream: it takes nothing back, and begins each consumer where it ends.

    Raises:
        ConfigurationError: the queue is one.
    """
    if kind == "stream":
        raise ConfigurationError(
            "destination",
            f"{queue!r} is a stream, which delivers again nothing that was given back, nor what came while "
            "nobody consumed",
            "consume a quorum queue that is bound to the same exchange",
        )


def dead_letters_of(destination: str) -> str:
    """Name the destination of the dead letters of a destination."""
    return f"DLQ.{destination.removeprefix(QUEUE)}"


#: Since when RabbitMQ expels by itself what was delivered too often; before, there was no limit by default.
LIMITING = 4


def arguments_of(destination: str, *, quorum: bool, version: int) -> dict[str, Any]:
    """Return the arguments that a subscription's queue is declared with, on that version of RabbitMQ."""
    arguments: dict[str, Any] = {"x-queue-type": "quorum" if quorum else "classic"}
    if not destination.startswith(dead_letters_of("")):
        arguments["x-dead-letter-exchange"] = dead_letters_of(destination)
    if quorum:
        # What the broker expels stays until somebody has the dead letter; by itself it expels nothing.
        arguments |= {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
        if version >= LIMITING:
            arguments["x-delivery-limit"] = -1
    return arguments
