"""The decision table in words: for ``Outcome.reason``, ``doubtless why`` and the documentation."""

from collections.abc import Iterable
from enum import Enum
from functools import cache

from triggers.detection import (
    AFTERMATHS,
    ROWS,
    Aftermath,
    Count,
    Decision,
    Found,
    HistoryUse,
    Row,
    Word,
)

_IN_PROGRESS_ROW = 12
_NO_RESOLVER = frozenset({Word.NONE})
_ORDER = [str(value.value) for kind in (Count, HistoryUse, Found, Word) for value in kind]


@cache
def explain(decision: Decision) -> str:
    """Say a decision in the table's own words, such as "row 8: COMPLETED ok, DUPLICATE, acknowledge"."""
    row = next(row for row in ROWS if row.number == decision.row)
    conditions = [text for text in _conditions(row) if text != "any"]
    verdict = "rejected" if decision.rejected else (decision.status or "undecided")
    if decision.row == _IN_PROGRESS_ROW:
        verdict = "in progress"
    return f"row {decision.row}: {', '.join(conditions)}: {verdict}, {_answers(decision)}"


@cache
def explain_aftermath(one: Aftermath) -> str:
    """Say what a service's end meant, such as "success: COMPLETED ok"."""
    endings = " or ".join(sorted(ending.value for ending in one.endings))
    entry = "released" if one.entry is None else f"COMPLETED {one.entry}"
    parts = [str(one.answer)] + ["park"] * one.park + ["event"] * one.event + ["suspend"] * one.suspend
    return f"{endings}: {entry if one.history is not False else 'no entry'}, {', '.join(parts)}"


def _conditions(row: Row) -> Iterable[str]:
    if row.counts is not None:
        yield f"delivery count {_told(row.counts)}"
    if row.identified is False:
        yield "neither uuid nor JMSMessageID"
    if row.history is not None:
        yield f"history {_told(row.history)}"
    if row.found is not None:
        yield _told(row.found)
    if row.words is not None:
        words = row.words - {Word.NOT_ASKED}
        yield "no resolver" if words == _NO_RESOLVER else f"resolver {_told(words)}"
    for name, value in row.policy:
        yield f"{name}={value}"


def _told(values: Iterable[Enum]) -> str:
    return " / ".join(sorted((str(value.value) for value in values), key=_ORDER.index))


def _answers(decision: Decision) -> str:
    parts = [str(decision.answer)]
    parts += ["park"] * decision.park + ["event"] * decision.event + ["suspend"] * decision.suspend
    return ", ".join(parts)


def render() -> str:
    """Render both tables as Markdown, for ``docs/detection.md``."""
    head = (
        "| # | delivery count | history | entry found | resolver | status | service runs | answer | event |"
    )
    lines = [head, "|" + " --- |" * 9]
    lines += [_render_row(row) for row in sorted(ROWS, key=lambda row: row.number)]
    lines += ["", "| trigger | outcome | entry | answer | next delivery |", "|" + " --- |" * 5]
    lines += [_render_aftermath(one) for one in AFTERMATHS]
    lines.append(
        "| any | the process dies | STARTED | none | IN_DOUBT (row 10), or row 12 then 10 with a lease |"
    )
    return "\n".join(lines) + "\n"


def _render_row(row: Row) -> str:
    counts = "any" if row.counts is None else _told(row.counts)
    history = "any" if row.history is None else _told(row.history)
    history += "".join(f", `{name}={value}`" for name, value in row.policy)
    found = "any" if row.found is None else _told(row.found)
    if row.identified is False:
        found = "message has neither uuid nor JMSMessageID"
    words = "any" if row.words is None else _told(row.words - {Word.NOT_ASKED})
    status = "rejected" if row.rejected else "as resolver" if row.as_resolver else row.status or "undecided"
    if row.number == _IN_PROGRESS_ROW:
        status = "in progress"
    runs = "only NEW" if row.as_resolver else "yes" if row.runs else "no"
    parts = [str(row.answer)] + ["park"] * row.park + ["park if In Doubt"] * row.as_resolver
    answer = ", ".join(parts + ["suspend"] * row.suspend)
    event = "yes" if row.event else "no"
    cells = [str(row.number), counts, history, found, words, status, runs, answer, event]
    return "| " + " | ".join(cells) + " |"


def _render_aftermath(one: Aftermath) -> str:
    trigger = {True: "transacted", False: "plain", None: "any"}[one.transacted]
    trigger += ", no history" if one.history is False else ""
    endings = " or ".join(sorted(ending.value for ending in one.endings))
    endings += f', `on_retry_failure="{one.on_retry_failure}"`' if one.on_retry_failure else ""
    entry = "released" if one.entry is None else f"COMPLETED {one.entry}"
    entry = "-" if one.history is False else entry
    parts = [str(one.answer)] + ["park"] * one.park + ["event"] * one.event + ["suspend"] * one.suspend
    return f"| {trigger} | {endings} | {entry} | {', '.join(parts)} | {one.next} |"
