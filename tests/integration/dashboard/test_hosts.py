"""One preview and one decision for all messages that the workers of a dead host had begun."""

import re
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest

from history import Evidence, Parked, ParkedKind, State
from history.bridge import drive
from tests.integration.dashboard.browser import Browser, keys_of, text_of
from tests.integration.dashboard.conftest import Site
from triggers import trigger
from triggers.dashboard import Role
from triggers.operations.decisions import decision_rows

Fields = dict[str, str | list[str]]


@pytest.fixture
def shop(site: Site) -> Site:
    """The dashboard with three triggers. One of them names a parking lot that cannot be opened."""

    @trigger("orders", name="book")
    def book(order: dict[str, Any]) -> None:
        if order["id"] == "fails":
            raise ValueError("no such customer")
        site.done.append(f"book {order['id']}")

    @trigger("orders", name="ship")
    def ship(order: dict[str, Any]) -> None:
        site.done.append(f"ship {order['id']}")

    @trigger("orders", name="broken", journal="env:NOWHERE")
    def broken(_: dict[str, Any]) -> None:
        site.done.append("broken")

    site.serve([book, ship, broken])
    return site


def park(site: Site, name: str, uuid: str, *, host: str = "worker-3", **more: Any) -> Parked:
    """Park a message that a worker on a host had begun."""
    owner = f"{host}:7:{uuid}"
    fence = drive(site.store.claim(name, [uuid], owner))[0].fence
    evidence = Evidence(owner=owner, fence=fence)
    known: dict[str, Any] = {"trigger_name": name, "id": f"{name}-{uuid}", "evidence": evidence}
    return site.park(uuid, **(known | more))


def fields_of(html: str) -> Fields:
    """Return the hidden fields of the first decision form of a page."""
    form = html.split('action="/decide"', 1)[1].split("</form>", 1)[0]
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', form):
        found.setdefault(name, []).append(unescape(value))
    return dict(found)


def preview_of(browser: Browser, word: str) -> str:
    """Follow the page of worker-3 to the preview of a decision about all its messages, and return it."""
    asked = fields_of(browser.page("/parked?host=worker-3")) | {"all": "yes", "decision": word}
    return browser.page(f"/decide?{urlencode(asked, doseq=True)}")


def decided(site: Site, name: str) -> list[tuple[str, str | None, list[str]]]:
    """Return the decisions about a trigger's messages: what, why, and which uuids."""
    rows = decision_rows(site.store.parking, name)
    return [(row["decision"], row["reason"], sorted(one["uuid"] for one in row["messages"])) for row in rows]


@pytest.mark.parametrize("word", ["done", "discard", "run"])
def test_one_decision_is_about_all_that_a_host_held_of_each_trigger_and_kind(
    shop: Site, operator: Browser, word: str
) -> None:
    for uuid in ("order-1", "order-2"):
        park(shop, "book", uuid)
    park(shop, "book", "order-3", kind=ParkedKind.REJECTED)
    park(shop, "ship", "order-1", minutes=5)
    other = park(shop, "ship", "order-9", host="worker-4")

    preview = preview_of(operator, word)
    text = " ".join(text_of(preview).split())
    job = operator.decide(**fields_of(preview), reason="worker-3 burnt")

    assert "4 messages?" in text
    assert "2 book in doubt" in text
    assert "1 book rejected" in text
    assert "1 ship in doubt" in text
    assert "they stay parked" not in text
    assert (job.total, job.closed, job.left, job.error) == (4, 4, 0, None)
    assert shop.ids() == [other.id]
    assert decided(shop, "book") == [(word, "worker-3 burnt", ["order-1", "order-2", "order-3"])]
    assert decided(shop, "ship") == [(word, "worker-3 burnt", ["order-1"])]
    ran = ["book order-1", "book order-2", "book order-3", "ship order-1"] if word == "run" else []
    assert sorted(shop.done) == ran
    (entry,) = drive(shop.store.lookup("ship", ["order-1"]))
    assert entry is not None
    assert (entry.state is State.COMPLETED) is (word != "discard")


