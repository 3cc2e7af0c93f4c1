"""The receive loop of one worker of one trigger: the same lines in a thread and in a task."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from history.bridge import settled
from triggers.gate import Gate
from triggers.pipeline import Pipeline
from triggers.providers.provider import (
    AT_ONCE,
    Provider,
    ProviderUnavailableError,
    Received,
    Receiver,
    Unreadable,
)

_log = logging.getLogger(__name__)

#: The first and the longest pause before a provider that went away is tried again, in seconds.
FIRST_BACK_OFF, LONGEST_BACK_OFF = 0.1, 10.0

#: How often a suspended worker looks whether it may go on, in seconds.
SUSPENDED_PAUSE = 0.2

#: How long one call waits for a first message; a worker notices within it that it is to stop.
RECEIVE_WAIT = timedelta(seconds=0.5)


@dataclass(slots=True, kw_only=True)
class Worker:
    """Receives for one trigger, one delivery at a time, until ``stopping`` says so.

    ``pause`` waits for so many seconds, or shorter when the consumer stops. ``idle`` says that the provider
    was asked for messages and had none since.
    """

    name: str
    gate: Gate
    pipeline: Pipeline
    provider: Provider
    stopping: Callable[[], bool]
    pause: Callable[[float], Awaitable[None] | None]
    receiver: Receiver | None = None
    idle: bool = False
    _alive_due: float = 0.0
    _back_off: float = FIRST_BACK_OFF

    async def run(self) -> None:
        """Receive, deliver and answer until the consumer stops; reconnect with back-off.

        Raises:
            BaseException: what a service raised to end the process; its message is not acknowledged, and
                delivered again.
        """
        try:
            while not self.stopping():
                try:
                    await self._round()
                    self._back_off = FIRST_BACK_OFF
                except ProviderUnavailableError as error:
                    await self._wait_for_provider(error)
        finally:
            await self._leave()

    async def _round(self) -> None:
        receiver = self.receiver or await self._open()
        if self.gate.suspended is not None:
            self.idle = False
            await settled(self.pause(SUSPENDED_PAUSE))
            return
        received = await receiver.receive(self.gate.trigger.settings.prefetch, RECEIVE_WAIT)
        self.idle = not received
        for position, one in enumerate(received):
            if self.stopping() or self.gate.suspended is not None:
                await receiver.recover(received[position:], AT_ONCE)
                break
            # A provider that goes away in between delivers all of them again that it has no answer to.
            await self._deliver(receiver, one)

    async def _open(self) -> Receiver:
        settings = self.gate.trigger.settings
        self.receiver = await self.provider.open_receiver(
            settings.destination, subscription=settings.name, name=self.name
        )
        self._alive_due = 0.0
        return self.receiver

    async def _deliver(self, receiver: Receiver, one: Received) -> None:
        for outcome in await self.pipeline.deliver(receiver, [one]):
            self.gate.note(outcome)
        if isinstance(one, Unreadable):
            self.gate.note_unreadable()

    async def _wait_for_provider(self, error: ProviderUnavailableError) -> None:
        _log.warning("%s: trying again in %.1f s", error, self._back_off, extra=self._extra)
        self.idle = False
        await settled(self.pause(self._back_off))
        self._back_off = min(self._back_off * 2, LONGEST_BACK_OFF)

    async def _leave(self) -> None:
        receiver, self.receiver = self.receiver, None
        if receiver is None:
            return
        try:
            await receiver.close()
        except ProviderUnavailableError as error:
            _log.warning("%s: what was not answered is delivered again later", error, extra=self._extra)

    async def keep_alive(self, now: float) -> None:
        """Tell the provider that this worker lives, if it is time; one that is away will be told next time.

        Called beside :meth:`run`, from another thread or task.
        """
        receiver = self.receiver
        if receiver is None or now < self._alive_due:
            return
        self._alive_due = now + receiver.keep_alive_interval.total_seconds()
        try:
            await receiver.keep_alive()
        except ProviderUnavailableError as error:
            _log.warning("%s", error, extra=self._extra)

    @property
    def _extra(self) -> dict[str, object]:
        return {"trigger": self.gate.trigger.name}
