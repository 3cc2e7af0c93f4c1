"""Filters of parked messages: in the address, on the desk, in groups, exports and decisions."""

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from history.store.parking import ParkedKind
from tests.integration.dashboard.browser import Browser, text_of
from tests.integration.dashboard.conftest import Site
from triggers.dashboard import Role


@pytest.fixture(autouse=True)
def _parked(site: Site) -> None:
    now = datetime.now(UTC)
    for number, (name, hours) in enumerate([("price", 1), ("price", 5), ("bank", 1), ("bank", 30)]):
        site.park(
            f"order-{number}",
            kind=ParkedKind.REJECTED,
            reason=f"FAILED: no {name}; parked (row 7)",
            error_class=f"shop.No{name.title()}Error",
            error_message=f"card 47{number}",
            parked_at=now - timedelta(hours=hours),
        )


def exported(browser: Browser, query: str) -> list[str]:
    lines = browser.page(f"/export?{query}").splitlines()
    return sorted(json.loads(line)["uuid"] for line in lines)


@pytest.mark.parametrize(
    ("query", "uuids"),
    [
        ("text=ORDER-2", ["order-2"]),
        ("text=no+bank", ["order-2", "order-3"]),
        ("text=card+471", ["order-1"]),
        ("error=nopriceerror", ["order-0", "order-1"]),
        ("older=2h", ["order-1", "order-3"]),
        ("older=2h&newer=1d", ["order-1"]),
        ("trigger=book&text=&error=&older=&newer=", ["order-0", "order-1", "order-2", "order-3"]),
        ("trigger=book&error=bank&older=1d", ["order-3"]),
        ("text=nothing", []),
    ],
)
def test_an_address_chooses_messages(site: Site, operator: Browser, query: str, uuids: list[str]) -> None:
    page = operator.page(f"/parked?{query}")

    assert exported(operator, query) == uuids
    if "error=" not in query.replace("error=&", ""):
        assert exported(operator, f"{query}&format=jsonl&by=host") == uuids
    counts = [int(found) for found in re.findall(r'data-head="messages">(\d+)<', page)]
    assert sum(counts) == len(uuids)
    if not uuids:
        assert "No parked message is like that." in text_of(page)


def test_a_group_and_its_decision_keep_to_the_filter(site: Site, operator: Browser) -> None:
    desk = operator.page("/parked?error=bank&older=2h")
    (place,) = set(re.findall(r'href="(/group\?[^"]+)"', desk))
    group = operator.page(unescape(place))
    key = re.search(r'name="key" value="(\w+)"', group)
    assert key is not None

    asked = operator.page(f"/decide?key={key[1]}&decision=discard&all=yes&error=bank&older=2h")
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', asked))
    job = operator.decide(**{**fields, "reason": "it is too old"} | {"csrf": operator.csrf()})

    assert 'name="older" value="2h"' in group
    assert fields["older"] == "2h"
    assert (job.total, job.closed) == (1, 1)
    assert len(site.ids()) == 3


def test_who_sees_no_texts_cannot_search_in_them(site: Site) -> None:
    viewer = site.signed_in(Role.VIEWER)

    assert exported(viewer, "text=card+471") == []
    assert exported(viewer, "text=order-1") == ["order-1"]


def test_an_age_that_is_no_time_is_refused(operator: Browser) -> None:
    answer = operator.get("/parked?older=soon")

    assert answer.status_code == 400
    assert "older: " in answer.text
    assert operator.get("/parked?by=host&error=bank").status_code == 400
