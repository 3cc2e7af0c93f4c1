"""A consumer's side of orders: it beats, it obeys, and it can be told the same in code.

Whatever happens to the beats, messages are received and answered as if there were none: while the history is
away nobody sees the consumer and no order reaches it, and that is all.
"""

import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from history.bridge import settled
from history.errors import ConfigurationError
from history.store import HistoryStore
from history.store.control import FORGOTTEN_AFTER, Counts, Heard, Order, Report, Verb
from triggers.consumer.gate import Gate
from triggers.consumer.housekeeping import SWEEP_INTERVAL

_log = logging.getLogger(__name__)

#: How often a consumer tells of itself, in seconds.
BEAT_INTERVAL = 1.0

#: How long a consumer that starts waits for its first orders, so that what is disabled stays so, in seconds.
FIRST_ORDERS_PATIENCE = 2.0

#: How often it looks for them, in seconds.
FIRST_ORDERS_PAUSE = 0.01

#: Waits for so many seconds, or shorter when there is no more to wait for.
Pause = Callable[[float], Awaitable[None] | None]


@dataclass(slots=True)
class _Line:
    """What was said of one gate, and heard for it. ``told`` is what the store has of its counts for certain.

    Counts up to ``before`` were told under another token.
    """

    gate: Gate
    obeyed: int = 0
    told: Counts = field(default_factory=Counts)
    before: Counts = field(default_factory=Counts)

    def report(self, consumer: str, *, leaving: bool) -> Report:
        return self.gate.report(consumer, obeyed=self.obeyed, since=self.before, leaving=leaving)

    def obey(self, order: Order, began: datetime) -> bool:
        """Do what an order says; one that does not last is for those who had begun. False for an old one."""
        if order.number <= self.obeyed:
            return False
        self.obeyed = order.number
        if order.verb.lasts or order.given_at >= began:
            obey(self.gate, order.verb, order.reason)
        return True


def obey(gate: Gate, verb: Verb, reason: str | None = None) -> None:
    """Do with a gate what somebody said."""
    match verb:
        case Verb.SUSPEND:
            gate.suspend(reason or "by command", by_command=True)
        case Verb.RESUME:
            gate.resume(by_command=True)
        case Verb.DISABLE:
            gate.disable(reason or "by command")
        case Verb.ENABLE:
            gate.enable()


class Beater:
    """Tells one history of a consumer's triggers and obeys the orders that it brings back.

    One for each history of a consumer, in a thread or task of its own.
    """

    def __init__(self, consumer: str, store: HistoryStore, gates: Iterable[Gate]) -> None:
        self._consumer = consumer
        self._store = store
        self._lines = {gate.trigger.name: _Line(gate) for gate in gates}
        self._token = uuid.uuid4().hex
        self._began = self._answered = self._sweep_due = time.monotonic()
        self._away = False
        #: Whether the first beat is over, with or without an answer.
        self.tried = False

    async def run(self, *, over: Callable[[], bool], pause: Pause) -> None:
        """Beat until the consumer's last worker has ended, and once more to take leave."""
        while not over():
            # What was obeyed is told at once: somebody may be waiting for that.
            if not await self.beat(time.monotonic()):
                await settled(pause(BEAT_INTERVAL))
        if not self._away:
            await self.beat(time.monotonic(), leaving=True)

    async def beat(self, now: float, *, leaving: bool = False) -> bool:
        """Beat once, at this monotonic second; whether an order was obeyed."""
        if now - self._answered > FORGOTTEN_AFTER.total_seconds() / 2:
            self._begin_anew()
        reports = [line.report(self._consumer, leaving=leaving) for line in self._lines.values()]
        try:
            heard = await self._store.control.beat(self._token, reports)
            self._note_answer(now, reports)
            if now >= self._sweep_due:
                self._sweep_due = now + SWEEP_INTERVAL.total_seconds()
                await self._store.control.sweep()
        except Exception as error:  # noqa: BLE001  (whatever a store raises: messages do not depend on it)
            self._note_silence(error)
            return False
        else:
            return self._obey(heard, now)
        finally:
            self.tried = True

    def _begin_anew(self) -> None:
        """Take another token: what was said under this one is about to be swept."""
        self._token, self._answered = uuid.uuid4().hex, time.monotonic()
        for line in self._lines.values():
            line.before = line.told

    def _note_answer(self, now: float, reports: Sequence[Report]) -> None:
        if self._away:
            _log.warning("%s: the history answers again, and brings orders", self._consumer)
        self._away, self._answered = False, now
        for report in reports:
            line = self._lines[report.trigger]
            line.told = line.before + report.counts

    def _note_silence(self, error: Exception) -> None:
        if not self._away:
            told = "%s is not to be seen, and no order reaches it, until its history answers: %s"
            _log.warning(told, self._consumer, error)
        self._away = True

    def _obey(self, heard: Heard, now: float) -> bool:
        began = heard.now - timedelta(seconds=now - self._began)
        orders = sorted(heard.orders, key=lambda order: order.number)
        obeyed = [self._lines[order.trigger].obey(order, began) for order in orders]
        return any(obeyed)


def hire_beaters(
    consumer: str, gates: Iterable[tuple[Gate, HistoryStore | None]], default: HistoryStore | None
) -> list[Beater]:
    """Return one beater for each history, as far as one can tell them apart.

    ``default`` is for triggers without a history; where there is none, no order reaches them.
    """
    served: dict[str, tuple[HistoryStore, list[Gate]]] = {}
    # Those that have a history first: the default may be the same one, and its connection is not needed then.
    for gate, own in sorted(gates, key=lambda one: one[1] is None):
        store = own or default
        if store is not None:
            served.setdefault(_place_of(store), (store, []))[1].append(gate)
    return [Beater(consumer, store, some) for store, some in served.values()]


def _place_of(store: HistoryStore) -> str:
    try:
        return store.control.place
    except AttributeError:  # written before there were orders: its beater will say so
        return f"store:{id(store)}"


async def first_orders(beaters: Sequence[Beater], *, stopping: Callable[[], bool], pause: Pause) -> None:
    """Wait until every history has been asked for orders, but not for long."""
    deadline = time.monotonic() + FIRST_ORDERS_PATIENCE
    while not all(beater.tried for beater in beaters) and not stopping() and time.monotonic() < deadline:
        await settled(pause(FIRST_ORDERS_PAUSE))


class Steerable:
    """What a consumer can be told in code, from any thread; it reaches this consumer only, and no other."""

    gates: list[Gate]

    def suspend(self, trigger: str, reason: str | None = None) -> None:
        """Stay connected, but receive nothing for a trigger until :meth:`resume` or a restart.

        What was fetched and not begun is given back, what runs may end and is acknowledged.
        """
        obey(self._gate(trigger), Verb.SUSPEND, reason)

    def resume(self, trigger: str) -> None:
        """Receive again, whether an error or a command had suspended the trigger."""
        obey(self._gate(trigger), Verb.RESUME)

    def disable(self, trigger: str, reason: str | None = None) -> None:
        """Disconnect a trigger until :meth:`enable`; otherwise as :meth:`suspend`."""
        obey(self._gate(trigger), Verb.DISABLE, reason)

    def enable(self, trigger: str) -> None:
        """Connect a trigger again and receive, whatever had kept it from that."""
        obey(self._gate(trigger), Verb.ENABLE)

    def _gate(self, trigger: str) -> Gate:
        for gate in self.gates:
            if gate.trigger.name == trigger:
                return gate
        known = ", ".join(gate.trigger.name for gate in self.gates)
        raise ConfigurationError("trigger", f"{trigger!r} is not run by this consumer", f"use one of {known}")
