"""A message's story: all facts about a uuid, and the result of its next delivery."""

from collections.abc import Sequence

from starlette.responses import Response

from history.beside.journal import JournalLine
from history.beside.parking import Parking
from triggers.dashboard.pulse import Pulse, Source
from triggers.dashboard.visit import Visit
from triggers.detection.table import Policy
from triggers.operations.stories import Judging, stories


def story_of(visit: Visit) -> Response:
    """Show each trigger's knowledge of a uuid: the same as ``doubtless why``, from the same source."""
    uuid = (visit.asked("uuid") or "").strip()

    def judging(name: str) -> Judging:
        trigger = visit.operations.triggers.get(name)
        if trigger is None:
            return Judging(Policy(), asks=False)
        return Judging.by(trigger)

    problems: list[str] = []

    def lines_of(name: str) -> Sequence[JournalLine]:
        lines, problem = visit.operations.journals.read_or_say(name, uuid)
        problems.extend([] if problem is None else [problem])
        return lines

    pulse = visit.operations.pulse
    sources = pulse.answering() if uuid else ()
    rows = [
        row
        for source in sources
        for row in stories(
            pulse.opened(source),
            uuid,
            judging,
            known=source.triggers,
            elsewhere=_lots_of(pulse, source),
            lines_of=lines_of,
        )
        if pulse.source_of(row["trigger"]) is source
    ]
    return visit.show("story.html", uuid=uuid, rows=rows, problems=problems, away=pulse.away if uuid else [])


def _lots_of(pulse: Pulse, source: Source) -> Sequence[Parking]:
    """Return the other lots in which triggers of a history park; those that are away are missing."""
    lots = {id(lot): lot for name in source.names if (lot := pulse.lot_source_of(name)) is not source}
    return [pulse.opened(lot).parking for lot in lots.values() if lot.problem is None]
