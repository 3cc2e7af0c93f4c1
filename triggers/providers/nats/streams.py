"""The stream of a subject and the durable consumer of a subscription: found, or made; and their backlog.

Everything here runs on the connection's thread.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from history.errors import ConfigurationError
from triggers.providers.backlog import Backlog, Place
from triggers.providers.nats.connection import ANSWER, NatsConnection, driver
from triggers.providers.nats.settings import UNLIMITED, NatsSettings, has_wildcards, later_of, plain
from triggers.providers.provider import DeliveryLimit

#: JetStream's codes if another client has just made a stream of this name, or of this subject.
_MADE_MEANWHILE = (10058, 10065)

#: How many requests of consumers may wait for messages at a time: one for each worker.
_MOST_WAITING = 10_000


@dataclass(frozen=True, slots=True)
class Bound:
    """A durable consumer; ``ack_wait`` is in seconds, ``max_deliver`` is -1 without a limit."""

    stream: str
    durable: str
    ack_wait: float
    max_deliver: int


async def stream_of(connection: NatsConnection, subject: str, settings: NatsSettings) -> str:
    """Return the name of the stream that has a subject; if none has it, make one, named like the subject.

    Raises:
        ConfigurationError: the stream is missing and may not be made, or several have the subject.
    """
    names = await _streams(connection, subject)
    if not names:
        names = await _make(connection, subject, settings)
    if len(names) > 1:
        raise ConfigurationError(
            "destination",
            f"{subject!r} is in several streams of NATS: {', '.join(sorted(names)[:5])}",
            "name a subject of one of them",
        )
    return names[0]


async def _streams(connection: NatsConnection, subject: str) -> list[str]:
    return list((await _ask(connection, "STREAM.NAMES", {"subject": subject})).get("streams") or ())


async def _ask(connection: NatsConnection, what: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Ask JetStream directly: only newer releases of nats-py know the newer settings of streams."""
    answer = await connection.replies.request(f"$JS.API.{what}", json.dumps(arguments).encode())
    await connection.replies.wait([answer], ANSWER)
    reply: dict[str, Any] = json.loads(answer.result())
    if (error := reply.get("error")) is not None:
        raise driver.js.errors.APIError(**error)
    return reply


async def _make(connection: NatsConnection, subject: str, settings: NatsSettings) -> list[str]:
    if not settings.create:
        raise ConfigurationError(
            "destination", f"NATS has no stream with the subject {subject!r}", "make one, or correct it"
        )
    config: dict[str, Any] = {
        "name": plain(subject),
        "description": "made by doubtless",
        "subjects": [subject],
        "retention": "limits",
        "storage": "file",
        "num_replicas": settings.replicas,
        "max_age": (settings.max_age or 0) * 1_000_000_000,
    }
    if connection.schedules and not has_wildcards(subject):
        config |= {"subjects": [subject, later_of(subject)], "allow_msg_schedules": True}
    try:
        await _ask(connection, f"STREAM.CREATE.{config['name']}", config)
    except driver.js.errors.APIError as error:
        if error.err_code not in _MADE_MEANWHILE:
            raise
        names = await _streams(connection, subject)
        if not names:
            raise
        return names
    return [plain(subject)]


async def bind(connection: NatsConnection, destination: str, durable: str, settings: NatsSettings) -> Bound:
    """Return a durable consumer; a missing one is made.

    Raises:
        ConfigurationError: it is missing and may not be made, or it cannot be used.
    """
    stream = await stream_of(connection, destination, settings)
    manager = connection.native.jsm(timeout=ANSWER)
    try:
        info = await manager.consumer_info(stream, durable)
    except driver.js.errors.NotFoundError:
        if not settings.create:
            raise ConfigurationError(
                "durable", f"the stream {stream} has no consumer {durable!r}", "make it, or correct its name"
            ) from None
        info = await manager.add_consumer(stream, _consumer(destination, durable, settings))
    return _checked(stream, durable, info.config)


def _consumer(destination: str, durable: str, settings: NatsSettings) -> Any:
    api = driver.js.api
    return api.ConsumerConfig(
        name=durable,
        durable_name=durable,
        description="made by doubtless",
        deliver_policy=api.DeliverPolicy.ALL if settings.start == "all" else api.DeliverPolicy.NEW,
        ack_policy=api.AckPolicy.EXPLICIT,
        ack_wait=settings.ack_wait,
        max_deliver=UNLIMITED,
        filter_subject=destination,
        max_waiting=_MOST_WAITING,
        max_ack_pending=UNLIMITED,  # a message that waits for its retry does not delay others
    )


def _checked(stream: str, durable: str, config: Any) -> Bound:
    problem = ""
    if config.deliver_subject:
        problem = "is a push consumer"
    elif config.ack_policy != driver.js.api.AckPolicy.EXPLICIT:
        problem = f"has the ack policy {config.ack_policy}"
    if problem:
        raise ConfigurationError(
            "durable",
            f"{durable!r} of the stream {stream} {problem}",
            "name a pull consumer with the ack policy explicit",
        )
    waits = [config.ack_wait, *(config.backoff or ())]
    return Bound(stream, durable, min(waits), config.max_deliver or UNLIMITED)


async def limit_of(connection: NatsConnection, destination: str, durable: str) -> DeliveryLimit | None:
    """Return after how many deliveries a durable consumer gives a message up; None for a missing one."""
    streams = await _streams(connection, destination)
    if len(streams) != 1:
        return None
    try:
        info = await connection.native.jsm(timeout=ANSWER).consumer_info(streams[0], durable)
    except driver.js.errors.NotFoundError:
        return None
    limit = info.config.max_deliver or UNLIMITED
    then = "it stays in the stream, and the consumer is not given it again"
    return None if limit == UNLIMITED else DeliveryLimit(limit, then, is_kept=True)


async def backlogs_of(
    connection: NatsConnection, places: Sequence[Place], settings: NatsSettings
) -> Sequence[Backlog]:
    """Return the backlogs of the durable consumers of these places; nothing is made."""
    return [await _backlog(connection, pair, settings) for pair in places]


async def _backlog(connection: NatsConnection, pair: Place, settings: NatsSettings) -> Backlog:
    destination, subscription = pair
    of = partial(Backlog, destination=destination, subscription=subscription)
    streams = await _streams(connection, destination)
    if len(streams) != 1:
        return of()
    durable = settings.durable_of(destination, subscription)
    try:
        info = await connection.native.jsm(timeout=ANSWER).consumer_info(streams[0], durable)
    except driver.js.errors.NotFoundError:
        return of()
    return of(waiting=info.num_pending, held=info.num_ack_pending)
