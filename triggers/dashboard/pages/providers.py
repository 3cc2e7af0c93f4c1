"""The providers: the waiting messages of each place, their receivers and age; and the progress of links."""

from typing import Any

from starlette.responses import Response

from history.beside.security import SecurityEvent
from history.bridge import drive
from history.errors import ConfigurationError
from triggers.dashboard.visit import Visit
from triggers.operations.importing import SUBSCRIPTION, Import
from triggers.providers.opening import open_provider

#: How many dead letters one click reads at most, and after how many seconds without one it ends.
MOST_LETTERS, UNTIL_IDLE = 1_000, 3.0


def providers(visit: Visit) -> Response:
    """Show the answer of each provider."""
    places = visit.operations.places
    asked = places.latest()
    rows: list[dict[str, Any]] = [
        {"asked": answer, "backlogs": [(places.names_of(backlog), backlog) for backlog in answer.backlogs]}
        for answer in asked
    ]
    return visit.show("providers.html", rows=rows, triggers=sorted(visit.operations.triggers))


def letters(visit: Visit) -> Response:
    """Park some messages of a dead-letter destination."""
    operations, name = visit.operations, visit.given("trigger") or None
    url, destination = operations.places.url_of(visit.given("provider")), (visit.given("from") or "").strip()
    if url is None or not destination:
        raise ConfigurationError("provider", "name a provider of this page, and a destination", "try again")
    triggers = [trigger for trigger in operations.triggers.values() if name in {None, trigger.name}]
    if not triggers:
        raise ConfigurationError(
            "trigger", "no such trigger is loaded", "start the dashboard with its module"
        )
    work = Import(
        destination=destination,
        triggers=triggers,
        stores=operations.store_of,
        limit=MOST_LETTERS,
        until_idle=UNTIL_IDLE,
    )
    provider = open_provider(url)
    try:
        with visit.recorded([visit.record_of(SecurityEvent.IMPORT, trigger=of.name) for of in triggers]):
            imported = work.run_on(provider, subscription=SUBSCRIPTION)
    finally:
        drive(provider.close())
    if visit.by_program:
        return visit.data({"parked": dict(imported.parked), "left": imported.left})
    more = " There may be more: read them in again." if imported.total >= MOST_LETTERS else ""
    left = f" {imported.left:,} stay there: choose their trigger." if imported.left else ""
    title = f"{imported.total:,} dead letters are parked"
    return visit.problem(200, title, f"From {destination}.{more}{left}")
