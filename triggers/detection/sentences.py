"""What the tables say, in sentences for people: ``Outcome.reason``, log lines, parked reasons, ``why``.

A sentence says what is known of a message, then what becomes of it, and names its row at the end:
"an earlier run started and never finished; kept for you to decide (row 10)".
"""

from collections.abc import Mapping
from functools import cache

from triggers.detection.aftermath import (
    AFTERMATHS,
    LEFT_TO_ITS_HOST,
    LEFT_TO_ITS_OWNER,
    STOPPED_BETWEEN_TRIES,
    Aftermath,
    Ending,
)
from triggers.detection.table import ROWS, Answer, Decision, Row, Status

#: What is known of a message, by the number of its row.
_SITUATIONS: Mapping[int, str] = {
    0: "duplicates are not looked for, as detect_duplicates=False or acknowledge_mode says",
    1: "it was delivered more often than max_delivery_count allows",
    2: "it is delivered for the first time",
    3: "it was delivered before, and without a history nobody knows whether it ran",
    4: "it was delivered before, and without a history only the resolver can tell whether it ran",
    5: "the provider counts no deliveries, and there is no history",
    6: "the provider counts no deliveries, and without a history only the resolver can tell whether it ran",
    7: "it was not seen before",
    8: "it has run already",
    9: "it failed for good at an earlier delivery, and was rolled back",
    10: "an earlier run started and never finished",
    11: "an earlier run started and never finished",
    12: "an earlier run is still going on",
    13: "the history does not answer",
    14: "the history does not answer, so nobody knows whether it ran",
    15: "the history does not answer",
    16: "the resolver cannot tell now",
    17: "the resolver cannot tell now",
    18: "the resolver failed",
    19: "it has no identity by which a copy could be known",
    20: "it is delivered again, and was sent longer ago than the history remembers",
    21: "it is delivered again, and was sent longer ago than the history remembers",
    22: "it is delivered again after it was rolled back, without a history",
    23: "another body came first under its uuid",
    24: "it has run already, failed, and was given up then",
}

_KEPT = "kept for you to decide"
_SUSPENDED = ", and the trigger is suspended"


@cache
def explain(decision: Decision) -> str:
    """Say what is known of a message and what becomes of it, with the row of the table at the end."""
    return in_row(f"{situation(ROWS[decision.index])}; {_verdict(decision)}", decision.row)


@cache
def explain_run(decision: Decision, aftermath: Aftermath) -> str:
    """Say what was known of a message that ran, and what came of it; without the row."""
    parts = [situation(ROWS[decision.index])]
    if ROWS[decision.index].as_resolver and decision.status is not None:
        parts.append(_word_of_resolver(decision.status))
    if decision.status is Status.IN_DOUBT:
        parts.append(_fate(decision))
    return "; ".join([*parts, explain_aftermath(aftermath)])


def explain_verdict(decision: Decision) -> str:
    """Say what :func:`explain` says, without the row."""
    return f"{situation(ROWS[decision.index])}; {_verdict(decision)}"


def in_row(sentence: str, row: int) -> str:
    """Name the row of the table after a sentence."""
    return f"{sentence} (row {row})"


def situation(row: Row) -> str:
    """Return what is known of the messages that a row is for."""
    return _SITUATIONS[row.number]


def _verdict(decision: Decision) -> str:
    if decision.ask:
        return "the resolver decides"
    if ROWS[decision.index].as_resolver and decision.status is not None:
        return f"{_word_of_resolver(decision.status)}; {_fate(decision)}"
    return _fate(decision)


def _word_of_resolver(status: Status) -> str:
    return f"the resolver says {status}"


def _fate(decision: Decision) -> str:
    """Return what becomes of a message."""
    if decision.rejected:
        return f"rejected, and {_KEPT}"
    match decision.status:
        case Status.NEW:
            return "its service runs"
        case Status.DUPLICATE:
            return "a duplicate, not run"
        case Status.IN_DOUBT:
            not_run = _KEPT if decision.park else "dropped, as in_doubt='acknowledge' says"
            return "run all the same, as in_doubt='execute' says" if decision.runs else not_run
        case None:
            later = " until that one ends or its lease is over" * (decision.answer is Answer.RECOVER_LATER)
            return "given back" + later + _SUSPENDED * decision.suspend


@cache
def explain_aftermath(aftermath: Aftermath) -> str:
    """Say what the end of a service meant."""
    if aftermath.lost:
        return "another run has taken it over meanwhile, and it is left to that one"
    if Ending.LEFT in aftermath.endings:
        return "it failed, and its host runs it again"
    if Ending.SUCCESS in aftermath.endings:
        return "the service succeeded"
    return f"{_failure(aftermath)}; {_consequence(aftermath)}"


def _failure(aftermath: Aftermath) -> str:
    if Ending.STOPPED in aftermath.endings:
        return "the service failed for now, and its consumer stops before it is tried again"
    if aftermath.endings == frozenset({Ending.FATAL}):
        return "the service failed for good"
    if aftermath.transacted is False:
        return "the service failed, and its retries are used up"
    passing = Ending.TRANSIENT in aftermath.endings and Ending.FATAL not in aftermath.endings
    return "the service failed for now" if passing else "the service failed"


def _consequence(aftermath: Aftermath) -> str:
    if aftermath.park:
        return _KEPT
    if aftermath.answer is Answer.ACKNOWLEDGE:
        return "left to its caller"
    if aftermath.transacted and aftermath.entry is not None:
        return "rolled back, and rejected at its next delivery"
    back = "rolled back and given back" if aftermath.transacted else "given back"
    ends = ", to run again until max_delivery_count is passed" if aftermath.history is False else ""
    return back + ends + _SUSPENDED * aftermath.suspend


def render() -> str:
    """Render the sentences of all rows, and of all ends, as Markdown, for ``docs/detection.md``."""
    lines = ["| row | what is known | what becomes of it |", "| --- | --- | --- |"]
    lines += [f"| {row.number} | {situation(row)} | {_fate_of(row)} |" for row in sorted(ROWS, key=_number)]
    lines += ["", "| the service ended | what is said |", "| --- | --- |"]
    for aftermath in (*AFTERMATHS, STOPPED_BETWEEN_TRIES, LEFT_TO_ITS_HOST, LEFT_TO_ITS_OWNER):
        trigger = {True: "transacted, ", False: "plain, ", None: ""}[aftermath.transacted]
        history = "no history, " if aftermath.history is False else ""
        ended = " or ".join(sorted(str(ending.value) for ending in aftermath.endings))
        suspends = ', `on_retry_failure="suspend"`' if aftermath.on_retry_failure == "suspend" else ""
        lines.append(f"| {trigger}{history}{ended}{suspends} | {explain_aftermath(aftermath)} |")
    return "\n".join(lines) + "\n"


def _number(row: Row) -> int:
    return row.number


def _fate_of(row: Row) -> str:
    """Return what becomes of the messages of a row, with the default settings."""
    if row.as_resolver:
        return "the resolver says NEW: its service runs; DUPLICATE: not run; IN_DOUBT: kept for you to decide"
    return _fate(
        Decision(
            row=row.number,
            index=ROWS.index(row),
            status=row.status,
            runs=row.runs,
            answer=row.answer,
            park=row.park,
            suspension=row.suspension,
            rejected=row.rejected,
        )
    )
