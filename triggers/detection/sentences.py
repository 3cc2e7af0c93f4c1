"""The tables as sentences for people: ``Outcome.reason``, log lines, parked reasons, ``why``.

A sentence begins with the verdict, in capitals. Then it gives the reason, the fate of the message, and the
row: "IN DOUBT: an earlier run did not finish; parked (row 10)".
"""

from collections.abc import Mapping
from functools import cache

from triggers.detection.aftermath import Aftermath, Ending
from triggers.detection.table import ROWS, Answer, Decision, Status, TableRow

#: The facts about a message, by the number of its row.
_SITUATIONS: Mapping[int, str] = {
    0: "detect_duplicates=False or acknowledge_mode turns detection off",
    1: "delivered more often than max_delivery_count allows",
    2: "delivered for the first time",
    3: "delivered before, and without a history nobody knows whether it ran",
    4: "delivered before, and without a history only the resolver can tell",
    5: "the provider does not count deliveries, and there is no history",
    6: "the provider does not count deliveries, and without a history only the resolver can tell",
    7: "not seen before",
    8: "it already ran",
    9: "it failed with a fatal error at an earlier delivery, and was rolled back",
    10: "an earlier run did not finish",
    11: "an earlier run did not finish",
    12: "an earlier run is still active",
    13: "the history does not answer",
    14: "the history does not answer, so nobody knows whether it ran",
    15: "the history does not answer",
    16: "the resolver cannot tell now",
    17: "the resolver cannot tell now",
    18: "the resolver failed",
    19: "it has no identity, so copies of it cannot be detected",
    20: "delivered again, and so old that the history may have deleted its entry",
    21: "delivered again, and so old that the history may have deleted its entry",
    22: "delivered again after it was rolled back, without a history",
    23: "an earlier message with this uuid had another body",
    24: "it already ran, failed and was given up",
}

#: Rows of ordinary new messages: after they ran, the row is of no interest to anybody.
_ORDINARY = frozenset({2, 7})

_PARKED = "parked"
_AGAIN = "delivered again later"
_SUSPENDED = "; the trigger is suspended"


@cache
def explain(decision: Decision) -> str:
    """Say what a message is, why, and what happens to it, with the row of the table at the end."""
    return in_row(explain_verdict(decision), decision.row)


@cache
def explain_run(decision: Decision, aftermath: Aftermath) -> str:
    """Say how the run of a message ended, and why it ran; without the row."""
    row = ROWS[decision.index]
    verdict, *parts = explain_aftermath(aftermath).split("; ")
    if ": " not in verdict:
        verdict = f"{verdict}: {situation(row)}"
    elif row.number not in _ORDINARY:
        parts.append(situation(row))
    if row.as_resolver and decision.status is not None:
        parts.append(_word_of_resolver(decision.status))
    if decision.status is Status.IN_DOUBT:
        parts.append(_fate(decision))
    return "; ".join([verdict, *parts])


def explain_verdict(decision: Decision) -> str:
    """Say what :func:`explain` says, without the row."""
    row = ROWS[decision.index]
    parts = [f"{_verdict(decision)}: {situation(row)}"]
    if decision.ask:
        return f"{parts[0]}; the resolver decides"
    if row.as_resolver and decision.status is not None:
        parts.append(_word_of_resolver(decision.status))
    return "; ".join([*parts, _fate(decision)])


def without_verdict(sentence: str) -> str:
    """Return a sentence without its initial verdict, for a place that shows the verdict separately."""
    verdict, _, rest = sentence.partition(": ")
    return rest if verdict.isupper() else sentence


def without_place(sentence: str) -> str:
    """Correct a sentence about a message that no place took: it was not parked."""
    return sentence.replace(f"; {_PARKED}", f"; not {_PARKED}")


def in_row(sentence: str, row: int) -> str:
    """Name the row of the table after a sentence."""
    return f"{sentence} (row {row})"


def situation(row: TableRow) -> str:
    """Return the facts about the messages of a row."""
    return _SITUATIONS[row.number]


def _verdict(decision: Decision) -> str:
    """Return the word for the verdict."""
    if decision.ask:
        return "UNDECIDED"
    if decision.rejected:
        return "REJECTED"
    if decision.status is not None:
        return str(decision.status).replace("_", " ")
    return "WAITING" if decision.answer is Answer.RECOVER_LATER else "RECOVERED"


def _word_of_resolver(status: Status) -> str:
    return f"the resolver says {status}"


def _fate(decision: Decision) -> str:
    """Return what happens to a message."""
    if decision.rejected:
        return _PARKED
    match decision.status:
        case Status.NEW:
            return "its service runs"
        case Status.DUPLICATE:
            return "not run again"
        case Status.IN_DOUBT:
            not_run = _PARKED if decision.park else "dropped, because in_doubt='acknowledge'"
            return "run again, because in_doubt='execute'" if decision.runs else not_run
        case None:
            if decision.answer is Answer.RECOVER_LATER:
                return "delivered again when that run ends or its lease is over"
            return _AGAIN + _SUSPENDED * decision.suspend


@cache
def explain_aftermath(aftermath: Aftermath) -> str:
    """Say what the end of a service meant, beginning with the verdict."""
    if aftermath.lost:
        return "LEFT: another run took it over; that run completes it"
    if Ending.LEFT in aftermath.endings:
        return "FAILED: its framework runs it again"
    if Ending.SUCCESS in aftermath.endings:
        return "SUCCEEDED"
    return f"FAILED: {_failure(aftermath)}; {_consequence(aftermath)}"


def _failure(aftermath: Aftermath) -> str:
    if Ending.STOPPED in aftermath.endings:
        return "a transient error, and its consumer stops before the next try"
    if aftermath.endings == frozenset({Ending.FATAL}):
        return "a fatal error"
    if aftermath.transacted is False:
        return "a transient error, and its retries are used up"
    passing = Ending.TRANSIENT in aftermath.endings and Ending.FATAL not in aftermath.endings
    return "a transient error" if passing else "an error"


def _consequence(aftermath: Aftermath) -> str:
    if aftermath.park:
        return _PARKED
    if aftermath.answer is Answer.ACKNOWLEDGE:
        return "its caller decides"
    if aftermath.transacted and aftermath.entry is not None:
        return "rolled back, and rejected at its next delivery"
    back = f"rolled back and {_AGAIN}" if aftermath.transacted else _AGAIN
    ends = ", until max_delivery_count is passed" if aftermath.history is False else ""
    return back + ends + _SUSPENDED * aftermath.suspend
