"""Failures: how often, for which causes, and the latest lines of the journal."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from starlette.responses import Response

from history.beside.journal import JournalLine
from history.store.control import Counts
from history.store.parking import ParkedKind
from triggers.dashboard.visit import Visit

#: How many causes and journal lines a page shows, and how far back the pages of the journal go.
CAUSES, ROWS, FURTHEST = 25, 50, 1_000

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FailureRow:
    """A trigger's messages that did not go well: counts since its statistics began, and present rates."""

    name: str
    counts: Counts
    rates: dict[str, float] | None

    @property
    def failed_share(self) -> float | None:
        """The share of the runs that had to be repeated or given up; None before the first."""
        return None if not self.counts.runs else (self.counts.failed + self.counts.retried) / self.counts.runs


def failures(visit: Visit) -> Response:
    """Show the failures of one trigger or of all."""
    operations, trigger = visit.operations, visit.trigger()
    reading = operations.pulse.known()
    survey = operations.surveyor.latest()
    names = [name for name in reading.triggers if trigger in {None, name}]
    rows = [
        FailureRow(name, counts, None if (rates := operations.pulse.rates(name)) is None else dict(rates))
        for name in names
        if _some(counts := reading.overview.statistics.get(name, Counts()))
    ]
    causes = [
        group
        for group in survey.groups
        if group.kind is not ParkedKind.IN_DOUBT and trigger in {None, group.trigger}
    ]
    begin, first = (visit.number("causes") - 1) * CAUSES, min((visit.page - 1) * ROWS, FURTHEST)
    problems: list[str] = []
    silent = operations.pulse.silent
    heard = [name for name in names if name not in silent]
    lines = list(islice(_lines(visit, heard, first + ROWS + 1, problems), first, None))
    return visit.show(
        "failures.html",
        rows=sorted(rows, key=lambda row: (-row.counts.failed, row.name)),
        causes=causes[begin : begin + CAUSES],
        more_causes=len(causes) > begin + CAUSES,
        lines=lines[:ROWS],
        more=len(lines) > ROWS,
        trigger=trigger,
        survey=survey,
        problems=problems,
        away=operations.pulse.away,
    )


def _some(counts: Counts) -> bool:
    wrong = (
        counts.failed,
        counts.recovered,
        counts.rejected,
        counts.unreadable,
        counts.in_doubt,
        counts.retried,
    )
    return any(wrong)


def _lines(
    visit: Visit, names: list[str], most: int, problems: list[str]
) -> Iterator[tuple[str, JournalLine]]:
    """Yield the journals' last lines, the newest first, each with its trigger.

    Journals that could not be read are added to the problems.
    """
    lists: list[list[tuple[str, JournalLine]]] = []
    for name in names:
        read, problem = visit.operations.journals.read_or_say(name, limit=most)
        problems += [] if problem is None else [problem]
        lists.append([(name, line) for line in reversed(read)])
    yield from heapq.merge(*lists, key=_age, reverse=True)


def _age(entry: tuple[str, JournalLine]) -> tuple[datetime, str]:
    return entry[1].at or _NEVER, entry[1].id
