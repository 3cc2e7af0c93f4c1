"""A consumer's side of commands: its heartbeat fetches them and reports; the same commands exist in code.

Messages are received and answered whatever happens to the heartbeats. While the history is unavailable,
nobody sees the consumer and no command reaches it, but nothing else changes.
"""

import logging
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from history.beside.kept import KeepsBeside, beside_of
from history.errors import ConfigurationError
from history.shell import Shell
from history.store import HistoryStore
from history.store.control import FORGOTTEN_AFTER, Counts, Heard, Order, Report, Verb
from triggers.consumer.gate import Gate
from triggers.detection.suspension import Suspension
from triggers.metrics.charting import Charting
from triggers.pipeline.parking.sweep import SWEEP_INTERVAL

_log = logging.getLogger(__name__)

#: How often a consumer reports itself, in seconds.
BEAT_INTERVAL = 1.0

#: How long a starting consumer waits for its first commands, so that disabled triggers stay disabled, in
#: seconds.
FIRST_ORDERS_PATIENCE = 10.0

#: How often it checks for them, in seconds.
FIRST_ORDERS_PAUSE = 0.01


@dataclass(slots=True)
class _Reported:
    """The reports and commands of one gate; ``stored`` are the counts that the store surely has.

    Counts up to ``before`` were reported under another token.
    """

    gate: Gate
    obeyed: int = 0
    stored: Counts = field(default_factory=Counts)
    before: Counts = field(default_factory=Counts)

    def report(self, consumer: str, *, leaving: bool) -> Report:
        return self.gate.report(consumer, obeyed=self.obeyed, since=self.before, leaving=leaving)

    def apply(self, order: Order, began: datetime) -> bool:
        """Carry out a command if it concerns this consumer, which began then; False for an old command."""
        if order.number <= self.obeyed:
            return False
        self.obeyed = order.number
        if order.verb.binds_later or order.given_at >= began:
            apply_order(self.gate, order.verb, order.reason)
        return True


def apply_order(gate: Gate, verb: Verb, reason: str | None = None) -> None:
    """Carry out a command at a gate."""
    match verb:
        case Verb.SUSPEND:
            gate.suspend(reason or "by command", Suspension.COMMAND)
        case Verb.HOLD:
            gate.suspend(reason or "another consumer met a fatal failure", Suspension.FATAL)
        case Verb.RESUME:
            gate.resume(by_command=True)
        case Verb.DISABLE:
            gate.disable(reason or "by command")
        case Verb.ENABLE:
            gate.enable()


class Heartbeat:
    """Reports a consumer's triggers to one history, and carries out the commands that it returns.

    One for each history of a consumer, in a separate thread or task.
    """

    def __init__(self, consumer: str, store: KeepsBeside, gates: Iterable[Gate]) -> None:
        self._consumer = consumer
        self._store = store
        self._reported = {gate.trigger.name: _Reported(gate) for gate in gates}
        for reported in self._reported.values():
            reported.gate.herald = partial(self._tell_all, reported)
        self._charting = Charting(store, list(self._reported))
        self._token = uuid.uuid4().hex
        self._began = self._answered = self._sweep_due = time.monotonic()
        self._away = False
        self._began_there: datetime | None = None
        #: The store's time at the last beat; None if that had no answer.
        self._heard_at: datetime | None = None
        #: Whether the first beat is over, with or without an answer.
        self.tried = False

    async def run(self, shell: Shell) -> None:
        """Beat until the shell is over, when the last worker has ended; then report the end."""
        while not shell.over.is_set():
            # A command that was carried out is reported immediately: an operator may be waiting for it.
            carried_out = await self.beat(time.monotonic())
            if self._heard_at is not None:
                await self._charting.note(self._heard_at)
            if not carried_out:
                await shell.over.wait(BEAT_INTERVAL)
        if not self._away:
            await self.beat(time.monotonic(), leaving=True)

    async def beat(self, now: float, *, leaving: bool = False) -> bool:
        """Beat once, at this monotonic second; return whether a command was carried out."""
        if now - self._answered > FORGOTTEN_AFTER.total_seconds() / 2:
            self._begin_anew()
        for reported in self._reported.values():
            await self._tell_all(reported)
        reports = [reported.report(self._consumer, leaving=leaving) for reported in self._reported.values()]
        try:
            heard = await self._store.control.beat(self._token, reports)
            self._note_answer(now, reports)
            if now >= self._sweep_due:
                self._sweep_due = now + SWEEP_INTERVAL.total_seconds()
                await self._store.control.sweep()
        except Exception as error:  # noqa: BLE001  (any error of a store: messages do not depend on it)
            self._heard_at = None
            self._note_silence(error)
            return False
        else:
            self._heard_at = heard.now
            return self._apply(heard, now)
        finally:
            self.tried = True

    async def _tell_all(self, reported: _Reported) -> None:
        """Send a trigger's command to all its other consumers; after a failure, the next beat does it."""
        gate = reported.gate
        word = gate.word
        if word is None:
            return
        verb, reason = word
        try:
            number = await self._store.control.order(verb, [gate.name], reason=reason)
        except Exception as error:  # noqa: BLE001  (any error of a store: this consumer obeys it already)
            _log.warning(
                "trigger %s: its other consumers cannot receive the command to %s now: trying again: %s",
                gate.name,
                verb.value,
                error,
                extra={"trigger": gate.name},
            )
            return
        reported.obeyed = max(reported.obeyed, number)
        if gate.word is word:
            gate.word = None

    def _begin_anew(self) -> None:
        """Take another token: the reports under the present token are about to be swept."""
        self._token, self._answered = uuid.uuid4().hex, time.monotonic()
        for reported in self._reported.values():
            reported.before = reported.stored

    def _note_answer(self, now: float, reports: Sequence[Report]) -> None:
        if self._away:
            _log.warning("history reachable again: heartbeats and commands of %s go on", self._consumer)
        self._away, self._answered = False, now
        for report in reports:
            reported = self._reported[report.trigger]
            reported.stored = reported.before + report.counts

    def _note_silence(self, error: Exception) -> None:
        if not self._away:
            _log.warning(
                "history unreachable: heartbeats and commands of %s are paused: %s", self._consumer, error
            )
        self._away = True

    def _apply(self, heard: Heard, now: float) -> bool:
        # By the store's clock, late by the time of this beat: so the quickest beat is the most exact.
        began = heard.now - timedelta(seconds=now - self._began)
        if self._began_there is not None:
            began = min(began, self._began_there)
        self._began_there = began
        orders = sorted(heard.orders, key=lambda order: order.number)
        applied = [self._reported[order.trigger].apply(order, began) for order in orders]
        return any(applied)


