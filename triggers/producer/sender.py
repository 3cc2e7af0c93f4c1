"""The way of a message from a producer: to the provider, or onto the disk; one for each kind of caller."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

from history.errors import ConfigurationError
from history.message import Message
from history.shell import Lock, Shell
from triggers.producer.queue.drain import Drained, Drainer
from triggers.producer.queue.queue import ClientQueue
from triggers.producer.request_reply import Replies
from triggers.producer.settings import ProducerSettings
from triggers.providers.outgoing import SentMessage
from triggers.providers.provider import (
    InDatabase,
    Provider,
    ProviderUnavailableError,
    capabilities_of,
)
from triggers.service.failures import Retry, rerun

_ONE_TRY = Retry()

#: How long closing waits for background work, in seconds.
CLOSE_PATIENCE = 5.0

#: Destinations share so many locks, so that a lock need not be kept for each destination ever used.
_LOCKS = 64


class Sender:
    """Sends over one provider; its callers all block, or all run on one event loop."""

    def __init__(
        self,
        settings: ProducerSettings,
        provider: Provider,
        shell: Shell,
        *,
        queue: ClientQueue | None,
        owned: bool,
    ) -> None:
        self._settings = settings
        self._provider = provider
        self._shell = shell
        self._queue = queue
        self._owned = owned
        self._draining = False
        self._span = _tracing() if settings.tracing else None
        self._locks = [shell.lock() for _ in range(_LOCKS)]
        self.replies = Replies(provider, shell, settings.alias)
        self.drainer = (
            None
            if queue is None
            else Drainer(
                queue=queue,
                provider=provider,
                shell=shell,
                max_redelivery_count=settings.max_redelivery_count,
                woken=shell.flag(),
                reached=shell.flag(),
            )
        )

    async def send(
        self, destination: str, messages: Sequence[Message], *, may_wait: bool = True
    ) -> Sequence[SentMessage]:
        """Send messages in order, while nobody else sends to their destination.

        Raises:
            ProviderUnavailableError: it is unknown which of them arrived, and they could not be queued.
        """
        if not messages:
            return []
        if self._span is None:
            return await self._send_or_keep(destination, messages, may_wait=may_wait)
        with self._span(destination, messages) as carrying:
            return await self._send_or_keep(destination, carrying, may_wait=may_wait)

    async def send_for(self, connection: Any, destination: str, messages: Sequence[Message]) -> None:
        """Send the messages of a service, in its transaction if the provider is in the same database.

        Raises:
            ProviderUnavailableError: as :meth:`send`.
        """
        here = capabilities_of(self._provider).in_database
        if connection is None or here is None or not await _is_in(connection, here):
            await self.send(destination, messages)
            return
        with nullcontext(messages) if self._span is None else self._span(destination, messages) as carrying:
            await here.sending(connection).asend_batch(destination, carrying)

    async def _send_or_keep(
        self, destination: str, messages: Sequence[Message], *, may_wait: bool
    ) -> Sequence[SentMessage]:
        async with self._lock_of(destination):
            queue = self._queue
            waiting = self.look_after_backlog()
            # A request with a sender that waits for the reply must not wait behind others.
            if queue is None or not queue.limit or not may_wait:
                return await self._send(destination, messages, self._settings.retry)
            if waiting and self._settings.ordered and self._held_up(destination):
                return self._keep(queue, destination, messages)
            try:
                return await self._send(destination, messages, _ONE_TRY if waiting else self._settings.retry)
            except ProviderUnavailableError:
                kept = self._keep(queue, destination, messages)
                if self.drainer is not None:
                    self.drainer.lose()
                return kept

    def _held_up(self, destination: str) -> bool:
        return self.drainer is None or self.drainer.holds_up(destination)

    def _lock_of(self, destination: str) -> Lock:
        return self._locks[hash(destination) % _LOCKS]

    async def _send(
        self, destination: str, messages: Sequence[Message], retry: Retry
    ) -> Sequence[SentMessage]:
        async def attempt(_number: int) -> Sequence[str]:
            return await self._provider.send(destination, messages)

        names: Sequence[str] | None = None
        try:
            names = await attempt(1)
        except ProviderUnavailableError:
            if not retry.max_attempts:
                raise
        if names is None:  # outside of the handler, so that a traceback shows the last try only
            names = await rerun(attempt, retry=retry, transient=(), sleep=self._shell.sleep)
        return [
            SentMessage(_updated(message, destination=destination, message_id=name))
            for message, name in zip(messages, names, strict=True)
        ]

    def _keep(
        self, queue: ClientQueue, destination: str, messages: Sequence[Message]
    ) -> Sequence[SentMessage]:
        first = not queue.size()
        queue.put(destination, messages)
        self.look_after_backlog()
        if first and self.drainer is not None:  # else it already knows, and pauses for a reason
            self.drainer.woken.set()
        return [SentMessage(_updated(message, destination=destination), queued=True) for message in messages]

    def look_after_backlog(self) -> bool:
        """Return whether anything waits; if so, make sure that a drainer runs."""
        if self._queue is None or self.drainer is None or not self._queue.size():
            return False
        if not self._draining:
            self._draining = True
            self._shell.spawn(f"doubtless-drain-{self._settings.alias}", self.drainer.run)
        return True

    async def drain(self) -> Drained:
        """Send the messages in the queue now.

        Raises:
            ConfigurationError: there is no queue.
        """
        if self.drainer is None:
            raise ConfigurationError("queue", "the producer has none to drain", "give it a queue= file")
        return await self.drainer.drain()

    async def request(self, destination: str, message: Message, *, patience: timedelta) -> Message | None:
        """Send a request and return its reply; None if none has come in time."""
        headers = {"reply_to": await self.replies.open()}
        if message.correlation_id is None:
            # A plain JMS program repeats one or the other in its reply.
            headers["correlation_id"] = message.uuid or ""
        with self.replies.expecting(message) as waiting:
            await self.send(destination, [_updated(message, **headers)], may_wait=False)
            return await waiting.wait(patience)

    async def close(self) -> None:
        """End the background work, and give the provider back if it is our own."""
        self._shell.over.set()
        if self.drainer is not None:
            self.drainer.woken.set()
        await self._shell.join(CLOSE_PATIENCE)
        if self._owned:
            await self._provider.close()


#: Makes a span of a send, and gives the messages that carry it.
Span = Callable[[str, Sequence[Message]], AbstractContextManager[Sequence[Message]]]


def _tracing() -> Span:
    from triggers.service.tracing import sending  # noqa: PLC0415  (loads OpenTelemetry)

    return sending


def _updated(message: Message, **headers: str) -> Message:
    return message.model_copy(update=headers)


async def _is_in(connection: Any, provider: InDatabase) -> bool:
    """Whether a connection is to a provider's own database."""
    from triggers.providers.sqljms.tables import known_identity  # noqa: PLC0415  (loads a driver)

    number = await known_identity(connection)
    # Without tables, asking the provider would make them: outside of the transaction.
    return number is not None and number == await provider.identity()
