"""A message's story in the dashboard shows what its trigger's journal says of earlier deliveries."""

import re
from typing import Any

import pytest

from history.bridge import drive
from history.errors import UnavailableError
from history.store.journal import JournalLine, journal_of
from tests.integration.dashboard.browser import text_of
from tests.integration.dashboard.conftest import Site
from triggers.cli.why import Judging, stories
from triggers.dashboard import Role
from triggers.dashboard.survey import Surveyor
from triggers.detection.table import Policy


def test_the_lines_of_the_journal_are_shown_and_are_text(site: Site) -> None:
    drive(site.store.claim("book", ["u-1"], "somebody"))
    journal = journal_of(site.store)
    assert journal is not None
    line = JournalLine(uuid="u-1", verdict="duplicate", reason="resolver: <script>alert(1)</script>")
    drive(journal.append("book", [line]))

    page = site.signed_in(Role.VIEWER).page("/story?uuid=u-1")

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

    page = site.signed_in(Role.VIEWER).page("/story?uuid=u-1")

    assert "kept for somebody" in text_of(page)
    assert parked.id in page


def test_the_story_shows_what_the_command_finds(site: Site) -> None:
    site.park("u-1", reason="kept for somebody")
    journal = journal_of(site.store)
    assert journal is not None
    drive(journal.append("book", [JournalLine(uuid="u-1", verdict="duplicate", reason="it ran before")]))

    page = re.sub(r"\s+", " ", text_of(site.signed_in(Role.VIEWER).page("/story?uuid=u-1")))
    (row,) = stories(site.store, "u-1", lambda _: Judging(Policy(), asks=False))

    for said in (row["next"], row["parked"][0]["reason"], row["journal"][0]["reason"], row["entry"]["state"]):
        assert said in page
