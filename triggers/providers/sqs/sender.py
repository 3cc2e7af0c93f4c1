"""Sending to SQS: up to ten messages a request, and up to its limit of bytes; an error is never a guess."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from history.errors import ConfigurationError
from triggers.providers.provider import ProviderUnavailableError
from triggers.providers.sqs.codec import Sent
from triggers.providers.sqs.link import LARGEST, MOST, QueueGoneError, SqsLink, failed_of
from triggers.providers.sqs.settings import FIFO

#: For how many seconds SQS delays a message, at most.
LONGEST_DELAY = 900

#: In a FIFO queue, the group of messages that name none: all of these keep their order.
NO_GROUP = "none"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message for a queue; ``name`` is its JMSMessageID, ``delay`` in seconds."""

    sent: Sent
    name: str
    group: str | None
    delay: int


def send(link: SqsLink, queue: str, messages: Sequence[Outgoing]) -> None:
    """Send in order.

    Raises:
        ProviderUnavailableError: it is unknown which of them arrived.
        ConfigurationError: one of them can never be sent so.
    """
    for message in messages:
        _check(queue, message)
    for chunk in _chunks(messages):
        try:
            _send(link, queue, chunk)
        except QueueGoneError:  # SQS took none of them
            link.forget(queue)
            _send(link, queue, chunk)


def _check(queue: str, message: Outgoing) -> None:
    if message.sent.size > LARGEST:
        problem = f"it has {message.sent.size} bytes, and SQS takes {LARGEST}"
        raise ConfigurationError("message", problem, "send less, or a reference to it")
    if message.delay > LONGEST_DELAY:
        problem = f"is {message.delay} seconds ahead, and SQS delays for {LONGEST_DELAY} at most"
        raise ConfigurationError("delivery_time", problem, "send it later, or use Redis Streams")
    if message.delay and queue.endswith(FIFO):
        problem = "a FIFO queue of SQS delays no single message"
        raise ConfigurationError("delivery_time", problem, "send it when it is due, or to a standard queue")


def _chunks(messages: Sequence[Outgoing]) -> list[list[Outgoing]]:
    chunks: list[list[Outgoing]] = []
    size = 0
    for message in messages:
        size += message.sent.size
        if not chunks or len(chunks[-1]) == MOST or size > LARGEST:
            chunks.append([])
            size = message.sent.size
        chunks[-1].append(message)
    return chunks


def _send(link: SqsLink, queue: str, chunk: Sequence[Outgoing]) -> None:
    doing = f"sending to {queue!r}"
    entries = [_entry(queue, str(number), message) for number, message in enumerate(chunk)]
    address = link.address_of(queue)
    for failed in failed_of(link.call(doing, "send_message_batch", QueueUrl=address, Entries=entries)):
        problem = f"{failed.get('Message', '')} ({failed.get('Code', '')})"
        if failed.get("SenderFault"):
            raise ConfigurationError("message", f"SQS refuses it: {problem}", "correct it")
        raise ProviderUnavailableError("SQS", f"{doing}: {problem}")


def _entry(queue: str, number: str, message: Outgoing) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "Id": number,
        "MessageBody": message.sent.body,
        "MessageAttributes": dict(message.sent.attributes),
    }
    if queue.endswith(FIFO):
        # By the name, not the uuid: the history must judge what is sent again on purpose.
        entry |= {"MessageGroupId": message.group or NO_GROUP, "MessageDeduplicationId": message.name[:128]}
    elif message.delay:
        entry["DelaySeconds"] = message.delay
    return entry
