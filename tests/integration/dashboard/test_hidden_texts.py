"""Viewers may not see bodies, so they see no text that may quote one.

Such texts come from errors, resolvers, runs and people.
"""

import pytest

from history.beside.journal import JournalLine
from history.bridge import drive
from history.store import ParkedKind, Report, TriggerState
from tests.fixtures.beside import kept_in
from tests.integration.dashboard.conftest import Site
from triggers.dashboard import Role
from triggers.dashboard.app import SHOWN

#: An error, a resolver or a person quotes this part of a body.
CARD = "4111-1111-1111-1111"

SAID = f"the bank refuses {CARD}"

#: Pages that show nothing without parameters, are not for viewers, or are about Spark.
NEEDING_MORE = {"/decide", "/group", "/job", "/message", "/query", "/security", "/story", "/trigger"}


@pytest.fixture
def pages(site: Site) -> list[str]:
    """The addresses of all pages about a failed message, and about one that somebody has discarded."""
    first, second = [
        site.park(
            uuid,
            kind=ParkedKind.REJECTED,
            reason=f"the service failed for good; {SAID} (row 7)",
            error_class="shop.Declined",
            error_message=SAID,
            error_trace=f"Traceback\n{SAID}",
        )
        for uuid in ("order-1", "order-2")
    ]
    journal = kept_in(site.store).journal
    drive(journal.append("book", [JournalLine(uuid="order-1", verdict="rejected", reason=SAID)]))
    report = Report(consumer="c", trigger="book", state=TriggerState.SUSPENDED, reason=SAID)
    drive(site.store.control.beat("token", [report]))
    operator = site.signed_in(Role.OPERATOR)
    job = operator.decide(decision="discard", trigger="book", id=second.id, reason=SAID)
    plain = {path for path in SHOWN if path not in NEEDING_MORE}
    return [
        *sorted(plain),
        "/parked?by=host",
        "/trigger?name=book",
        "/story?uuid=order-1",
        "/story?uuid=order-2",
        f"/job?key={job.key}",
        f"/message?trigger=book&id={first.id}",
        f"/group?key={site.group(operator)}",
    ]


def test_a_viewer_sees_the_class_and_the_row_and_no_text(site: Site, pages: list[str]) -> None:
    viewer = site.signed_in(Role.VIEWER)

    seen = {path: viewer.page(path) for path in pages}

    assert [path for path, html in seen.items() if CARD in html] == []
    message = next(html for path, html in seen.items() if path.startswith("/message"))
    assert "shop.Declined" in message
    assert "(row 7)" in message


def test_an_operator_sees_the_texts(site: Site, pages: list[str]) -> None:
    operator = site.signed_in(Role.OPERATOR)

    with_texts = {path.partition("?")[0] for path in pages if CARD in operator.page(path)}

    assert with_texts == {
        *("/", "/decisions", "/export", "/failures", "/group", "/job", "/message", "/parked", "/story"),
        *("/trigger", "/triggers"),
    }


def test_all_pages_are_tried(pages: list[str]) -> None:
    assert {path.partition("?")[0] for path in pages} == SHOWN.keys() - {"/decide", "/query", "/security"}
