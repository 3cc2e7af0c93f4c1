"""Empties a client-side queue: in order for each destination, by one drainer at a time.

Messages are sent first and deleted afterwards. A process that dies in between sends them again, in the same
order and under the same uuids: the receiving trigger's document history drops the second copies.
"""

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from history.errors import ConfigurationError, DoubtlessError, NotPermittedError
from history.shell import Flag, Shell
from history.support.outage import Outage
from triggers.producer.delivery_failure import DeliveryFailureEvent, publish
from triggers.producer.queue.queue import ClientQueue
from triggers.producer.queue.rows import LockedRowError, Queued
from triggers.providers.provider import Answering, Provider, ProviderUnavailableError, capabilities_of
from triggers.service.failures import Retry

_log = logging.getLogger(__name__)

#: How many messages, and about how many bytes of them, go out in one call.
RUN_LENGTH, RUN_BYTES = 200, 4 * 1024 * 1024

#: The pauses after passes without progress, in seconds: 0.1, 0.2, 0.4 ... 30.
BACK_OFF = Retry(interval=timedelta(milliseconds=100), backoff=2, max_interval=timedelta(seconds=30))

#: Settings in refusals that hold for every message: no queue, exchange or topic, or an account's rights.
_NOT_THE_MESSAGE = frozenset({"destination", "provider"})

#: How often an idle drainer looks for messages of other processes, in seconds.
LOOK_AROUND = 5.0

#: How often a drainer looks whether the previous one has finished, in seconds.
TURN_PAUSE = 0.05


class MessageExpiredError(DoubtlessError):
    """A message's time to live was over before the provider came back."""

    def __init__(self, expired: datetime) -> None:
        super().__init__(f"its time to live ended at {expired.isoformat()}, while it waited for the provider")


@dataclass(frozen=True, slots=True)
class Drained:
    """The result of one call: messages sent and given up, and how many still wait.

    The reasons why some wait: ``away``, the provider did not answer; ``refused``, it refuses us as a whole,
    or something that we may not do there; ``blocked``, the first message of these destinations failed, and is
    tried again later.
    """

    sent: int
    failed: int
    left: int
    away: ProviderUnavailableError | None = None
    blocked: Sequence[str] = ()
    refused: ConfigurationError | None = None


@dataclass(slots=True)
class _Turn:
    """The turn of the drainer of a file; without it, its failure handlers would wait for ever for a turn."""

    file: Path
    over: bool = False


_turn: ContextVar[_Turn | None] = ContextVar("doubtless_drains", default=None)


@contextmanager
def _draining(file: Path) -> Generator[None]:
    drain = _Turn(file)
    token = _turn.set(drain)
    try:
        yield
    finally:
        drain.over = True  # a task that a handler has started keeps this context even after the turn
        _turn.reset(token)


class _AwayError(Exception):
    """The provider is away, or refuses us whatever we send: the pass is over."""

    def __init__(self, error: ProviderUnavailableError | ConfigurationError) -> None:
        self.error = error


@dataclass(slots=True)
class _Pass:
    """The state of one pass: destinations that must wait for the next one, or that are sent one by one."""

    sent: int = 0
    failed: int = 0
    blocked: set[str] = field(default_factory=set[str])
    singly: set[str] = field(default_factory=set[str])
    given_up: set[str | None] = field(default_factory=set[str | None])
    away: ProviderUnavailableError | None = None
    refused: ConfigurationError | None = None

    def hold_up(self, destination: str, error: ConfigurationError) -> None:
        """Let all messages to a destination wait until somebody has corrected their common cause."""
        self.note(error)
        self.blocked.add(destination)

    def note(self, error: ProviderUnavailableError | ConfigurationError) -> None:
        """Note why messages wait that are not the cause."""
        if isinstance(error, ConfigurationError):
            self.refused = error
        else:
            self.away = error


