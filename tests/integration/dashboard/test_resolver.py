"""The resolver's answer now, for an operator, with a button: it changes nothing."""

from threading import Event
from typing import Any

import pytest

from resolvers import Resolution, Resolved
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.dashboard.browser import text_of
from tests.integration.dashboard.conftest import Site
from triggers import Message, trigger
from triggers.dashboard import Role, questions


def serve(site: Site, answer: Any) -> None:
    """Serve ``book`` with a resolver that answers this, or raises it."""

    def resolver(uuid: str, trigger_name: str, message: Message) -> Any:
        del uuid, trigger_name, message
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer

    @trigger("orders", name="book", resolver=resolver)
    def book(order: dict[str, Any]) -> None:
        site.done.append(order["id"])

    site.serve([book])


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (Resolution.NEW, "NEW without a reason"),
        (Resolved(Resolution.DUPLICATE, "<script>alert(1)</script>"), "DUPLICATE <script>alert(1)</script>"),
        ("IN_DOUBT", "IN_DOUBT"),
        (None, "it failed"),
        (OSError("the ledger is away"), "OSError: the ledger is away"),
    ],
)
def test_an_operator_asks_the_resolver_and_nothing_changes(site: Site, answer: Any, shown: str) -> None:
    serve(site, answer)
    parked, operator = site.park("order-1"), site.signed_in(Role.OPERATOR)

    page = operator.send("/resolve", trigger="book", id=parked.id)

    assert page.status_code == 200
    assert shown in " ".join(text_of(page.text).split())
    assert "<script>alert" not in page.text
    assert (site.ids(), site.done) == ([parked.id], [])


def test_without_a_resolver_or_its_code_the_page_says_what_to_do(site: Site) -> None:
    operator = site.signed_in(Role.OPERATOR)
    without, unknown = site.park("order-1"), site.park("order-2", trigger_name="other")

    pages = [
        text_of(operator.page(f"/message?trigger={one.trigger_name}&id={one.id}"))
        for one in (without, unknown)
    ]
    answers = [operator.send("/resolve", trigger=one.trigger_name, id=one.id) for one in (without, unknown)]

    assert "book has no resolver" in pages[0]
    assert "doubtless dashboard MODULE" in pages[1]
    assert [answer.status_code for answer in answers] == [400, 400]


def test_a_resolver_that_hangs_is_given_up_and_not_asked_without_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, goes_on = list[str](), Event()

    def hangs() -> Resolution:
        asked.append("again")
        assert goes_on.wait(PATIENCE)
        return Resolution.NEW

    monkeypatch.setattr(questions, "PATIENCE", 0.0)
    serve(site, hangs)
    parked, operator = site.park("order-1"), site.signed_in(Role.OPERATOR)

    def answer() -> str:
        return " ".join(text_of(operator.send("/resolve", trigger="book", id=parked.id).text).split())

    given_up = [answer() for _ in range(questions.MOST)]
    refused = answer()
    goes_on.set()
    monkeypatch.setattr(questions, "PATIENCE", PATIENCE)

    assert all("it has not answered within 0 s: try again later" in page for page in given_up)
    assert "it has not answered 3 earlier questions, so it was not asked" in refused
    assert eventually(lambda: "NEW without a reason" in answer())
    assert site.ids() == [parked.id]
