"""Run the service on parked messages, and report the result of each.

A decision to run a parked message means NEW, under all conditions of a resolver's NEW. Several people may
decide on the same message concurrently. Each decision is about the entry from the time when the message was
parked. The first to change that entry, by comparing its fence, runs the message; the others find it changed.
"""

import asyncio
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from history.beside.parking import Parking
from history.beside.sealing import why_locked
from history.bridge import drive
from history.entry import EntryOutcome
from history.errors import ConfigurationError, DoubtlessError
from history.message import UNDEFINED_COUNT, Message
from history.store.parking import Evidence, Parked, ParkedKind, ParkedLabel, parked_id
from history.support.redaction import Redaction
from history.support.rendering import repr_of, text_of
from resolvers.resolution import Resolution, Resolved, asking
from triggers.consumer.options import AnyTrigger
from triggers.declaration.decorator import Trigger
from triggers.detection.table import Decision, Found, HistoryUse, Word, decide
from triggers.operations.choosing import without_message
from triggers.pipeline.judge import Judge
from triggers.pipeline.parking.decisions import Outcomes
from triggers.pipeline.run import Run
from triggers.service.outcome import Outcome

#: Why a message is not run after another message of its trigger.
BROKE_OFF = "the run before it broke off"

#: Why a message is not run after the command was stopped.
STOPPED = "the command was stopped before its turn"

#: A message, and the trigger that runs it.
Planned = tuple[ParkedLabel, AnyTrigger]

#: How the owner's token of a run begins that a person has decided on.
DECIDED = "decided:"


def trigger_of(label: ParkedLabel, triggers: Sequence[AnyTrigger]) -> AnyTrigger:
    """Find the trigger that can run a parked message.

    Raises:
        ConfigurationError: none of these can, or the copy holds no message.
    """
    if label.kind is ParkedKind.UNREADABLE:
        raise ConfigurationError(
            "PARKED_ID", f"{label.id} was not a message", "send it corrected, or discard it"
        )
    for trigger in triggers:
        if trigger.name == label.trigger_name:
            return trigger
    raise ConfigurationError(
        "MODULE", f"it has no trigger {label.trigger_name!r}", "name the module that has it"
    )


def planned(
    labels: Sequence[ParkedLabel], triggers: Sequence[AnyTrigger]
) -> tuple[list[Planned], list[tuple[ParkedLabel, ConfigurationError]]]:
    """Return the messages that these triggers can run, and the others, each with the reason."""
    runs: list[Planned] = []
    barred: list[tuple[ParkedLabel, ConfigurationError]] = []
    for label in labels:
        try:
            runs.append((label, trigger_of(label, triggers)))
        except ConfigurationError as error:
            barred.append((label, error))
    return runs, barred


def run_each(
    lot: Parking,
    runs: Sequence[Planned],
    history: str | None,
    outcomes: Outcomes,
    *,
    take_turn: Callable[[], bool] = lambda: True,
) -> Iterator[dict[str, Any]]:
    """Run the service on each message, and yield the result.

    If a run is aborted, the other messages of its trigger are not run; other triggers' messages are. No
    message is run after ``take_turn`` has returned False; it is called before each run, and may wait.

    Raises:
        DoubtlessError: the error of the first aborted run, after all had their turn.
    """
    broken: dict[str, DoubtlessError] = {}
    with _kept_open({trigger for _, trigger in runs}) as loop:
        for label, trigger in runs:
            why = BROKE_OFF if label.trigger_name in broken else STOPPED
            if label.trigger_name in broken or not take_turn():
                drive(outcomes.add(label, f"not run: {why}", closed=False))
                yield left_row(label, why)
                continue
            try:
                row = run_row(lot, label, trigger, history, outcomes, loop=loop)
            except DoubtlessError as error:
                broken[label.trigger_name] = error
                row = left_row(label, f"it broke off: {text_of(error, trigger.settings.redaction)}")
            yield row
    if broken:
        raise next(iter(broken.values()))


def left_row(label: ParkedLabel, why: str) -> dict[str, Any]:
    """Return the printed form of a message that is not run, and stays parked."""
    return _row(label, closed=False, reason=why)


def _row(label: ParkedLabel, *, closed: bool, reason: str) -> dict[str, Any]:
    return {
        "id": label.id,
        "uuid": label.uuid,
        "closed": closed,
        "executed": False,
        "status": None,
        "reason": reason,
        "error": None,
    }


def run_row(
    lot: Parking,
    label: ParkedLabel,
    trigger: AnyTrigger,
    history: str | None,
    outcomes: Outcomes,
    *,
    loop: asyncio.Runner,
) -> dict[str, Any]:
    """Run the service on one parked message, return the result, and add it to the audit trail.

    ``loop`` runs coroutine functions. The trigger's connections stay open: see :func:`close_connections`.
    """
    try:
        row = _run_row(lot, label, trigger, history, loop)
    except Exception as error:
        drive(outcomes.add(label, f"failed: {text_of(error, trigger.settings.redaction)}", closed=False))
        raise
    drive(outcomes.add(label, _outcome_in_words(row), closed=row["closed"]))
    return row


@contextmanager
def _kept_open(triggers: Collection[AnyTrigger]) -> Generator[asyncio.Runner]:
    """Yield an event loop for the services of triggers; at the end, close the connections of their runs."""
    with asyncio.Runner() as loop:
        try:
            yield loop
        finally:
            for trigger in triggers:
                close_connections(trigger, loop)


def close_connections(trigger: AnyTrigger, loop: asyncio.Runner) -> None:
    """Close the connections of a trigger's runs on ``loop``; the next run opens others."""
    if trigger.is_async:
        loop.run(trigger.aclose())
    else:
        trigger.close()


