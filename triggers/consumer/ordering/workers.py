"""The workers of an ordered trigger: one receives while its consumer is active, the others run messages."""

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from history.errors import ConfigurationError
from history.shell import Shell
from triggers.consumer import worker
from triggers.consumer.gate import Gate
from triggers.consumer.ordering.active import Turn, turn_of
from triggers.consumer.ordering.groups import Ticket
from triggers.consumer.ordering.handover import Handover, NotedAnswer
from triggers.consumer.worker import NOT_ACKNOWLEDGED, SUSPENDED_PAUSE, Worker
from triggers.pipeline.protocol import Pipeline
from triggers.providers.provider import Provider, ProviderUnavailableError, Receiver, capabilities_of

_log = logging.getLogger(__name__)

#: How often a consumer on standby checks whether it is its turn, in seconds.
STANDBY_PAUSE = 0.5

#: How long one call waits for new messages while other answers are to come.
BUSY_WAIT = timedelta(milliseconds=20)

#: How long the receiving worker waits if no fetched message could run, in seconds.
BLOCKED_PAUSE = 0.02

#: The most messages that an ordered trigger holds, whatever ``prefetch`` and ``concurrency`` are.
MOST_HELD = 1000


@dataclass(kw_only=True)
class ReceivingWorker(Worker):
    """Receives for an ordered trigger while this is an active consumer; sends the answers of all workers.

    ``_astray`` means that all unanswered messages must be handed out again, in order. ``_lost`` means that
    the provider holds none of them for this receiver any more.
    """

    handover: Handover
    active: Turn
    _astray: bool = True
    _lost: bool = False
    _unknown: bool = False
    #: How many suspensions of the trigger there had been when a message was last received alone.
    _tried: int = 0

    async def run(self) -> None:
        """Receive until the consumer stops; then finish what runs, send its answers and let others go on.

        Raises:
            BaseException: the provider or the history cannot be used with these settings.
        """
        try:
            await super().run()
        finally:
            self.handover.close()
            self.active.close()

    async def _round(self) -> bool:
        if self.gate.disabled:
            await self._leave()
            self.idle = True
            await self._pause(SUSPENDED_PAUSE)
        elif not self.active.active:
            await self._leave()
            return await self._stand_by()
        else:
            receiver = self.receiver or await self._open()
            await self.handover.flush(receiver)
            if self.gate.suspended is not None:
                await self._hold_still(receiver)
            elif self._astray or self._has_moved():
                await self._begin_anew(receiver)
            else:
                await self._receive(receiver)
        return True

    async def _stand_by(self) -> bool:
        """Become the active consumer, or wait a little; return whether the history answered."""
        # A consumer on standby cannot know whether there are messages.
        self.idle = False
        if self.gate.suspended is not None:
            await self._pause(SUSPENDED_PAUSE)
            return True
        try:
            with self.gate.history_calls.begun():
                acquired = await self.active.acquire()
            self._unknown, self.gate.history_away = False, None
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001  (any error of a store: the active consumer is unknown)
            acquired = False
            if not self._unknown:
                _log.warning(
                    "trigger %s: history unreachable: receiving is paused, "
                    "because it is unknown which consumer is active: %s",
                    self.gate.trigger.name,
                    error,
                    extra=self._extra,
                )
            self._unknown, self.gate.history_away = True, str(error)
        if not acquired:
            await self._pause(STANDBY_PAUSE)
        return not self._unknown

    async def _open(self) -> Receiver:
        receiver = await super()._open()
        if self._can.taking_over is None and self._can.keeping_order is None:
            raise ConfigurationError(
                f"trigger {self.gate.trigger.name}",
                "is ordered, and its provider cannot take over the messages of a dead consumer",
                "use Redis Streams, SQL-JMS or Kafka, or leave ordered out and run one consumer with "
                "concurrency=1",
            )
        self._astray = True
        return receiver

    async def _take_over(self) -> None:
        if self._can.taking_over is not None:
            await self._can.taking_over.take_over_all()
        if self._can.keeping_order is not None:
            await self._can.keeping_order.hand_out_in_order()

    def _has_moved(self) -> bool:
        """Whether groups went to another consumer: their messages here would wait for ever."""
        return self._can.keeping_order is not None and self._can.keeping_order.take_moved()

    async def _hold_still(self, receiver: Receiver) -> None:
        """Give back the messages that have not begun; this stays the active consumer and keeps the order."""
        self.idle = False
        await self.handover.halt()
        self.handover.give_all_back()
        self._astray = True
        await self.handover.flush(receiver)
        await self._pause(SUSPENDED_PAUSE)

    async def _begin_anew(self, receiver: Receiver) -> None:
        """Have all unanswered messages handed out again, whichever worker received them."""
        await self.handover.halt()
        if self._lost:
            self.handover.forget()
        else:
            self.handover.give_all_back()
        self._lost = False
        await self.handover.flush(receiver)
        await self._take_over()
        self._astray = False

    async def _receive(self, receiver: Receiver) -> None:
        room = self.handover.room
        if room < 1:
            if not self.handover.make_room():
                await self.handover.wait()
            return
        if self.handover.take_recall():
            await self._take_over()
        if self.handover.must_wait():
            await self._pause(BLOCKED_PAUSE)
            return
        suspensions = self.gate.suspensions
        if self._careful:
            if self.handover.busy:
                await self.handover.wait()
                return
            if self._tried == suspensions:
                self._overcome = suspensions
            else:
                room = 1
        with self.gate.provider_calls.begun():
            received = await receiver.receive(room, BUSY_WAIT if self.handover.busy else self._wait)
        self.handover.put(received)
        if received:
            self._tried = suspensions
        self.idle = not received and self.handover.idle
        # Due messages come before new ones: if fewer came than requested, all due messages have come.
        if len(received) < room and self.handover.is_overdue():
            _log.warning(
                "trigger %s: a message that was given back is overdue: "
                "having everything delivered again that is not acknowledged",
                self.gate.trigger.name,
                extra=self._extra,
            )
            self._astray = True

    @property
    def _wait(self) -> timedelta:
        # The provider must not hand anything over after the lease, when another consumer may be active.
        return min(worker.RECEIVE_WAIT, self.active.longest_wait)

    async def _wait_for_provider(self, error: ProviderUnavailableError) -> None:
        self._astray = self._lost = True
        await super()._wait_for_provider(error)

    async def _leave(self) -> None:
        """Finish what runs, send the answers, close the receiver, and let another consumer become active."""
        await self.handover.halt()
        if self.receiver is not None:
            try:
                await self.handover.flush(self.receiver)
            except ProviderUnavailableError as error:
                _log.warning(NOT_ACKNOWLEDGED, error, extra=self._extra)
        self.handover.forget()
        self.handover.forget_answers()
        await super()._leave()
        await self.active.release()


