"""The providers: what waits where, for whom, and since when; and how far links are."""

from typing import Any

from starlette.responses import Response

from triggers.dashboard.visit import Visit


def providers(visit: Visit) -> Response:
    """Show what each provider says."""
    places = visit.operations.places
    asked = places.latest()
    rows: list[dict[str, Any]] = [
        {"asked": one, "backlogs": [(places.names_of(found), found) for found in one.backlogs]}
        for one in asked
    ]
    return visit.show("providers.html", rows=rows)
