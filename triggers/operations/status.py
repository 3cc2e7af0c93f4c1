"""The reports of the consumers of triggers, and commands for them."""

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from operator import attrgetter
from typing import Any

from history.beside.control import Control
from history.bridge import drive
from history.store.control import Beat, Counts, Overview, TriggerState, Verb

#: How often to check the consumers while the command waits for them, in seconds.
LOOK_INTERVAL = 0.1

#: The status of a trigger after its consumers have ended, and of a trigger that never had any: guards and
#: Spark use triggers without a consumer, and report only counts.
NOT_RUNNING, NO_CONSUMER = "NOT RUNNING", "NO CONSUMER REPORTS"

#: The status of a trigger that would receive if its provider answered.
AWAY = "PROVIDER AWAY"

#: The status of a trigger in a consumer that stopped reporting without a goodbye, and how many of these are
#: shown: a service that dies again and again leaves many.
LOST, MOST_LOST = "LOST", 10

#: The state that proves obedience, in addition to the report of it; an error may suspend again immediately.
_PROOFS = {
    Verb.SUSPEND: {TriggerState.SUSPENDED, TriggerState.DISABLED},
    Verb.DISABLE: {TriggerState.DISABLED},
}


def order_and_wait(
    control: Control, verb: Verb, names: Sequence[str], reason: str | None, wait: float
) -> list[dict[str, Any]]:
    """Send a command, wait for the running consumers at most ``wait`` seconds, and return their answers."""
    number = drive(control.order(verb, names, reason=reason))
    deadline = time.monotonic() + wait
    while True:
        beats = [beat for beat in drive(control.overview()).beats if beat.report.trigger in names]
        rows = [_answer_row(beat, verb, number) for beat in sorted(beats, key=_by_name)]
        if all(row["obeyed"] for row in rows) or time.monotonic() >= deadline:
            return rows
        time.sleep(LOOK_INTERVAL)


def _answer_row(beat: Beat, verb: Verb, number: int) -> dict[str, Any]:
    report = beat.report
    return {
        "trigger": report.trigger,
        "consumer": report.consumer,
        "obeyed": report.obeyed >= number and report.state in _PROOFS.get(verb, TriggerState),
        "state": report.state,
        "busy": report.busy,
        "reason": report.reason,
    }


def status_rows(trigger: str, overview: Overview) -> Iterator[dict[str, Any]]:
    """Yield :func:`running_rows`, then the last reports of lost consumers: the latest :data:`MOST_LOST`."""
    yield from running_rows(trigger, overview)
    lost = [beat for beat in overview.lost if beat.report.trigger == trigger]
    yield from map(_lost_row, sorted(lost, key=attrgetter("beat_at"), reverse=True)[:MOST_LOST])


def running_rows(trigger: str, overview: Overview) -> Sequence[dict[str, Any]]:
    """Return the report of each running consumer of a trigger; one row if there is none."""
    running = sorted(overview.running(trigger), key=_by_name)
    return [_running_row(beat) for beat in running] or [_idle_row(trigger, overview)]


def _running_row(beat: Beat) -> dict[str, Any]:
    report = beat.report
    waits = report.state is TriggerState.RUNNING and report.away is not None
    return {
        "trigger": report.trigger,
        "consumer": report.consumer,
        "state": AWAY if waits else report.state,
        "busy": report.busy,
        "reason": report.away if waits else report.reason,
        "troubles": [
            trouble.model_dump(exclude={"elapsed"})
            | {"since": beat.beat_at - timedelta(seconds=trouble.elapsed)}
            for trouble in report.troubles
        ],
        "by_command": report.by_command,
        "since": beat.away_since if waits else beat.since,
        "away": report.away,
        "away_since": beat.away_since,
        "last_beat": beat.beat_at,
        "counts": named_counts(report.counts),
    }


def _lost_row(beat: Beat) -> dict[str, Any]:
    reason = f"it stopped reporting without a goodbye; its last state was {beat.report.state}"
    return _running_row(beat) | {"state": LOST, "reason": reason, "since": beat.beat_at}


def _idle_row(trigger: str, overview: Overview) -> dict[str, Any]:
    disabled, hold = overview.disabled(trigger), overview.held(trigger)
    idle = NOT_RUNNING if overview.had_consumer(trigger) else NO_CONSUMER
    closed = disabled or hold
    state = TriggerState.SUSPENDED if disabled is None else TriggerState.DISABLED
    return {
        "trigger": trigger,
        "consumer": None,
        "state": idle if closed is None else state,
        "busy": 0,
        "reason": None if closed is None else closed.reason,
        "troubles": [],
        "by_command": disabled is not None,
        "since": None if closed is None else closed.given_at,
        "away": None,
        "away_since": None,
        "last_beat": None,
        "counts": named_counts(Counts()),
    }


def _by_name(beat: Beat) -> tuple[str, str]:
    return beat.report.trigger, beat.report.consumer


def named_counts(counts: Counts) -> dict[str, Any]:
    """Return counts as they are printed: the time in seconds, and per run in milliseconds."""
    mean = counts.mean_milliseconds
    return {
        **counts.model_dump(exclude={"microseconds"}),
        "seconds": round(counts.seconds, 3),
        "mean_ms": None if mean is None else round(mean, 3),
    }
