"""A message's story: everything that is known of a uuid, and what becomes of its next delivery."""

from typing import Any

from starlette.responses import Response

from triggers.cli.why import Judging, story
from triggers.dashboard.visit import Visit
from triggers.detection.table import Policy


def story_of(visit: Visit) -> Response:
    """Show what each trigger knows of a uuid."""
    uuid = (visit.asked("uuid") or "").strip()
    problems: list[str] = []
    rows = _rows(visit, uuid, problems) if uuid else []
    return visit.show("story.html", uuid=uuid, rows=rows, problems=problems)


def _rows(visit: Visit, uuid: str, problems: list[str]) -> list[dict[str, Any]]:
    """Return what each trigger knows of a uuid, and add what could not be read to the problems."""
    operations = visit.operations
    parked = list(operations.surveyor.latest().of_uuid(uuid))
    names = sorted({*operations.pulse.read().triggers, *(label.trigger_name for label in parked)})
    found: list[dict[str, Any]] = []
    for name in names:
        trigger = operations.triggers.get(name)
        judging = Judging(Policy(), asks=False)
        if trigger is not None:
            judging = Judging(trigger.settings.policy, trigger.resolver is not None)
        mine = [label for label in parked if label.trigger_name == name]
        lines, problem = operations.journals.read_or_say(name, uuid)
        problems += [] if problem is None else [problem]
        if (row := story(operations.store, name, uuid, judging, mine, lines)) is not None:
            found.append(row)
    return found
