"""Pass messages from the one worker that receives to the workers that run them, and pass answers back.

Only one thread at a time may use a receiver. So the workers that run messages note their answers here, and
the receiving worker sends them, many in one call.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from history.shell import Shell
from triggers.consumer.ordering.groups import Groups, Ticket
from triggers.providers.provider import AT_ONCE, Received, Receiver

#: The first and the longest delay, in seconds, of a message that is recovered only because its group is
#: blocked and no room is left to hold it. Each time counts as a delivery, so there must not be many.
PUT_OFF_DELAYS = (5.0, 300.0)

#: How much later than its delay a message may come, in seconds: servers count milliseconds. If everything is
#: one group, messages that are fetched before it only take its room.
ROUNDING = 0.01

#: How many messages may be recovered and expected before no new ones are fetched.
MOST_OUTSTANDING = 10_000

#: How late a message that was recovered may be, in seconds, before it is looked for. A consumer that was
#: frozen and came back may have acknowledged it, and its group waits for it meanwhile.
OVERDUE = 10.0


@dataclass(slots=True)
class NotedAnswer:
    """Notes the pipeline's answer to one delivery, in place of the receiver."""

    delay: timedelta | None = None

    async def acknowledge(self, _: Sequence[Received]) -> None:
        """Note that it is done."""
        self.delay = None

    async def recover(self, _: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Note that it is recovered."""
        self.delay = delay


class Handover:
    """Keeps at most ``limit`` messages; safe between threads. Comments mark the half of each side.

    Args:
        shell: the workers' shell.
        takers: how many workers :meth:`take`; with a single worker, everything is one group.
    """

    def __init__(self, *, takers: int, limit: int, shell: Shell) -> None:
        self.limit = limit
        self.closed = False
        self._takers = takers
        self._groups = Groups(serial=takers == 1)
        self._lock = threading.Lock()
        self._ready = shell.semaphore(0)
        self._news = shell.semaphore(0)
        self._waits = self._halted = False
        self._running = 0
        self._done: list[Received] = []
        self._back: list[tuple[Received, timedelta]] = []

    # The receiving worker's half.

    @property
    def room(self) -> int:
        """How many more messages may be fetched."""
        with self._lock:
            return self.limit - self._groups.waiting - self._running - len(self._done) - len(self._back)

    @property
    def idle(self) -> bool:
        """Whether nothing is kept, and no message that was recovered is expected."""
        with self._lock:
            kept = self._groups.waiting or self._running or self._done or self._back
            return not kept and self._groups.outstanding == 0

    @property
    def busy(self) -> bool:
        """Whether a message runs or is about to, or an answer must be sent."""
        return self._running > 0 or self._groups.ready or bool(self._done or self._back)

    def put(self, received: Sequence[Received]) -> None:
        """Queue deliveries, in their order."""
        with self._lock:
            for delivery in received:
                self._groups.arrive(delivery)
            ready = self._take_fresh()
        self._call(ready)

    def make_room(self) -> bool:
        """Give back waiting messages of blocked groups beyond half of the limit; False if none."""
        now = time.monotonic()
        with self._lock:
            put = self._groups.put_off(self.limit // 2, now, PUT_OFF_DELAYS)
            self._back += [(ticket.received, timedelta(seconds=delay)) for ticket, delay in put]
        return bool(put)

    def take_recall(self) -> bool:
        """Whether messages that were put off are wanted now; returns this once."""
        with self._lock:
            wanted, self._groups.recall = self._groups.recall, False
        return wanted

    def must_wait(self) -> bool:
        """Whether no fetched message could run before another comes again, and it is not due yet."""
        with self._lock:
            outstanding = self._groups.outstanding
            if not outstanding or not (self._groups.serial or outstanding > MOST_OUTSTANDING):
                return False
            due = self._groups.next_due()
        return due is not None and due > time.monotonic()

    def is_overdue(self) -> bool:
        """Whether a message that was recovered has not come again, and must be looked for."""
        with self._lock:
            due = self._groups.next_due()
        return due is not None and due + OVERDUE < time.monotonic()

    async def flush(self, receiver: Receiver) -> None:
        """Send all answers.

        Raises:
            ProviderUnavailableError: some are not sent; the next call sends them.
        """
        with self._lock:
            done, back = list(self._done), list(self._back)
        if done:
            await receiver.acknowledge(done)
            with self._lock:
                del self._done[: len(done)]
        delays = dict.fromkeys(delay for _, delay in back)
        for delay in delays:
            await receiver.recover([received for received, asked in back if asked == delay], delay)
            sent = {id(pair) for pair in back if pair[1] == delay}
            due = time.monotonic() + delay.total_seconds() + (ROUNDING if delay else 0.0)
            with self._lock:
                for received, asked in back:
                    if asked == delay:
                        self._groups.expect(received, due)
                self._back = [pair for pair in self._back if id(pair) not in sent]

    async def wait(self) -> None:
        """Wait until there is an answer to send, or nothing is left that could lead to an answer."""
        await self._wait(lambda: bool(self._done or self._back) or not (self._running or self._groups.ready))

    async def halt(self) -> None:
        """Wait until nothing runs; nothing begins before all waiting messages are forgotten or recovered."""
        self._halted = True
        await self._wait(lambda: self._running == 0)

    async def _wait(self, is_over: Callable[[], bool]) -> None:
        while True:
            with self._lock:
                if is_over():
                    return
                self._waits = True
            await self._news.acquire()

    def give_all_back(self) -> None:
        """Give back all messages that have not begun, and expect none."""
        with self._lock:
            self._back += [(received, AT_ONCE) for received in self._groups.empty()]
            self._halted = False

    def forget(self) -> None:
        """Forget the messages that have not begun: the provider hands them out again."""
        with self._lock:
            self._groups.empty()
            self._halted = False

    def forget_answers(self) -> None:
        """Forget the answers that were not sent: no receiver is left to send them to."""
        with self._lock:
            self._done, self._back = [], []

    def close(self) -> None:
        """Let the workers that take messages end."""
        self.closed = True
        self._call(self._takers)

    # The half of the workers that run messages.

    async def take(self) -> Ticket | None:
        """Wait for the next message that may run, and return it; None at intervals, and after a close."""
        await self._ready.acquire()
        with self._lock:
            ticket = None if self.closed or self._halted else self._groups.take()
            self._running += ticket is not None
        return ticket

    def finish(self, ticket: Ticket, answer: NotedAnswer) -> None:
        """Note how a ticket was answered."""
        with self._lock:
            if answer.delay is None:
                self._done.append(ticket.received)
                self._groups.done(ticket)
            else:
                self._back.append((ticket.received, answer.delay))
                self._groups.give_back(ticket, time.monotonic() + answer.delay.total_seconds())
            ready, news = self._take_fresh(), self._end_one()
        self._call(ready, news=news)

    def abandon(self, _: Ticket) -> None:
        """Note that a ticket will not be answered: the process is about to end."""
        with self._lock:
            news = self._end_one()
        self._call(0, news=news)

    def _end_one(self) -> bool:
        self._running -= 1
        news, self._waits = self._waits, False
        return news

    def _take_fresh(self) -> int:
        ready, self._groups.fresh = self._groups.fresh, 0
        return ready

    def _call(self, ready: int, *, news: bool = False) -> None:
        for _ in range(ready):
            self._ready.release()
        if news:
            self._news.release()
