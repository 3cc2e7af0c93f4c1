"""Comments on parked messages and their assignment: who, when and what, for people and programs."""

from history.beside.security import SecurityEvent
from history.bridge import drive
from tests.fixtures.beside import kept_in
from tests.integration.dashboard.browser import Browser, text_of
from tests.integration.dashboard.conftest import Site
from tests.integration.dashboard.test_api import bearer
from triggers.dashboard import Role


def test_a_comment_and_an_assignment_are_shown_with_their_author(site: Site, operator: Browser) -> None:
    parked = site.park("order-1")
    place = f"/message?trigger=book&id={parked.id}"

    answer = operator.send(
        "/comment", trigger="book", id=parked.id, text="<b>asked</b> the bank", assign="zoë"
    )
    site.signed_in(Role.ADMIN).send(
        "/comment", trigger="book", id=parked.id, text="it is booked", assign="zoë"
    )

    assert answer.headers["location"] == place
    page = operator.page(place)
    text = " ".join(text_of(page).split())
    assert "&lt;b&gt;asked&lt;/b&gt; the bank" in page
    assert text.index("a operator wrote assigned to zoë, <b>asked</b> the bank") < text.index("a admin wrote")
    assert page.count("assigned to zoë") == 1, "the second did not change it"
    assert "assigned to zoë" in text_of(operator.page(f"/group?key={site.group(operator)}"))
    log = kept_in(site.store).security_log
    records = [one for one in drive(log.read()).records if one.event is SecurityEvent.COMMENT]
    assert [(one.user, one.message) for one in records] == [("a admin", "order-1"), ("a operator", "order-1")]


def test_viewers_read_no_comments(site: Site, operator: Browser) -> None:
    parked = site.park("order-1")
    operator.send("/comment", trigger="book", id=parked.id, text="card 4711", assign="zoë")
    viewer = site.signed_in(Role.VIEWER)

    page = viewer.page(f"/message?trigger=book&id={parked.id}")

    assert "card 4711" not in page
    assert "a operator wrote" in page


def test_an_empty_comment_is_refused(site: Site, operator: Browser) -> None:
    parked = site.park("order-1")

    assert operator.send("/comment", trigger="book", id=parked.id, text=" ", assign="").status_code == 400


def test_a_program_comments_assigns_and_takes_it_back(site: Site) -> None:
    parked, browser = site.park("order-1"), site.browser()
    for told in ({"text": "asked", "assign": "bob"}, {"assign": ""}):
        answer = browser.post("/api/comment", {"trigger": "book", "id": parked.id, **told}, headers=bearer())

    shown = browser.get(answer.headers["location"], **bearer()).json()

    assert shown["assigned_to"] is None
    assert [(one["by"], one["text"], one["assigned_to"]) for one in shown["comments"]] == [
        ("a operator", "asked", "bob"),
        ("a operator", None, ""),
    ]
