"""The dashboard shows a message's story: earlier deliveries from the journal of its trigger."""

import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from history.beside.journal import JournalLine
from history.bridge import drive
from history.store import Report
from tests.fixtures.beside import kept_in
from tests.integration.dashboard.browser import text_of
from tests.integration.dashboard.conftest import TOKENS, Site
from triggers import Message, UnavailableError, trigger
from triggers.configuration import Configuration
from triggers.configuration.layers import Layer
from triggers.dashboard import Access, Role, create_app
from triggers.dashboard.survey import Surveyor
from triggers.detection.table import Policy
from triggers.operations.stories import Judging, stories


def test_the_lines_of_the_journal_are_shown_and_are_text(site: Site) -> None:
    drive(site.store.claim("book", ["u-1"], "somebody"))
    journal = kept_in(site.store).journal
    line = JournalLine(uuid="u-1", verdict="duplicate", reason="resolver: <script>alert(1)</script>")
    drive(journal.append("book", [line]))

    page = site.signed_in(Role.OPERATOR).page("/story?uuid=u-1")

    assert "resolver: <script>alert(1)</script>" in text_of(page)
    assert "<script>alert(1)" not in page


def nothing_is_counted(*_: Any) -> None:
    raise UnavailableError("the history", "counting what is parked")


@pytest.mark.parametrize("trigger", ["book", "a-trigger-that-only-parks"])
def test_what_is_parked_is_found_before_anything_was_counted(
    site: Site, monkeypatch: pytest.MonkeyPatch, trigger: str
) -> None:
    parked = site.park("u-1", trigger_name=trigger, reason="kept for somebody")
    monkeypatch.setattr(Surveyor, "latest", nothing_is_counted)

    page = site.signed_in(Role.OPERATOR).page("/story?uuid=u-1")

    assert "kept for somebody" in text_of(page)
    assert parked.id in page


def test_the_story_shows_what_the_command_finds(site: Site) -> None:
    site.park("u-1", reason="kept for somebody")
    journal = kept_in(site.store).journal
    drive(journal.append("book", [JournalLine(uuid="u-1", verdict="duplicate", reason="it ran before")]))

    page = re.sub(r"\s+", " ", text_of(site.signed_in(Role.OPERATOR).page("/story?uuid=u-1")))
    (row,) = stories(site.store, "u-1", lambda _: Judging(Policy(), asks=False))

    for said in (row["next"], row["parked"][0]["reason"], row["journal"][0]["reason"], row["entry"]["state"]):
        assert said in page


def test_a_journal_elsewhere_is_read_where_it_is_configured(site: Site, tmp_path: Path) -> None:
    drive(site.store.claim("book", ["u-1"], "somebody"))
    drive(site.store.control.beat("token-1", [Report(consumer="c-1", trigger="book")]))
    elsewhere = f"sqlite:///{tmp_path}/journal.db"
    with closing(trigger("orders", name="book", history=site.url, journal=elsewhere)(_book)) as book:
        for _ in range(2):
            book.handle(Message(body="{}", uuid="u-2"))
    layer = Layer(None, {"journal": elsewhere}, {"lost": {"journal": f"sqlite:///{tmp_path}/none.db"}})
    drive(site.store.claim("lost", ["u-2"], "somebody"))
    site.app.state.operations.close()
    site.app = create_app(
        site.url,
        access=Access(tokens=list(TOKENS.values())),
        store=site.store,
        configuration=Configuration([layer]),
        background=False,
    )
    browser = site.signed_in(Role.OPERATOR)

    story, failures = (text_of(browser.page(page)) for page in ("/story?uuid=u-2", "/failures?trigger=book"))

    assert "DUPLICATE: it already ran" in story
    assert f"the journal of lost at sqlite:///{tmp_path}/none.db cannot be read" in story
    assert "DUPLICATE: it already ran" in failures


def _book(body: bytes) -> None: ...
