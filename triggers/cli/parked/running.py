"""Run the service on parked messages, and report the result of each."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from history.bridge import drive
from history.errors import ConfigurationError, DoubtlessError
from history.store.parking import Parked, ParkedKind, ParkedLabel, Parking
from history.store.sealing import why_locked
from history.support.redaction import Redaction
from history.support.rendering import repr_of, text_of
from triggers.cli.rerun import run_parked
from triggers.consumer.options import AnyTrigger
from triggers.pipeline.parking.outcomes import Outcomes
from triggers.service.outcome import Outcome

#: Why a message is not run after another message of its trigger.
BROKE_OFF = "the run before it broke off"

#: A message, and the trigger that runs it.
Planned = tuple[ParkedLabel, AnyTrigger]


def trigger_of(label: ParkedLabel, triggers: Sequence[AnyTrigger]) -> AnyTrigger:
    """Find the trigger that can run a parked message.

    Raises:
        ConfigurationError: none of these can, or the copy holds no message.
    """
    if label.kind is ParkedKind.UNREADABLE:
        raise ConfigurationError("PARKED_ID", f"{label.id} was no message", "send it mended, or discard it")
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
    lot: Parking, runs: Sequence[Planned], history: str | None, outcomes: Outcomes
) -> Iterator[dict[str, Any]]:
    """Run the service on each message, and yield the result.

    If a run is aborted, the other messages of its trigger are not run; other triggers' messages are.

    Raises:
        DoubtlessError: the error of the first aborted run, after all had their turn.
    """
    broken: dict[str, DoubtlessError] = {}
    for label, trigger in runs:
        if label.trigger_name in broken:
            drive(outcomes.add(label, f"not run: {BROKE_OFF}", closed=False))
            yield left_row(label, BROKE_OFF)
            continue
        try:
            row = run_row(lot, label, trigger, history, outcomes)
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
    lot: Parking, label: ParkedLabel, trigger: AnyTrigger, history: str | None, outcomes: Outcomes
) -> dict[str, Any]:
    """Run the service on one parked message, return the result, and add it to the audit trail."""
    try:
        row = _run_row(lot, label, trigger, history)
    except Exception as error:
        drive(outcomes.add(label, f"failed: {text_of(error, trigger.settings.redaction)}", closed=False))
        raise
    drive(outcomes.add(label, _outcome_in_words(row), closed=row["closed"]))
    return row


def _run_row(lot: Parking, label: ParkedLabel, trigger: AnyTrigger, history: str | None) -> dict[str, Any]:
    parked = drive(lot.get(label.id, trigger=label.trigger_name))
    if parked is None:  # another person has decided meanwhile
        return _row(label, closed=True, reason="it is not parked any more")
    if (locked := why_locked(parked)) is not None:
        return _row(label, closed=False, reason=locked)
    return _outcome_row(parked, _run(trigger, parked, lot, history), trigger.settings.redaction)


def _outcome_in_words(row: dict[str, Any]) -> str:
    if row["executed"] and row["closed"]:
        return "it ran, and completed"
    if row["executed"]:
        return f"failed: {row['error'] or row['reason']}"
    return f"not run: {row['reason']}" if row["closed"] else f"refused: {row['reason']}"


def _run(trigger: AnyTrigger, parked: Parked, lot: Parking, history: str | None) -> Outcome:
    if history is not None:
        trigger.use_default_history(history)
    if not trigger.is_async:
        try:
            return drive(run_parked(trigger, parked, lot))
        finally:
            trigger.close()

    async def run_and_close() -> Outcome:
        try:
            return await run_parked(trigger, parked, lot)
        finally:
            await trigger.aclose()

    return asyncio.run(run_and_close())


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