def heartbeats_for(
    consumer: str, gates: Iterable[tuple[Gate, HistoryStore | None]], default: HistoryStore | None
) -> list[Heartbeat]:
    """Return a heartbeat for each history; histories of one address share it.

    ``default`` is for triggers without a history; without it, no command reaches them. No command reaches
    the triggers of a history without records.
    """
    served: dict[str, tuple[KeepsBeside, list[Gate]]] = {}
    # Triggers with a history first: the default may be the same history, and needs no second connection then.
    for gate, own in sorted(gates, key=lambda pair: pair[1] is None):
        if (store := beside_of(own or default)) is not None:
            served.setdefault(store.control.address, (store, []))[1].append(gate)
    return [Heartbeat(consumer, store, its_gates) for store, its_gates in served.values()]


async def first_orders(heartbeats: Sequence[Heartbeat], shell: Shell) -> None:
    """Wait until every history was asked for commands; not for long, and not after the shell is over."""
    deadline = time.monotonic() + FIRST_ORDERS_PATIENCE
    while not all(heartbeat.tried for heartbeat in heartbeats) and time.monotonic() < deadline:
        if await shell.over.wait(FIRST_ORDERS_PAUSE):
            return


class Controllable:
    """Commands to a consumer in code, from any thread; they reach only this consumer."""

    gates: list[Gate]

    def suspend(self, trigger: str, reason: str | None = None) -> None:
        """Stay connected, but receive nothing for a trigger until :meth:`resume` or a restart.

        Fetched messages that have not begun are recovered. Running messages may end and are acknowledged.
        """
        apply_order(self._gate(trigger), Verb.SUSPEND, reason)

    def resume(self, trigger: str) -> None:
        """Receive again, whether an error or a command had suspended the trigger.

        After a fatal failure (``suspend_on_error``), the trigger is resumed in all its consumers.
        """
        self._open(self._gate(trigger), Verb.RESUME)

    def disable(self, trigger: str, reason: str | None = None) -> None:
        """Disconnect a trigger until :meth:`enable`; otherwise the same as :meth:`suspend`."""
        apply_order(self._gate(trigger), Verb.DISABLE, reason)

    def enable(self, trigger: str) -> None:
        """Connect a trigger again and receive, whatever had prevented it; see :meth:`resume`."""
        self._open(self._gate(trigger), Verb.ENABLE)

    def _open(self, gate: Gate, verb: Verb) -> None:
        held = gate.suspension is Suspension.FATAL
        apply_order(gate, verb)
        if held:
            gate.word = (Verb.RESUME, None)

    def _gate(self, trigger: str) -> Gate:
        for gate in self.gates:
            if gate.trigger.name == trigger:
                return gate
        known = ", ".join(gate.trigger.name for gate in self.gates)
        raise ConfigurationError("trigger", f"{trigger!r} is not run by this consumer", f"use one of {known}")
