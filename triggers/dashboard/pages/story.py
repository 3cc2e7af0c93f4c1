"""A message's story: everything that is known of a uuid, and what becomes of its next delivery."""

from typing import Any

from starlette.responses import Response

from triggers.cli.why import Judging, lines_of, story
from triggers.dashboard.visit import Visit
from triggers.detection.table import Policy


def story_of(visit: Visit) -> Response:
    """Show what each trigger knows of a uuid."""
    uuid = (visit.asked("uuid") or "").strip()
    return visit.show("story.html", uuid=uuid, rows=_rows(visit, uuid) if uuid else [])


def _rows(visit: Visit, uuid: str) -> list[dict[str, Any]]:
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
        lines = lines_of(operations.store, name, uuid)
        if (row := story(operations.store, name, uuid, judging, mine, lines)) is not None:
            found.append(row)
    return found
