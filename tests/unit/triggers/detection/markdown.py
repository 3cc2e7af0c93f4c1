"""The tables of the documentation as Markdown, made from the tables of the code.

Each is the part of a page between two markers: of ``docs/detection.md`` and
``docs/how-to/suspend-and-resume.md``.
"""

from collections.abc import Iterable
from enum import Enum

from triggers.detection.aftermath import (
    AFTERMATHS,
    LEFT_TO_ITS_HOST,
    LEFT_TO_ITS_OWNER,
    STOPPED_BETWEEN_TRIES,
    Aftermath,
    Ending,
)
from triggers.detection.sentences import explain_aftermath, explain_verdict
from triggers.detection.suspension import TERMS, Terms
from triggers.detection.table import ROWS, Answer, Count, Decision, Found, HistoryUse, TableRow, Word

_ORDER: list[Enum] = [value for enum in (Count, HistoryUse, Found, Word, Ending) for value in enum]
_DIED = "| any | process dies | STARTED | none | IN_DOUBT (row 10), or row 12 then 10 with a lease |"


def _verdict(row: TableRow) -> str:
    if row.rejected:
        return "rejected"
    if row.as_resolver:
        return "as resolver"
    in_progress = row.answer is Answer.RECOVER_LATER
    return str(row.status or ("in progress" if in_progress else "undecided"))


def _answers(judged: TableRow | Aftermath) -> str:
    parts = [str(judged.answer)] + ["park"] * judged.park
    # An aftermath has no separate column for the event.
    parts += ["event"] * (judged.event and not isinstance(judged, TableRow)) + ["suspend"] * judged.suspend
    return ", ".join(parts)


def _values(values: Iterable[Enum]) -> str:
    return " / ".join(str(value.value) for value in sorted(values, key=_ORDER.index))


def _words(row: TableRow) -> str:
    return "not called" if row.words is None else _values(row.words - {Word.NOT_ASKED})


def _setting(name: str, value: object) -> str:
    return f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}"


def decision_table() -> str:
    """Render the decision table and the table of what follows a run, for ``docs/detection.md``."""
    head = (
        "| # | delivery count | history | entry found | resolver | status | service runs | answer | event |"
    )
    lines = [head, "|" + " --- |" * 9]
    lines += [_render_row(row) for row in sorted(ROWS, key=lambda row: row.number)]
    lines += ["", "| trigger | outcome | entry | answer | next delivery |", "|" + " --- |" * 5]
    lines += [_render_aftermath(aftermath) for aftermath in AFTERMATHS]
    return "\n".join([*lines, _DIED]) + "\n"


def _render_row(row: TableRow) -> str:
    runs = "only NEW" if row.as_resolver else "yes" if row.runs else "no"
    # Once the service has run, the second table knows about events.
    event = "-" if row.runs else "yes" if row.event else "no"
    answer = _answers(row) + " (park if In Doubt)" * row.as_resolver
    return _line(str(row.number), *_situation(row), _verdict(row), runs, answer, event)


def _situation(row: TableRow) -> tuple[str, str, str, str]:
    """Return the cells for delivery count, history, entry found and resolver."""
    settings = "".join(f", `{_setting(*setting)}`" for setting in row.policy)
    counts = "any" if row.counts is None else _values(row.counts)
    if row.words is not None and row.history is None:
        return "resolver needed", "", "", _words(row) + settings
    if row.history is None:
        return counts, "any" + settings, "not consulted", _words(row)
    if HistoryUse.OFF in row.history:
        return counts, "off", "-" + settings, _words(row)
    if row.identified is False:
        return counts, "on", "message has neither uuid nor JMSMessageID", _words(row)
    values = _values(row.history if row.found is None else row.found)
    return counts, "on", values + settings, _words(row)


def _render_aftermath(aftermath: Aftermath) -> str:
    trigger = {True: "transacted", False: "plain", None: "any"}[aftermath.transacted]
    if aftermath.history is False:
        return _line(
            f"{trigger}, no history", _ending(aftermath, code="`"), "-", _answers(aftermath), aftermath.next
        )
    return _line(
        trigger, _ending(aftermath, code="`"), _entry(aftermath), _answers(aftermath), aftermath.next
    )


def _ending(aftermath: Aftermath, *, code: str = "") -> str:
    endings = " or ".join(str(ending.value) for ending in sorted(aftermath.endings, key=_ORDER.index))
    if aftermath.transacted is False and Ending.TRANSIENT in aftermath.endings:
        endings = "retries used up"
    policy = (
        "" if aftermath.on_retry_failure is None else _setting("on_retry_failure", aftermath.on_retry_failure)
    )
    return endings + (policy and f", {code}{policy}{code}")


def _entry(aftermath: Aftermath) -> str:
    if aftermath.lost:
        return "as it is"
    return "released" if aftermath.entry is None else f"COMPLETED {aftermath.entry}"


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def table_of_sentences() -> str:
    """Render the sentences of all rows, and of all ends, for ``docs/detection.md``."""
    lines = ["| row | verdict and reason | what happens |", "| --- | --- | --- |"]
    lines += [f"| {row.number} | {_said_of(row)} |" for row in sorted(ROWS, key=lambda row: row.number)]
    lines += ["", "| the service ended | what doubtless says |", "| --- | --- |"]
    for aftermath in (*AFTERMATHS, STOPPED_BETWEEN_TRIES, LEFT_TO_ITS_HOST, LEFT_TO_ITS_OWNER):
        trigger = {True: "transacted, ", False: "plain, ", None: ""}[aftermath.transacted]
        history = "no history, " if aftermath.history is False else ""
        ended = " or ".join(sorted(str(ending.value) for ending in aftermath.endings))
        suspends = ', `on_retry_failure="suspend"`' if aftermath.on_retry_failure == "suspend" else ""
        lines.append(f"| {trigger}{history}{ended}{suspends} | {explain_aftermath(aftermath)} |")
    return "\n".join(lines) + "\n"


def _said_of(row: TableRow) -> str:
    """Return the cells of a row: its verdict and reason, and what happens with the default settings."""
    decision = Decision(
        row=row.number,
        index=ROWS.index(row),
        status=row.status,
        runs=row.runs,
        answer=row.answer,
        park=row.park,
        suspension=row.suspension,
        rejected=row.rejected,
        ask=row.as_resolver,
    )
    verdict, _, fate = explain_verdict(decision).partition("; ")
    if row.as_resolver:
        fate = "the resolver says NEW: its service runs; DUPLICATE: not run again; IN_DOUBT: parked"
    return f"{verdict} | {fate}"


def table_of_suspensions() -> str:
    """Render the table of suspensions, for ``docs/how-to/suspend-and-resume.md``."""
    head = (
        "| kind | suspended by | trigger | receives again when | the message is | deliveries that it uses up "
        "| suspended consumers | later messages | later messages with `ordered=True` |"
    )
    lines = [head, "|" + " --- |" * 9]
    for terms in TERMS:
        cells = (
            terms.kind.value,
            terms.cause,
            _trigger(terms),
            " and ".join(terms.wakers),
            terms.fate.value,
            str(terms.deliveries),
            terms.reach.value,
            _behind(terms, ordered=False),
            _behind(terms, ordered=True),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _trigger(terms: Terms) -> str:
    if terms.monitor is not None:
        return "with a `monitor`" if terms.monitor else "without a `monitor`"
    if terms.transacted is not None:
        return "transacted" if terms.transacted else "plain"
    return "any"


def _behind(terms: Terms, *, ordered: bool) -> str:
    return "run in other consumers" if terms.overtakes(ordered=ordered) else "wait"
