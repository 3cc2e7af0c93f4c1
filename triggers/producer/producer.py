"""``Producer`` and ``send``: how services and programs send messages.

``outgoing.py`` composes messages, ``sender.py`` sends them, ``queue/queue.py`` is the queue on disk,
``queue/drain.py`` empties it, ``request_reply.py`` waits for replies and answers duplicate requests, and
``delivery_failure.py`` is the event when a queued message is given up.
"""

import asyncio
import os
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from history.bridge import drive
from history.errors import ConfigurationError
from history.message import Message
from history.shell import TaskShell, ThreadShell
from history.support.forks import forkable_lock
from history.support.loops import PerLoop
from triggers.producer.queue.drain import Drained
from triggers.producer.queue.queue import ClientQueue
from triggers.producer.request_reply import first_reply
from triggers.producer.sender import Sender
from triggers.producer.settings import (
    DEFAULT_MAX_REDELIVERY_COUNT,
    DEFAULT_QUEUE_LIMIT,
    DEFAULT_SEND_RETRY,
    ProducerSettings,
    check_sources,
)
from triggers.providers.opening import open_provider
from triggers.providers.outgoing import (
    Body,
    SendOptions,
    SentMessage,
    compose,
    compose_batch,
    compose_reply,
    compose_request,
    running_sends,
)
from triggers.providers.provider import Provider
from triggers.service.checking import pointing
from triggers.service.failures import Retry

if TYPE_CHECKING:
    from triggers.service.outcome import Outcome


