"""Export of parked messages: what the desk shows, with its filters, as JSON lines or CSV.

The messages are read while they are sent, a piece at a time. A user who may not see bodies gets the facts
that the desk shows to such a user.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from starlette.responses import Response, StreamingResponse

from history.beside.sealing import why_locked
from history.beside.security import SecurityEvent, SecurityOutcome, SecurityRecord
from history.bridge import drive
from history.store.parking import Parked, ParkedLabel
from history.support.paging import pieces_of
from triggers.dashboard.groups import Group
from triggers.dashboard.operations import Operations
from triggers.dashboard.pages.parked import asked_groups
from triggers.dashboard.survey import Survey
from triggers.dashboard.visit import Visit
from triggers.operations.journals import refuse_unknown
from triggers.operations.messages import row_of, whole
from triggers.security.recorder import Recorder

#: The forms of an export, and their media types.
FORMS = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}

#: How many messages are read and sent together.
PIECE = 100

#: The columns of CSV; the last ones only for users who see bodies.
COLUMNS = (
    *("id", "trigger", "kind", "uuid", "destination", "parked_at", "reason"),
    *("error_class", "error_message", "error_place", "owner", "copies"),
)
WHOLE = ("headers", "body-kind", "body", "raw", "locked")

#: With which characters a cell begins that a spreadsheet takes for a formula.
FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001  (the wide forms, which some spreadsheets accept)

#: Shows a text to a user, as far as the user may see it.
Shown = Callable[[str | None], str | None]


def export(visit: Visit) -> Response:
    """Send the parked messages of a group, a trigger or a host, or all."""
    form = visit.asked("format") or "jsonl"
    refuse_unknown("format", "form of an export", form, FORMS)
    survey, key = visit.operations.surveyor.latest(), visit.asked("key")
    groups = asked_groups(visit, survey) if key is None else [survey.group(key)]
    matching = visit.filters.narrowed(group for group in groups if group is not None)
    if key is not None and not matching:
        return visit.problem(
            404, "Nothing is left of this group", "Its messages have been decided or closed."
        )
    trigger = visit.trigger() if key is None else matching[0].trigger
    if missing := _missing(visit.operations, survey, trigger):
        why = ", ".join(missing)
        text = f"The export would not be complete: {why}. Try again, or choose another trigger."
        return visit.problem(503, "Not exported", text)
    records = [visit.record_of(SecurityEvent.EXPORT, **target) for target in _targets(matching, trigger)]
    read = pieces(visit.operations, matching, form, None if visit.sees_bodies else visit.shown)
    with visit.recorded(records):
        first = next(read, b"")  # a history that is away answers with an error page
    rest = noting(read, visit.operations.recorder, records)
    name = f'attachment; filename="parked.{form}"'
    return StreamingResponse(
        _after(first, rest), media_type=FORMS[form], headers={"Content-Disposition": name}
    )


def pieces(
    operations: Operations, groups: Sequence[Group], form: str, shown: Shown | None
) -> Iterator[bytes]:
    """Yield the text of an export.

    Messages that are no longer parked are left out. With ``shown``, bodies are as well, and it shows the
    texts.

    Raises:
        DoubtlessError: a history does not answer.
    """
    columns = COLUMNS if shown is not None else (*COLUMNS, *WHOLE)
    write = _as_json if form == "jsonl" else _as_csv
    head = b"" if form == "jsonl" else _as_csv([dict(zip(columns, columns, strict=True))], columns)
    for group in groups:
        lot = operations.lot_of(group.trigger).parking
        for lines in pieces_of(group.lines, PIECE):
            read = [(line.id, drive(lot.get(line.id, trigger=group.trigger))) for line in lines]
            parked = [message for id_, message in read if message is not None and message.id == id_]
            yield head + write([row(message, shown) for message in parked], columns)
            head = b""
    if head:
        yield head


def noting(pieces: Iterator[bytes], recorder: Recorder, records: Sequence[SecurityRecord]) -> Iterator[bytes]:
    """Yield the pieces; if they break off, record it. The download then fails in the browser as well."""
    try:
        yield from pieces
    except Exception:
        for record in records:
            recorder.note(record.after(SecurityOutcome.FAILED, "it broke off"))
        raise


def _after(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _missing(operations: Operations, survey: Survey, trigger: str | None) -> list[str]:
    """Say which histories are away, or not counted yet, that have messages of a trigger, or of any."""
    wanted = operations.pulse.sources if trigger is None else [operations.pulse.lot_source_of(trigger)]
    away = [f"{source.address} does not answer" for source in wanted if source in operations.surveyor.fails]
    new = [f"{source.address} is being counted" for source in wanted if source.address in survey.counting]
    return [*away, *new]


def _targets(groups: Sequence[Group], trigger: str | None) -> list[Mapping[str, Any]]:
    """Return how many messages of each trigger are exported, for the security log."""
    counts: dict[str | None, int] = {}
    for group in groups:
        counts[group.trigger] = counts.get(group.trigger, 0) + len(group.lines)
    return [{"trigger": name, "messages": count} for name, count in (counts or {trigger: 0}).items()]


def row(parked: Parked, shown: Shown | None) -> dict[str, Any]:
    """Return the facts about a message; with ``shown``, no body, and the texts as it shows them."""
    label = ParkedLabel.of(parked)
    if shown is not None:
        return row_of(label.model_copy(update={"reason": shown(label.reason), "error_message": None}))
    content = {} if parked.message is None else whole(parked.message)
    return row_of(label) | content | {"raw": parked.raw, "locked": why_locked(parked)}


def _as_json(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    """Return rows as lines of JSON in ASCII, without absent values."""
    objects = ({name: row[name] for name in columns if row.get(name) is not None} for row in rows)
    return "".join(f"{json.dumps(row, default=datetime.isoformat)}\n" for row in objects).encode()


def _as_csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: Any) -> str:
    """Return the text of a cell, which a spreadsheet does not take for a formula."""
    match value:
        case None:
            text = ""
        case dict() | list():
            text = json.dumps(value)
        case _:
            text = value.isoformat() if isinstance(value, datetime) else str(value)
    return f"'{text}" if text.startswith(FORMULA) else text
