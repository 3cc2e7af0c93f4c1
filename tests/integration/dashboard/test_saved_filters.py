"""Saved filters: a search with a name, for everybody who may see it, and for programs."""

from history.beside.security import SecurityEvent
from history.bridge import drive
from tests.fixtures.beside import kept_in
from tests.integration.dashboard.browser import Browser, text_of
from tests.integration.dashboard.conftest import Site
from tests.integration.dashboard.test_api import bearer
from triggers.dashboard import Role

SEARCH = "/parked?error=Time&older=2h&trigger=book"


def test_a_search_is_saved_found_and_removed(site: Site, operator: Browser) -> None:
    site.park("order-1")
    assert 'action="/filter"' in operator.page(SEARCH)

    saved = operator.send("/filter", name="<old> ones", error="Time", older="2h", trigger="book")
    page = operator.page("/parked")
    removed = operator.send("/forget-filter", name="<old> ones")

    assert saved.headers["location"].startswith("/parked?")
    assert "error=Time" in saved.headers["location"]
    assert "&lt;old&gt; ones" in page
    assert "error Time, older 2h, trigger book, saved by a operator" in " ".join(text_of(page).split())
    assert removed.headers["location"] == "/parked"
    assert "old&gt; ones" not in operator.page("/parked")
    log = kept_in(site.store).security_log
    records = [one for one in drive(log.read()).records if one.event is SecurityEvent.FILTER]
    assert [(one.user, one.why) for one in records] == [
        ("a operator", "removes the filter <old> ones"),
        ("a operator", "saves the filter <old> ones"),
    ]


def test_without_a_search_there_is_nothing_to_save(site: Site, operator: Browser) -> None:
    site.park("order-1")

    assert 'action="/filter"' not in operator.page("/parked?by=host")
    assert operator.send("/filter", name="all").status_code == 400
    assert operator.send("/filter", name="old", older="soon").status_code == 400
    assert operator.send("/forget-filter", name="old").status_code == 404


def test_viewers_use_filters_except_for_texts_that_may_quote_a_body(site: Site, operator: Browser) -> None:
    site.park("order-1")
    operator.send("/filter", name="old", older="2h")
    operator.send("/filter", name="card", text="4711")
    viewer = site.signed_in(Role.VIEWER)

    refused = viewer.send("/filter", name="mine", older="1h")

    assert refused.status_code == 403
    page = viewer.page("/parked?older=1h")
    assert ">old</a>" in page
    assert "4711" not in page
    assert 'action="/filter"' not in page
    assert 'action="/forget-filter"' not in page


def test_a_program_saves_lists_and_removes(site: Site) -> None:
    browser = site.browser()
    for form in ({"name": "b", "older": "2h"}, {"name": "a", "text": "x", "by": "host"}):
        saved = browser.post("/api/filter", form, headers=bearer()).json()

    listed = browser.get("/api/filters", **bearer()).json()
    left = browser.post("/api/forget-filter", {"name": "a"}, headers=bearer()).json()

    assert saved == listed
    assert [(one["name"], one["filter"]) for one in listed["filters"]] == [
        ("a", {"text": "x", "by": "host"}),
        ("b", {"older": "2h"}),
    ]
    assert [one["name"] for one in left["filters"]] == ["b"]
    assert left["filters"][0]["address"] == "/parked?older=2h"
