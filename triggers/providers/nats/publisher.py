"""Sending to NATS: the call returns when a stream has each message; an error is no guess.

Everything here runs on the connection's thread.
"""

import json
from asyncio import Future
from collections.abc import Sequence
from typing import Any

from triggers.providers.nats.codec import Published
from triggers.providers.nats.connection import Connection, refusal
from triggers.providers.nats.replies import NobodyError
from triggers.providers.nats.settings import NatsSettings
from triggers.providers.nats.streams import stream_of
from triggers.providers.provider import ProviderUnavailableError

#: How many messages are on their way at once, at most.
CHUNK = 500

#: How long a stream may take to say that it has some messages, in seconds.
PATIENCE = 20.0


async def publish(
    connection: Connection, subject: str, messages: Sequence[Published], settings: NatsSettings
) -> None:
    """Send in order, and return when the subject's stream has all of them; it is made where it is missing.

    Raises:
        ProviderUnavailableError: it is unknown which of them arrived.
        ConfigurationError: one of them can never be sent so.
    """
    for first in range(0, len(messages), CHUNK):
        chunk = messages[first : first + CHUNK]
        await _look(connection, subject, settings)
        left = await _send(connection, subject, chunk)
        if left:  # the stream is gone since it was looked for, and so nobody took these
            connection.streamed.discard(subject)
            await _look(connection, subject, settings)
            if await _send(connection, subject, left):
                raise ProviderUnavailableError("NATS", f"sending to {subject!r}: no stream takes it")


async def _look(connection: Connection, subject: str, settings: NatsSettings) -> None:
    """Look for the stream once a connection: somebody without one may listen to the subject, too."""
    if subject not in connection.streamed:
        await stream_of(connection, subject, settings)
        connection.streamed.add(subject)


async def _send(connection: Connection, subject: str, messages: Sequence[Published]) -> list[Published]:
    """Send messages; return those that nobody took."""
    answers = [
        await connection.replies.request(subject, message.payload, message.headers) for message in messages
    ]
    await connection.replies.wait(answers, PATIENCE)
    return [
        message for message, answer in zip(messages, answers, strict=True) if not _is_stored(answer, subject)
    ]


def _is_stored(answer: "Future[bytes]", subject: str) -> bool:
    """Whether a stream has the message of this answer; False where nobody has it."""
    error = answer.exception()
    if isinstance(error, NobodyError):
        return False
    if error is not None:
        raise error
    told: dict[str, Any] = json.loads(answer.result())
    if (refused := told.get("error")) is not None:
        doing = f"sending to {subject!r}"
        raise refusal(refused.get("err_code"), refused.get("description"), doing)
    return True
