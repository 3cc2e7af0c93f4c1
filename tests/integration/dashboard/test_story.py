"""A message's story in the dashboard shows what its trigger's journal says of earlier deliveries."""

from contextlib import closing
from pathlib import Path

from history.bridge import drive
from history.message import Message
from history.store.control import Report
from history.store.journal import JournalLine, journal_of
from tests.integration.dashboard.browser import text_of
from tests.integration.dashboard.conftest import TOKENS, Site
from triggers import trigger
from triggers.configuration import Configuration
from triggers.configuration.layers import Layer
from triggers.dashboard import Access, Role, create_app


def test_the_lines_of_the_journal_are_shown_and_are_text(site: Site) -> None:
    drive(site.store.claim("book", ["u-1"], "somebody"))
    journal = journal_of(site.store)
    assert journal is not None
    line = JournalLine(uuid="u-1", verdict="duplicate", reason="resolver: <script>alert(1)</script>")
    drive(journal.append("book", [line]))

    page = site.signed_in(Role.VIEWER).page("/story?uuid=u-1")

    assert "resolver: <script>alert(1)</script>" in text_of(page)
    assert "<script>alert(1)" not in page


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
    browser = site.signed_in(Role.VIEWER)

    story, failures = (text_of(browser.page(page)) for page in ("/story?uuid=u-2", "/failures?trigger=book"))

    assert "it has run already" in story
    assert f"the journal of lost at sqlite:///{tmp_path}/none.db cannot be read" in story
    assert "it has run already" in failures


def _book(body: bytes) -> None: ...