@dataclass(kw_only=True)
class RunningWorker(Worker):
    """Runs messages of an ordered trigger that may run now; the receiving worker ends it."""

    handover: Handover
    active: Turn
    idle: bool = True

    async def run(self) -> None:
        """Run one message after the other.

        Raises:
            BaseException: an exception of a service that ends the process; its message is not acknowledged.
        """
        while not self.handover.closed:
            ticket = await self.handover.take()
            if ticket is not None:
                await self._run(ticket)

    async def _run(self, ticket: Ticket) -> None:
        may_run = self.active.active and not self.shell.over.is_set()
        if not may_run or (begun := self.gate.enter()) is None:
            self.handover.finish(ticket, NotedAnswer(timedelta(0)))
            return
        answer = NotedAnswer()
        try:
            # The pipeline only answers with a receiver.
            await self._deliver(cast("Receiver", answer), [ticket.received])
        except BaseException:
            self.handover.abandon(ticket)
            raise
        finally:
            self.gate.leave(begun)
        self.handover.finish(ticket, answer)


def make_ordered_workers(
    name: str, gate: Gate, pipeline: Pipeline, *, provider: Provider, shell: Shell
) -> list[Worker]:
    """Return the workers of an ordered trigger: one that receives, and ``concurrency`` that run messages.

    Raises:
        ConfigurationError: it has no history, or the provider keeps no order with these settings.
    """
    settings = gate.trigger.settings
    limit = min(settings.prefetch * settings.concurrency, MOST_HELD)
    handover = Handover(takers=settings.concurrency, limit=limit, shell=shell)
    active = turn_of(gate.trigger, pipeline, capabilities_of(provider).dividing_groups)

    def worker_of(worker_type: type[ReceivingWorker | RunningWorker], number: int) -> Worker:
        return worker_type(
            name=f"{name}-{gate.trigger.name}-{number}",
            gate=gate,
            pipeline=pipeline,
            provider=provider,
            shell=shell,
            destination=settings.destination,
            handover=handover,
            active=active,
        )

    running = [worker_of(RunningWorker, number + 1) for number in range(settings.concurrency)]
    return [worker_of(ReceivingWorker, 0), *running]