def test_what_is_parked_after_the_preview_is_left_alone_whatever_its_trigger(
    shop: Site, operator: Browser
) -> None:
    park(shop, "book", "order-1", minutes=9)
    park(shop, "ship", "order-1")
    preview = preview_of(operator, "discard")
    late = [
        # The first has a trigger of the preview and is older than the newest previewed message.
        # The second has a trigger that is not in the preview.
        park(shop, "ship", "order-2", minutes=5),
        park(shop, "broken", "order-3"),
    ]

    assert operator.decide(**fields_of(preview), reason="old ones").total == 2
    assert sorted(shop.ids()) == sorted(one.id for one in late)


def test_more_than_was_shown_is_not_decided_whatever_the_clocks_said(shop: Site, operator: Browser) -> None:
    park(shop, "book", "order-1", minutes=9)
    park(shop, "ship", "order-1")
    preview = preview_of(operator, "discard")
    park(shop, "book", "order-2", minutes=5)

    answer = operator.send("/decide", **fields_of(preview), reason="old ones")

    assert answer.status_code == 400
    assert "2 of book are parked, and you were shown 1" in text_of(answer.text)
    assert len(shop.ids()) == 3


def test_what_cannot_be_run_here_stays_parked_and_the_preview_says_so(shop: Site, operator: Browser) -> None:
    park(shop, "book", "order-1")
    left = [
        park(shop, "invoice", "order-2"),
        park(shop, "ship", "raw", kind=ParkedKind.UNREADABLE, message=None),
    ]

    preview = preview_of(operator, "run")
    text = " ".join(text_of(preview).split())
    keys = fields_of(operator.page("/parked?host=worker-3"))["key"]
    refused = operator.send("/decide", decision="run", key=keys, all="yes", reason="all of it")
    job = operator.decide(**fields_of(preview), reason="none happened")

    assert "Run 1 message?" in text
    assert "they stay parked: the dashboard was started without the module of invoice" in text
    assert "they stay parked: it was not a message" in text
    assert refused.status_code == 400
    assert (job.triggers, job.closed, shop.done) == (["book"], 1, ["book order-1"])
    assert sorted(shop.ids()) == sorted(one.id for one in left)


def test_what_fails_for_one_trigger_is_shown_and_the_others_are_carried_out(
    shop: Site, operator: Browser
) -> None:
    park(shop, "book", "order-1", body={"id": "fails"})
    park(shop, "broken", "order-1")
    park(shop, "ship", "order-1")

    job = operator.decide(**fields_of(preview_of(operator, "run")), reason="none happened")
    page = " ".join(text_of(operator.page(f"/job?key={job.key}")).split())

    assert shop.done == ["ship order-1"]
    assert (job.total, job.closed, job.left) == (3, 1, 1)
    assert "Run: 1 of 3 closed" in page
    assert "book: order-1" in page
    assert "no such customer" in page
    assert "broken 0 of 1 closed" in page
    assert "NOWHERE" in page
    assert len(shop.ids()) == 2


def test_a_viewer_has_no_button_for_all_that_a_host_held(shop: Site) -> None:
    park(shop, "book", "order-1")

    listed = shop.signed_in(Role.VIEWER).page("/parked?by=host")

    assert "worker-3" in listed
    assert 'action="/decide"' not in listed


@pytest.mark.parametrize("by", ["host", "cause"])
def test_groups_that_are_not_of_one_host_are_not_decided_together(
    shop: Site, operator: Browser, by: str
) -> None:
    park(shop, "book", "order-1")
    park(shop, "ship", "order-1", host="worker-4")
    keys = keys_of(operator.page(f"/parked?by={by}"))

    answer = operator.send("/decide", decision="discard", key=keys, all="yes", reason="all")

    assert (len(keys), answer.status_code) == (2, 400)
    assert "not of one host" in answer.text
    assert len(shop.ids()) == 2
