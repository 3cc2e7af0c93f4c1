"""A parked message that is encrypted, in the dashboard: with the key, and without."""

from pathlib import Path

import pytest

from history.bridge import drive
from history.opening import open_history
from tests.fixtures.keys import CARD, a_key, write_keys
from tests.integration.dashboard.browser import text_of
from tests.integration.dashboard.conftest import Site
from triggers.dashboard import Role


@pytest.fixture
def reference(tmp_path: Path) -> str:
    return write_keys(tmp_path / "key", a_key())


def test_a_body_is_shown_with_the_key(site: Site, reference: str) -> None:
    drive(site.store.close())
    site.store = open_history(f"{site.url}?encrypt={reference}")
    parked = site.park("order-1", {"card": CARD}, error_class="ValueError", error_message="no such card")
    site.serve([])

    html = site.signed_in(Role.OPERATOR).page(f"/message?trigger=book&id={parked.id}")

    assert CARD in text_of(html)
    assert "no such card" in text_of(html)


def test_a_message_says_what_is_missing_without_the_key_and_can_be_discarded(
    site: Site, reference: str
) -> None:
    plain, site.store = site.store, open_history(f"{site.url}?encrypt={reference}")
    parked = site.park("order-1", {"card": CARD}, error_class="ValueError", error_message=f"no {CARD}")
    drive(site.store.close())
    site.store = plain
    other = site.park("order-2", minutes=1)
    operator = site.signed_in(Role.OPERATOR)

    shown = text_of(operator.page(f"/message?trigger=book&id={parked.id}"))
    desk = text_of(operator.page("/parked"))
    ran = operator.decide(decision="run", trigger="book", id=parked.id, reason="look")
    left = site.ids()
    operator.decide(decision="discard", trigger="book", id=parked.id, reason="lost its key")

    assert "Headers, body and error cannot be shown: it is encrypted with the key" in shown
    assert "?encrypt=file:" in shown
    assert CARD not in shown + desk + str(ran)
    assert "order-1" in desk
    assert left == [parked.id, other.id]
    assert site.ids() == [other.id]