@dataclass(frozen=True, slots=True, kw_only=True)
class Drainer:
    """Empties one queue into one provider."""

    queue: ClientQueue
    provider: Provider
    shell: Shell
    max_redelivery_count: int
    #: Set by a caller that puts a message into the queue, or ends the shell; a pausing drainer continues.
    woken: Flag
    #: Set while the last pass reached the provider: then a waiting message delays only its own destination.
    reached: Flag

    def holds_up(self, destination: str) -> bool:
        """Whether a new message must wait behind earlier ones."""
        return not self.reached.is_set() or self.queue.has(destination)

    def lose(self) -> None:
        """Note that a message was queued because the provider did not answer, and look immediately."""
        if self.reached.is_set():
            self.reached.clear()
            self.woken.set()

    async def run(self) -> None:
        """Drain whenever something waits, until the shell is over; the drainer of the background."""
        fruitless, outage = 0, self._outage()
        while not self.shell.over.is_set():
            held_up = True
            try:
                drained = await self._drain_now()
            except Exception as error:  # noqa: BLE001  (nobody else drains: the messages would wait for ever)
                outage.note(error)
            else:
                held_up = drained is not None and drained.left > 0
                if drained is not None:
                    _tell(outage, drained)
            fruitless = fruitless + 1 if held_up else 0
            await self._pause(BACK_OFF.pause(fruitless) if fruitless else LOOK_AROUND)

    def _outage(self) -> Outage:
        fails, works = "its queue is not drained", "its queue is drained again"
        about = f"producer {self.queue.alias}"
        return Outage(_log, f"{about}: {fails}", f"{about}: {works}", {"alias": self.queue.alias})

    async def _pause(self, seconds: float) -> None:
        """Wait until the time is over or somebody wakes it; a wake-up during the draining counts."""
        if not self.shell.over.is_set():
            await self.woken.wait(seconds)
        self.woken.clear()

    async def drain(self) -> Drained:
        """Send messages until none waits, or the provider is away, or the others must wait.

        Waits for its turn while another thread or process drains. A handler of a failure has the turn
        already: the drainer that calls it continues afterwards.

        Raises:
            ClientQueueUnavailableError: the file cannot be used.
        """
        drain = _turn.get()
        if drain is not None and drain.file == self.queue.file and not drain.over:
            return Drained(0, 0, self.queue.size())
        while (drained := await self._drain_now()) is None:
            if not self.queue.size():
                return Drained(0, 0, 0)
            await self.shell.sleep(TURN_PAUSE)
        return drained

    async def _drain_now(self) -> Drained | None:
        """Make one pass; None if somebody else drains."""
        with self.queue.draining() as mine:
            if not mine:
                self.reached.clear()
                return None
            with _draining(self.queue.file):
                return await self._pass()

    async def _pass(self) -> Drained:
        for event in self.queue.unreported():
            await self._report(event)
        state, reached = _Pass(), False
        try:
            while not self.shell.over.is_set() and (run := self._next_run(state)):
                await self._send(run, state)
            reached = True
        except _AwayError as away:
            state.note(away.error)
        finally:
            self._note(reached=reached)
        left, blocked = self.queue.size(), sorted(state.blocked)
        return Drained(state.sent, state.failed, left, state.away, blocked, state.refused)

    def _note(self, *, reached: bool) -> None:
        if reached:
            self.reached.set()
        else:
            self.reached.clear()

    def _next_run(self, state: _Pass) -> Sequence[Queued]:
        run = self._oldest(state)
        while run and run[0].message.uuid in state.given_up:
            # A handler has queued it again: another try in this pass could go on for ever.
            state.blocked.add(run[0].destination)
            run = self._oldest(state)
        return run[:1] if run and run[0].destination in state.singly else run

    def _oldest(self, state: _Pass) -> Sequence[Queued]:
        while True:
            try:
                return self.queue.next_run(skip=state.blocked, limit=RUN_LENGTH, size=RUN_BYTES)
            except LockedRowError as error:
                state.hold_up(error.destination, error)

    async def _send(self, run: Sequence[Queued], state: _Pass) -> None:
        """Send messages of one destination, and find out what a failure means."""
        fresh = await self._give_up_expired(run, state)
        if not fresh:
            return
        try:
            await self.provider.send(fresh[0].destination, [queued.message for queued in fresh])
        except NotPermittedError as error:
            state.hold_up(fresh[0].destination, error)
        except (ConfigurationError, ProviderUnavailableError) as error:
            await self._find_out(error)
            if isinstance(error, ConfigurationError) and error.setting in _NOT_THE_MESSAGE:
                state.hold_up(fresh[0].destination, error)
            else:
                await self._failed(fresh, error, state, hopeless=isinstance(error, ConfigurationError))
        except Exception as error:  # noqa: BLE001  (a provider may be user code, and one message must not stop all)
            await self._failed(fresh, error, state, hopeless=False)
        else:
            self.queue.remove([queued.number for queued in fresh])
            state.sent += len(fresh)

    async def _give_up_expired(self, run: Sequence[Queued], state: _Pass) -> Sequence[Queued]:
        now = datetime.now(UTC)
        fresh: list[Queued] = []
        for queued in run:
            expires = queued.message.expiration
            if expires is not None and expires <= now:
                await self._give_up(queued, MessageExpiredError(expires), queued.attempts, state)
            else:
                fresh.append(queued)
        return fresh

    async def _find_out(self, error: ProviderUnavailableError | ConfigurationError) -> None:
        """End the pass unless the provider is there and accepts us: else the message is not the cause."""
        answering = self._answering
        if answering is None:
            if isinstance(error, ConfigurationError):
                return  # the messages of others may be accepted
            raise _AwayError(error) from error
        try:
            await answering.ping()
        except (ProviderUnavailableError, ConfigurationError) as whole:
            raise _AwayError(whole) from whole

    @property
    def _answering(self) -> Answering | None:
        return capabilities_of(self.provider).answering

    async def _failed(self, run: Sequence[Queued], error: Exception, state: _Pass, *, hopeless: bool) -> None:
        """Send one by one to find the message that fails; count, block or give up only that message."""
        first = run[0]
        if len(run) > 1:
            state.singly.add(first.destination)
            return
        if isinstance(error, ConfigurationError) and self._answering is None:
            # Nobody knows whether it accepts us: with a wrong password, every message would be given up.
            state.hold_up(first.destination, error)
            return
        attempts = self.queue.count_attempt(first.number)
        if hopeless or attempts >= self.max_redelivery_count:
            await self._give_up(first, error, attempts, state)
        else:
            state.blocked.add(first.destination)

    async def _give_up(self, queued: Queued, error: Exception, attempts: int, state: _Pass) -> None:
        event = self.queue.give_up(queued, error, attempts=attempts)
        state.failed += 1
        state.singly.discard(queued.destination)
        state.given_up.add(queued.message.uuid)
        await self._report(event)

    async def _report(self, event: DeliveryFailureEvent) -> None:
        await publish(event, self.shell)
        self.queue.mark_reported(event.number)


def _tell(outage: Outage, drained: Drained) -> None:
    """Log why messages wait that are not the cause, and when they no longer wait."""
    whole = drained.refused or drained.away
    if whole is not None:
        outage.note(whole)
    elif drained.sent or not drained.left:
        outage.end()
