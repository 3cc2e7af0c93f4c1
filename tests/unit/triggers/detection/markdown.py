"""Tables of the documentation as Markdown, made from the tables of the code.

Each is the part of a page between two markers: of ``docs/detection.md`` and
``docs/how-to/suspend-and-resume.md``. The decision table itself is read from its page, not made.
"""

from triggers.detection.aftermath import (
    AFTERMATHS,
    LEFT_TO_ITS_HOST,
    LEFT_TO_ITS_OWNER,
    STOPPED_BETWEEN_TRIES,
)
from triggers.detection.sentences import explain_aftermath, explain_verdict
from triggers.detection.suspension import TERMS, Terms
from triggers.detection.table import ROWS, Decision, TableRow


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
