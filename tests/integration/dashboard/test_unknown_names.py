"""If an address contains an unknown name, the page lists the known names."""

import pytest

from history.bridge import drive
from tests.integration.dashboard.browser import Browser, text_of
from tests.integration.dashboard.conftest import Site
from triggers.dashboard import Role

#: Each page that takes the name of a trigger.
PAGES = [
    *("/parked?trigger={}", "/parked?by=host&trigger={}", "/failures?trigger={}"),
    *("/decisions?trigger={}", "/trigger?name={}"),
    *("/query?trigger={}&query=q", "/message?trigger={}&id=x"),
]


@pytest.mark.parametrize("page", PAGES)
def test_an_unknown_trigger_is_refused_with_the_known_ones(site: Site, operator: Browser, page: str) -> None:
    site.park("u1")

    answer = operator.get(page.format("boook"))

    assert answer.status_code == 404
    assert "there is no trigger 'boook'; did you mean book? known: book" in answer.text.replace("&#39;", "'")


@pytest.mark.parametrize("page", PAGES)
def test_a_known_trigger_and_a_history_without_any_are_not_refused(
    site: Site, operator: Browser, page: str
) -> None:
    before = operator.get(page.format("boook"))
    drive(site.store.claim("ship", ["u1"], "owner"))

    known = operator.get(page.format("book"))

    for answer in (before, known):
        assert "There is no such name" not in answer.text
        assert answer.status_code == (404 if "/message" in page else 200)


def test_a_name_that_only_has_parked_messages_is_known(site: Site) -> None:
    site.serve([])
    site.park("u1", trigger_name="of-a-guard")

    assert site.signed_in(Role.OPERATOR).get("/failures?trigger=of-a-guard").status_code == 200


def test_other_names_of_an_address_and_of_a_form(site: Site, operator: Browser) -> None:
    site.park("u1")

    by = operator.get("/parked?by=hots")
    host = text_of(operator.page("/parked?host=host-2"))
    order = operator.send("/order", name="book", order="supend", reason="moving")
    trigger = operator.send("/order", name="boook", order="suspend", reason="moving")

    assert (by.status_code, order.status_code, trigger.status_code) == (404, 404, 404)
    assert "did you mean host? known: cause, host" in by.text
    assert "Hosts with parked messages: host-1" in host
    assert "did you mean suspend?" in order.text
    assert "did you mean book?" in trigger.text
