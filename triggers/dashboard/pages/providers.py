"""The providers: the waiting messages of each place, their receivers and age; and the progress of links."""

from typing import Any

from starlette.responses import Response

from triggers.dashboard.visit import Visit


def providers(visit: Visit) -> Response:
    """Show the answer of each provider."""
    places = visit.operations.places
    asked = places.latest()
    rows: list[dict[str, Any]] = [
        {"asked": one, "backlogs": [(places.names_of(found), found) for found in one.backlogs]}
        for one in asked
    ]
    return visit.show("providers.html", rows=rows)
