"""The dashboard's own metrics: who may read them, and what they say."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from history.bridge import drive
from history.store import Counts, Report, TriggerState
from tests import ROOT
from tests.fixtures.waiting import eventually
from tests.integration.dashboard.browser import Browser
from tests.integration.dashboard.conftest import NOON, TOKENS, Clock, Site
from triggers import Message, open_provider, trigger
from triggers.dashboard import Access, ProxyHeader, Role, survey
from triggers.dashboard.survey import Surveyor

#: So many scrapes would certainly start a survey of the history.
MANY = 20


def scraped(browser: Browser) -> dict[tuple[str, str], float]:
    """Return the values by name and by the values of their labels."""
    answer = browser.get("/metrics", Authorization=f"Bearer {TOKENS[Role.VIEWER].secret}")
    assert answer.status_code == 200
    return {
        (sample.name, " ".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_what_all_consumers_counted_and_what_is_parked_is_said(site: Site) -> None:
    for number in (1, 2):
        report = Report(consumer=f"c-{number}", trigger="book", counts=Counts(new=10 * number, duplicate=1))
        drive(site.store.control.beat(f"token-{number}", [report]))
    site.park("order-1")

    found = scraped(site.browser())

    assert found["doubtless_history_messages_total", "book new"] == 30
    assert found["doubtless_history_messages_total", "book duplicate"] == 2
    assert (found["doubtless_consumers", "book"], found["doubtless_parked_messages", "book"]) == (2, 1)


def test_in_which_state_consumers_are_is_said(site: Site) -> None:
    states: list[dict[str, object]] = [
        {},
        {"away": "no route"},
        {"state": TriggerState.SUSPENDED, "away": "no route"},
    ]
    for number, facts in enumerate(states):
        report = Report.model_validate({"consumer": f"c-{number}", "trigger": "book", **facts})
        drive(site.store.control.beat(f"token-{number}", [report]))

    found = scraped(site.browser())

    name = "doubtless_trigger_consumers"
    counted = {labels: value for (metric, labels), value in found.items() if metric == name}
    assert counted == {"running book": 1, "provider_away book": 1, "suspended book": 1, "disabled book": 0}


def test_the_oldest_parked_message_and_the_size_of_the_history_are_said(site: Site) -> None:
    drive(site.store.claim("idle", ["order-0"], "worker"))
    before = (datetime.now(UTC) - NOON).total_seconds()
    site.park("order-1")
    site.park("order-2", minutes=5)

    found = scraped(site.browser())

    after = (datetime.now(UTC) - NOON).total_seconds()
    assert before - 1 <= found["doubtless_parked_oldest_seconds", "book"] <= after + 1
    assert found["doubtless_parked_oldest_seconds", "idle"] == 0
    assert found["doubtless_history_entries", "book"] == 2
    assert found["doubtless_history_bytes", "book"] == 2 * 155


def test_the_docs_name_what_there_is(site: Site, tmp_path: Path) -> None:
    drive(site.store.control.beat("token", [Report(consumer="c", trigger="book", counts=Counts(new=1))]))
    serve_over(site, f"sqlite:///{tmp_path}/messages.db")
    site.park("order-1")

    exported = {name for name, _ in scraped(site.browser())}

    page = (ROOT / "docs" / "how-to" / "use-the-dashboard.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(doubtless_[a-z_]+)`", page)) == exported


def serve_over(site: Site, url: str) -> None:
    """Serve the dashboard with a provider that holds two waiting orders for ``book``."""

    @trigger("queue://orders", name="book")
    def book(order: dict[str, str]) -> None:
        raise AssertionError(order)

    provider = open_provider(url)
    drive(provider.send("queue://orders", [Message(body={}), Message(body={})]))
    drive(provider.close())
    site.serve([book], providers=[url])


def test_what_waits_at_a_provider_is_said(site: Site, tmp_path: Path) -> None:
    serve_over(site, f"sqlite:///{tmp_path}/messages.db")

    found = scraped(site.browser())

    places = {
        labels: value for (name, labels), value in found.items() if name == "doubtless_backlog_messages"
    }
    assert [value for labels, value in sorted(places.items()) if "queue://orders" in labels] == [0, 0, 2]


def test_scrapes_have_the_history_counted_now_and_then_and_people_who_look_at_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "PAUSE", 0.0)
    monkeypatch.setattr(survey, "TIMES", 0.0)
    clock, seen = Clock(), list[float | None]()
    surveyor = Surveyor(lambda: site.store, clock=clock)

    def noted(made_at: float | None) -> list[float | None]:
        seen.append(made_at)
        return seen

    assert eventually(lambda: surveyor.scraped().made_at is not None)
    site.park("order-1")
    clock.now = survey.SCRAPED - 1
    assert eventually(lambda: len(noted(surveyor.scraped().made_at)) > MANY)
    clock.now = survey.SCRAPED
    assert eventually(lambda: surveyor.scraped().count == 1)
    site.park("order-2")
    clock.now += 1
    looked = eventually(lambda: latest if (latest := surveyor.latest()).count == 2 else None)

    surveyor.close()
    assert (set(seen), looked.made_at) == ({0.0}, clock.now)


# Each process draws a new secret, so it must not be part of the test's name.
@pytest.mark.parametrize(
    "header",
    [None, "Bearer wrong", "Bearer", f"Basic {TOKENS[Role.VIEWER].secret}"],
    ids=["nothing", "another", "empty", "basic"],
)
def test_who_has_no_token_reads_nothing(site: Site, header: str | None) -> None:
    given = {} if header is None else {"Authorization": header}

    answer = site.browser().get("/metrics", **given)

    assert answer.status_code == 401
    assert "doubtless_" not in answer.text


def test_a_session_and_a_proxy_may_read(site: Site) -> None:
    signed_in = site.signed_in(Role.VIEWER).get("/metrics").status_code
    site.serve([], Access(proxy=ProxyHeader(user_header="X-User")))
    vouched = site.browser().get("/metrics", **{"X-User": "ann"}).status_code
    elsewhere = site.browser(address="10.0.0.9").get("/metrics", **{"X-User": "ann"}).status_code

    assert (signed_in, vouched, elsewhere) == (200, 200, 401)