def _run_row(
    lot: Parking, label: ParkedLabel, trigger: AnyTrigger, history: str | None, loop: asyncio.Runner
) -> dict[str, Any]:
    parked = drive(lot.get(label.id, trigger=label.trigger_name))
    if parked is None:  # another person has decided meanwhile
        return _row(label, closed=True, reason="it is not parked any more")
    if (locked := why_locked(parked)) is not None:
        return _row(label, closed=False, reason=locked)
    return _outcome_row(parked, _run(trigger, parked, lot, history, loop), trigger.settings.redaction)


def _outcome_in_words(row: dict[str, Any]) -> str:
    if row["executed"] and row["closed"]:
        return "it ran, and completed"
    if row["executed"]:
        return f"failed: {row['error'] or row['reason']}"
    return f"not run: {row['reason']}" if row["closed"] else f"refused: {row['reason']}"


def _run(
    trigger: AnyTrigger, parked: Parked, lot: Parking, history: str | None, loop: asyncio.Runner
) -> Outcome:
    if history is not None:
        trigger.use_default_history(history)
    running = run_parked(trigger, parked, lot)
    return loop.run(running) if trigger.is_async else drive(running)


def _outcome_row(parked: Parked, outcome: Outcome, redact: Redaction | None) -> dict[str, Any]:
    return {
        "id": parked.id,
        "uuid": parked.uuid,
        "closed": outcome.acknowledge and not outcome.parked,
        "executed": outcome.executed,
        "status": outcome.status,
        "reason": outcome.reason,
        "error": None if outcome.error is None else repr_of(outcome.error, redact),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedJudge(Judge):
    """Judges a message that a person has decided to run: a failed entry is taken over, not a verdict.

    ``parked_fence`` is the fence of the entry with which the message was parked, if there was one.
    """

    parked_fence: int | None

    async def judge(self, run: Run) -> Decision:
        """Take a failed entry over, and go on as if there had been none; otherwise judge as usual."""
        if _has_failed(run):
            if not self._is_the_one(run):
                return self._leave(run)
            if await self._take_over(run):
                run.finding = run.finding._replace(found=None)
            elif run.history is HistoryUse.ON:
                await self.claim([run])
                if _has_failed(run):
                    return self._leave(run)
        return await Judge.judge(self, run)

    def _is_the_one(self, run: Run) -> bool:
        return run.found is not None and (self.parked_fence is None or run.found.is_of(self.parked_fence))

    def _leave(self, run: Run) -> Decision:
        """Leave a message, and its parked copy, to its later run; that copy says how it ended."""
        run.note("somebody has run it since it was parked, and it failed again: look at it again")
        facts = replace(run.facts(self._count(run), Word.NOT_ASKED), found=Found.IN_PROGRESS)
        run.decision = decide(facts, self.settings.policy)
        return run.decision

    def token(self) -> str:
        """Return a token which says that a person has decided."""
        return f"{DECIDED}{Judge.token(self)}"


def _has_failed(run: Run) -> bool:
    return run.found is not None and run.found.outcome is EntryOutcome.FAILED


async def run_parked(trigger: Trigger[..., Any], parked: Parked, lot: Parking) -> Outcome:
    """Take a parked message through the trigger's pipeline, with a resolver that answers NEW.

    A STARTED or failed entry is taken over under a new fence, but only the entry with which the message was
    parked. If it was started again since, it is In Doubt again. If it failed again, or is running elsewhere,
    it stays as it is. So of several people who run the same message concurrently, only one does. The parked
    copy is removed after the message has run or proved a duplicate. A coroutine function runs on the event
    loop that awaits this; ``lot`` may nevertheless be blocking.

    Without a document history there is nothing to compare: a second decision runs the message again.

    Raises:
        ConfigurationError: the delivery was unreadable, or is encrypted and the key is not here: no message
            can run.
    """
    if parked.message is None:
        raise without_message(parked, "PARKED_ID", f"{parked.id} was not a message")
    pipeline = trigger.async_pipeline() if trigger.is_async else trigger.pipeline()
    message = parked.message.model_copy(update={"delivery_count": UNDEFINED_COUNT, "expiration": None})
    outcome = await pipeline.judged(partial(_deciding, parked.evidence)).handle(message)
    # Without a status nothing has run: no rule matched the message, and the person still wants it run.
    done = outcome.acknowledge and not outcome.parked and outcome.status is not None
    if done or (outcome.parked and not _replaces(trigger.name, message, parked)):
        await lot.remove(parked)
    return outcome


def _deciding(parked: Evidence, usual: Judge) -> DecidedJudge:
    parts: dict[str, Any] = usual.parts | {"resolver": asking(_decided(parked))}
    return DecidedJudge(**parts, parked_fence=parked.fence)


def _replaces(trigger: str, message: Message, parked: Parked) -> bool:
    """Whether the new parked copy replaces the old one, and is not an additional one."""
    return message.uuid is not None and parked_id(trigger, message) == parked.id


def _decided(parked: Evidence) -> Any:
    """Return a resolver with a person's answer about a message that was parked with this evidence."""

    def decided(uuid: str, trigger_name: str, message: Message, evidence: Evidence) -> Resolved:  # noqa: ARG001
        fences = {None, parked.fence}
        if parked.fence is not None and evidence.fence not in fences:
            return Resolved(Resolution.IN_DOUBT, "it was started again after it was parked")
        if parked.fence is None and (evidence.owner or "").startswith(DECIDED):
            return Resolved(Resolution.IN_DOUBT, "somebody else has decided to run it, too")
        return Resolved(Resolution.NEW, "somebody decided to run it")

    return decided
