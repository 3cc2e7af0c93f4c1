"""Finds out how a queue of RabbitMQ is declared: its type, and when it gives a message up.

AMQP 0-9-1 cannot read a queue's arguments. But if a client declares an existing queue with other arguments,
RabbitMQ names the first that differs: so we find them one by one. These questions can never make a queue:
each contains an argument that RabbitMQ refuses for a new one.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager

from history.errors import ConfigurationError, NotPermittedError
from triggers.providers.provider import DeliveryLimit
from triggers.providers.rabbitmq.settings import LIMITING

#: Values that no queue has: an unknown type, and a limit that is not a number.
_NO_TYPE, _NO_LIMIT = {"x-queue-type": "doctor"}, {"x-delivery-limit": "doctor"}

#: How many questions about a queue at most; it has some dozen arguments.
_MOST = 20

#: RabbitMQ's error about the first argument that differs; without "current" the queue lacks it.
_DIFFERS = re.compile(
    r"inequivalent arg '([\w-]+)' for queue .*"
    r"\bcurrent is (?:(?:the value )?'(.*?)'(?: of type '(\w+)')?|none)"
)

#: The limit of a quorum queue in RabbitMQ 4 by default.
DEFAULT_LIMIT = 20

_UNSEEN = "a policy of RabbitMQ may set delivery-limit or dead-letter-exchange, and AMQP does not report it"

#: Declares a queue with these arguments.
Declare = Callable[[Mapping[str, object]], Awaitable[object]]


async def limit_of_queue(declare: Declare, version: int) -> DeliveryLimit | None:
    """Return the limit of a queue, over AMQP 0-9-1; None if it has none, or does not exist.

    Raises:
        ProviderUnavailableError: RabbitMQ does not answer.
    """
    queue_type, matching = "", dict[str, object]()
    for _ in range(_MOST):
        wrong = _NO_LIMIT if queue_type == "quorum" else _NO_TYPE
        try:
            differing = await _differing(declare, {**matching, **wrong})
        except NotPermittedError:
            return unseen("its account may not declare the queue, and so not ask how it is declared")
        if differing is None:  # the queue does not exist, or belongs to another connection
            return None
        name, value = differing
        if name == "x-queue-type":
            queue_type = str(value or "classic")
            matching |= {name: queue_type}
            if queue_type != "quorum":
                return None
        elif name == "x-delivery-limit":
            return limit_of({**matching, name: value}, version)
        elif value is None or name in matching:
            break
        else:
            matching[name] = value
    return unseen("RabbitMQ does not say how the queue is declared")


async def kind_of_queue(declare: Declare) -> str | None:
    """Return the type of a queue, over AMQP 0-9-1; None if RabbitMQ does not say, or without a queue.

    Raises:
        ProviderUnavailableError: RabbitMQ does not answer.
    """
    matching = dict[str, object]()
    for _ in range(_MOST):
        try:
            differing = await _differing(declare, {**matching, **_NO_TYPE})
        except NotPermittedError:
            return None
        if differing is None:
            return None
        name, value = differing
        if name == "x-queue-type":
            return str(value or "classic")
        if value is None or name in matching:
            return None
        matching[name] = value
    return None


async def _differing(declare: Declare, arguments: Mapping[str, object]) -> tuple[str, object] | None:
    """Return the first argument of a queue that differs, and its value; None if the queue does not exist.

    Raises:
        NotPermittedError: the account may not ask.
        ProviderUnavailableError: RabbitMQ does not answer.
    """
    try:
        with _unlogged():
            await declare(arguments)
    except NotPermittedError:
        raise
    except ConfigurationError as error:
        match = _DIFFERS.search(error.problem)
        return None if match is None else (match[1], _read(match[2], match[3]))
    return "", None


@contextmanager
def _unlogged() -> Generator[None]:
    """Keep pika from warning of an expected refusal."""
    log = logging.getLogger("pika.channel")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def limit_of(arguments: Mapping[str, object], version: int) -> DeliveryLimit | None:
    """Return the limit of a queue with these arguments; None if it has none."""
    if arguments.get("x-queue-type") != "quorum":
        return None
    limit, exchange = arguments.get("x-delivery-limit"), arguments.get("x-dead-letter-exchange")
    if limit is None and version >= LIMITING:
        limit = DEFAULT_LIMIT
    # The limit counts redeliveries; the first delivery comes before them.
    deliveries = int(limit) + 1 if isinstance(limit, int) and limit >= 0 else None
    then = "it is dropped, unless a policy has a dead-letter exchange"
    if exchange is not None:
        then = f"it goes to the exchange {exchange}"
    return DeliveryLimit(deliveries, then, is_kept=exchange is not None, unseen=_UNSEEN)


def unseen(why: str) -> DeliveryLimit:
    """Return a limit that could not be read."""
    return DeliveryLimit(None, unseen=why)


def _read(value: str | None, value_type: str | None) -> object:
    """Return a value of an argument as it is declared; RabbitMQ does not always name its type."""
    if value is None:
        return None
    if value_type == "bool":
        return value == "true"
    is_number = value_type != "longstr" if value_type else re.fullmatch(r"-?\d+", value) is not None
    return int(value) if is_number else value