class Producer:
    """Sends messages. Safe to share between threads. It connects when you first use it.

        with Producer("redis://127.0.0.1:6379/0") as producer:
            producer.send("orders", {"customer": "Ann", "amount": 12}, uuid="order-17")

    The methods that begin with ``a``, such as ``asend`` and ``arequest``, are the same for asyncio. Messages
    to one destination leave in the order of their calls, even while one of them is tried again.

    Args:
        provider: a URL or a provider.
        alias: the producer's name, in logs and events, and the owner of its queue.
        queue: the file that takes messages while the provider is away; without a file, sending raises. The
            queue is drained in the background, from the first use of the producer on.
        encrypt: where the key for the queue is: ``file:/path`` or ``env:NAME`` (extra ``encryption``).
            Messages that were queued in plain before are also sent.
        queue_limit: how many messages may wait in it; -1 for any number, 0 for none.
        ordered: while messages wait, new ones wait behind them; False lets new ones go directly.
        retry: further tries of one send, under the same uuid, before it raises or is queued.
        max_redelivery_count: if a queued message fails so often although the provider is there, it is given
            up: a delivery failure event is raised, and the message is kept among ``producer.queue.failed()``.
        tracing: True makes an OpenTelemetry span of each sending (extra ``otel``), and the messages carry its
            context in the properties ``traceparent`` and ``tracestate``.

    Raises:
        ConfigurationError: an argument is wrong; the error names it and the remedy.

    Guarantee: a message that was sent arrives at least once, under one uuid, so that a trigger with a
    document history runs once for it. With a queue, "sent" includes "on this disk". Messages of a transacted
    trigger's service follow its run: a failed try sends nothing, and each try has the same uuids.
    """

    def __init__(  # noqa: PLR0913  (its options are its parameters)
        self,
        provider: str | Provider,
        *,
        alias: str = "default",
        queue: Path | str | None = None,
        encrypt: str | None = None,
        queue_limit: int = DEFAULT_QUEUE_LIMIT,
        ordered: bool = True,
        retry: Retry = DEFAULT_SEND_RETRY,
        max_redelivery_count: int = DEFAULT_MAX_REDELIVERY_COUNT,
        tracing: bool = False,
    ) -> None:
        with pointing():
            check_sources(provider, queue)
            self._settings = ProducerSettings(
                alias=alias,
                queue=None if queue is None else Path(queue),
                queue_limit=queue_limit,
                ordered=ordered,
                retry=retry,
                max_redelivery_count=max_redelivery_count,
                tracing=tracing,
            )
            self._provider = open_provider(provider) if isinstance(provider, str) else provider
            self.queue = self._open_queue(encrypt)
        self._owned = isinstance(provider, str)
        self._begin()

    def _open_queue(self, encrypt: str | None) -> ClientQueue | None:
        settings, file = self._settings, self._settings.queue
        if file is not None:
            return ClientQueue(file, alias=settings.alias, limit=settings.queue_limit, encrypt=encrypt)
        if encrypt is not None:
            raise ConfigurationError("encrypt", "there is no queue to encrypt", "give queue=")
        return None

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = forkable_lock()
        self._blocking: Sender | None = None
        self._asyncio = PerLoop[Sender]()

    @property
    def alias(self) -> str:
        """The producer's name."""
        return self._settings.alias

    def send(self, destination: str, body: Body | Message, **options: Unpack[SendOptions]) -> SentMessage:
        """Send one message; see :class:`~triggers.providers.outgoing.SendOptions` for its options.

        In the service of a transacted trigger, it leaves when the service has succeeded. If the provider is
        in the database of the transaction, it leaves in the transaction. A try that fails sends nothing. If
        it cannot be sent then, the service has failed.

        Raises:
            ProviderUnavailableError: it is unknown whether it arrived, and it could not be queued. Send it
                again under the same uuid; in a trigger service, just let it pass: it is transient.
            ClientQueueFullError: likewise, and the queue has no room.
            ConfigurationError: it can never be sent so.
        """
        message = compose(destination, body, **options)
        return drive(self._sent(destination, [message], blocking=True))[0]

    async def asend(
        self, destination: str, body: Body | Message, **options: Unpack[SendOptions]
    ) -> SentMessage:
        """Send one message under asyncio; see :meth:`send`."""
        message = compose(destination, body, **options)
        return (await self._sent(destination, [message], blocking=False))[0]

    def send_batch(
        self, destination: str, bodies: Sequence[Body | Message], **options: Unpack[SendOptions]
    ) -> Sequence[SentMessage]:
        """Send many messages in order, in as few round trips as the provider can; options hold for each.

        Raises as :meth:`send`, for all of them together: some may have arrived.
        """
        return drive(self._sent(destination, compose_batch(destination, bodies, **options), blocking=True))

    async def asend_batch(
        self, destination: str, bodies: Sequence[Body | Message], **options: Unpack[SendOptions]
    ) -> Sequence[SentMessage]:
        """Send many messages under asyncio; see :meth:`send_batch`."""
        return await self._sent(destination, compose_batch(destination, bodies, **options), blocking=False)

    def request(
        self, destination: str, body: Body | Message, *, timeout: timedelta, **options: Unpack[SendOptions]
    ) -> Message | None:
        """Send a message and wait for the reply to it; None if none has come in time.

        A reply that comes later is dropped. Requests are never queued on disk.

        Raises:
            ProviderUnavailableError: it is unknown whether the request arrived.
            ConfigurationError: it can never be sent so, or another request with its uuid waits already.
        """
        message = compose_request(destination, body, timeout, **options)
        return drive(self._sender().request(destination, message, patience=timeout))

    async def arequest(
        self,
        destination: str,
        body: Body | Message,
        *,
        timeout: timedelta,  # noqa: ASYNC109  (a time-out is an answer here, not an error)
        **options: Unpack[SendOptions],
    ) -> Message | None:
        """Send a message and wait for the reply under asyncio; see :meth:`request`."""
        message = compose_request(destination, body, timeout, **options)
        return await self._async_sender().request(destination, message, patience=timeout)

    def reply(self, request: Message, body: Body | Message, **options: Unpack[SendOptions]) -> SentMessage:
        """Reply to a request, such as from its trigger service.

        The reply's uuid follows from the request's, so that a service that runs again sends the same reply
        again, and not a second one. A service that sends several replies gives each a different ``uuid``.

        Raises as :meth:`send`, and:
            ConfigurationError: the request has no JMSReplyTo.
        """
        message = compose_reply(request, body, **options)
        return drive(self._sent(request.reply_to or "", [message], blocking=True))[0]

    async def areply(
        self, request: Message, body: Body | Message, **options: Unpack[SendOptions]
    ) -> SentMessage:
        """Reply to a request under asyncio; see :meth:`reply`."""
        message = compose_reply(request, body, **options)
        return (await self._sent(request.reply_to or "", [message], blocking=False))[0]

    def reply_again(self, request: Message, outcome: "Outcome") -> None:
        """Reply to a duplicate request with the first reply: ``on_duplicate=producer.reply_again``.

        For a trigger with ``keep_result=`` and a service that returns its reply. A duplicate without a kept
        result gets no reply, and the log says so; a message that is not a request needs none.

        Raises as :meth:`send`.
        """
        if (body := first_reply(request, outcome)) is not None:
            self.reply(request, body)

    async def areply_again(self, request: Message, outcome: "Outcome") -> None:
        """Reply to a duplicate request under asyncio; see :meth:`reply_again`."""
        if (body := first_reply(request, outcome)) is not None:
            await self.areply(request, body)

    def start(self) -> None:
        """Begin to drain the messages in the queue; the first send does the same."""
        self._sender().look_after_backlog()

    def drain(self) -> Drained:
        """Send the messages in the queue now; return when none waits, or the provider is away.

        Waits for its turn while another thread or process drains the same queue.

        Raises:
            ConfigurationError: the producer has no queue.
            ClientQueueUnavailableError: its file cannot be used.
        """
        return drive(self._sender().drain())

    async def adrain(self) -> Drained:
        """Send the messages in the queue under asyncio; see :meth:`drain`."""
        return await self._async_sender().drain()

    def close(self) -> None:
        """End the background work and give the connections back; waiting messages stay on disk.

        In the service of a transacted trigger, it takes effect when the run has ended.
        """
        drive(self._close(blocking=True))

    async def aclose(self) -> None:
        """End the background work of the running event loop; see :meth:`close`."""
        await self._close(blocking=False)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self._async_sender().look_after_backlog()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _sent(
        self, destination: str, messages: Sequence[Message], *, blocking: bool
    ) -> Sequence[SentMessage]:
        """Send messages; those of a transacted trigger's service leave when it has succeeded."""
        sends = running_sends()
        if sends is None:
            return await self._sender_of(blocking=blocking).send(destination, messages)

        async def leave(connection: Any) -> None:
            # The service may have sent them in a thread, or in an event loop that is over.
            await self._sender_of(blocking=sends.blocking).send_for(connection, destination, messages)

        sends.keep(leave)
        return [SentMessage(message) for message in messages]

    async def _close(self, *, blocking: bool) -> None:
        """Close the senders of one kind, after the messages of a running service have left."""
        if (sends := running_sends()) is not None:
            sends.at_end(partial(self._end, blocking=sends.blocking))
        if sends is None or sends.blocking != blocking:
            await self._end(blocking=blocking)

    async def _end(self, *, blocking: bool) -> None:
        self._leave_to_parent()
        if blocking:
            with self._lock:
                sender, self._blocking = self._blocking, None
        else:
            sender = self._asyncio.pop_running()
        if sender is not None:
            await sender.close()
        if self.queue is not None:
            self.queue.close()

    def _sender_of(self, *, blocking: bool) -> Sender:
        return self._sender() if blocking else self._async_sender()

    def _leave_to_parent(self) -> None:
        """Begin again in a forked child: it has none of its parent's threads, and maybe their locks."""
        if self._process != os.getpid():
            self._begin()

    def _sender(self) -> Sender:
        self._leave_to_parent()
        with self._lock:
            if self._blocking is None:
                self._blocking = Sender(
                    self._settings, self._provider, ThreadShell(), queue=self.queue, owned=self._owned
                )
            return self._blocking

    def _async_sender(self) -> Sender:
        self._leave_to_parent()
        return self._asyncio.of_running(self._sender_for_asyncio)

    def _sender_for_asyncio(self, _: asyncio.AbstractEventLoop) -> Sender:
        provider = self._provider.for_asyncio()
        owned = provider is not self._provider or self._owned
        return Sender(self._settings, provider, TaskShell(), queue=self.queue, owned=owned)


def send(
    destination: str, body: Body | Message, *, provider: str | Provider, **options: Unpack[SendOptions]
) -> SentMessage:
    """Send one message over a separate connection. To send many, keep a :class:`Producer`.

        send("orders", {"customer": "Ann"}, uuid="order-17", provider="redis://127.0.0.1:6379/0")

    It raises the same errors as :meth:`Producer.send`.
    """
    with Producer(provider) as producer:
        return producer.send(destination, body, **options)
