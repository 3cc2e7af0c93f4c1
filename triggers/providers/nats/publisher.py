"""Sending to NATS: the call returns when a stream has each message; an error is never a guess.

Everything here runs on the connection's thread.
"""

import json
from asyncio import Future
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from history.errors import ConfigurationError
from triggers.providers.nats.codec import Published
from triggers.providers.nats.connection import Connection, refusal
from triggers.providers.nats.replies import NobodyError
from triggers.providers.nats.settings import NatsSettings, later_of
from triggers.providers.nats.streams import stream_of
from triggers.providers.provider import ProviderUnavailableError

#: A message, and its subject.
Addressed = tuple[str, Published]

#: How many messages are on their way at a time, at most.
CHUNK = 500

#: How long a stream may take to confirm some messages, in seconds.
PATIENCE = 20.0


async def publish(
    connection: Connection, subject: str, messages: Sequence[Published], settings: NatsSettings
) -> None:
    """Send in order, and return when the subject's stream has all of them; a missing stream is made.

    Raises:
        ProviderUnavailableError: it is unknown which of them arrived.
        ConfigurationError: one of them can never be sent so.
    """
    for first in range(0, len(messages), CHUNK):
        chunk = messages[first : first + CHUNK]
        await _look(connection, subject, settings)
        left = await _send(connection, [(subject, message) for message in chunk])
        if left:  # the stream was deleted after the check, so nobody took these
            connection.streamed.discard(subject)
            await _look(connection, subject, settings)
            if await _send(connection, left):
                raise ProviderUnavailableError("NATS", f"sending to {subject!r}: no stream takes it")


async def publish_later(
    connection: Connection, subject: str, messages: Sequence[Published], settings: NatsSettings
) -> None:
    """Send messages that wait in the subject's stream until they are due; raises as :func:`publish`."""
    await _look(connection, subject, settings)
    place = later_of(subject).removesuffix("*")
    for first in range(0, len(messages), CHUNK):
        chunk = [(place + uuid4().hex, message) for message in messages[first : first + CHUNK]]
        if await _send(connection, chunk):
            raise ConfigurationError(
                "delivery_time",
                f"the stream of {subject!r} keeps nothing until it is due",
                f"give it allow_msg_schedules and the subject {later_of(subject)} (NATS 2.12), "
                "or send the message when it is due",
            )


async def _look(connection: Connection, subject: str, settings: NatsSettings) -> None:
    """Look for the stream once a connection: without one, another listener might answer for the subject."""
    if subject not in connection.streamed:
        await stream_of(connection, subject, settings)
        connection.streamed.add(subject)


async def _send(connection: Connection, addressed: Sequence[Addressed]) -> list[Addressed]:
    """Send messages; return the ones without a stream."""
    answers = [
        await connection.replies.request(subject, message.payload, message.headers)
        for subject, message in addressed
    ]
    await connection.replies.wait(answers, PATIENCE)
    return [one for one, answer in zip(addressed, answers, strict=True) if not _is_stored(answer, one[0])]


def _is_stored(answer: "Future[bytes]", subject: str) -> bool:
    """Whether a stream has the message of this answer; False if nobody has it."""
    error = answer.exception()
    if isinstance(error, NobodyError):
        return False
    if error is not None:
        raise error
    reply: dict[str, Any] = json.loads(answer.result())
    if (refused := reply.get("error")) is not None:
        doing = f"sending to {subject!r}"
        raise refusal(refused.get("err_code"), refused.get("description"), doing)
    return True
