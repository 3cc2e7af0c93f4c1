"""A message's story in the dashboard shows what its trigger's journal says of earlier deliveries."""

from history.bridge import drive
from history.store.journal import JournalLine, journal_of
from tests.integration.dashboard.browser import text_of
from tests.integration.dashboard.conftest import Site
from triggers.dashboard import Role


def test_the_lines_of_the_journal_are_shown_and_are_text(site: Site) -> None:
    drive(site.store.claim("book", ["u-1"], "somebody"))
    journal = journal_of(site.store)
    assert journal is not None
    line = JournalLine(uuid="u-1", verdict="duplicate", reason="resolver: <script>alert(1)</script>")
    drive(journal.append("book", [line]))

    page = site.signed_in(Role.VIEWER).page("/story?uuid=u-1")

    assert "resolver: <script>alert(1)</script>" in text_of(page)
    assert "<script>alert(1)" not in page
