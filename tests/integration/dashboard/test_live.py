"""Pages update themselves: watching browsers get new rates and changes until their session ends."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import cast

import pytest
from starlette.requests import Request

from history import HistoryUnavailableError, open_history
from history.bridge import drive
from history.store import Counts, Report, TriggerState
from tests.fixtures.waiting import eventually
from tests.integration.dashboard.browser import Browser, text_of
from tests.integration.dashboard.conftest import TOKENS, Clock, Site
from triggers.dashboard import Access, ProxyHeader, Role, create_app
from triggers.dashboard.access.gate import AGAIN, COOKIE, AccessGate
from triggers.dashboard.access.sessions import Sessions
from triggers.dashboard.operations import Operations
from triggers.dashboard.pages import live
from triggers.dashboard.pages.live import Live
from triggers.dashboard.pages.overview import facts
from triggers.dashboard.pulse import Pulse
from triggers.dashboard.rendering import render
from triggers.dashboard.survey import Surveyor
from triggers.dashboard.visit import Visit


def beat(site: Site, new: int, **more: object) -> None:
    report = Report.model_validate(
        {"consumer": "c-1", "trigger": "book", "counts": Counts(new=new, duplicate=new // 2), **more}
    )
    drive(site.store.control.beat("token-1", [report]))


def test_rates_are_what_was_counted_between_two_readings(site: Site) -> None:
    clock = Clock()
    pulse = Pulse(site.store, clock)

    beat(site, 100)
    pulse.read()
    unknown = pulse.rates("book")
    clock.now = 4.0
    beat(site, 140)
    pulse.read()

    rates = pulse.rates("book")
    assert unknown is None
    assert rates is not None
    assert (rates["new"], rates["duplicate"], rates["in_doubt"]) == (10.0, 5.0, 0.0)
    assert pulse.curve("book") == [15.0]


def test_the_history_is_read_once_however_many_look(site: Site) -> None:
    pulse = Pulse(site.store, Clock())

    first = pulse.read()
    beat(site, 1)

    assert pulse.read() is first


def test_counts_that_were_cleared_are_no_negative_rate(site: Site) -> None:
    clock = Clock()
    pulse = Pulse(site.store, clock)
    beat(site, 100)
    pulse.read()

    drive(site.store.control.clear())
    clock.now = 2.0
    pulse.read()

    assert pulse.rates("book") == dict.fromkeys(pulse.rates("book") or {}, 0)


@pytest.mark.parametrize("path", ["/", "/triggers", "/trigger?name=book"])
def test_a_provider_that_is_away_is_shown_and_is_no_running_trigger(site: Site, path: str) -> None:
    browser, number = site.signed_in(Role.VIEWER), count()

    def shown() -> bool:
        beat(site, next(number), away="no route to the broker", away_for=65.0)
        text = text_of(browser.page(path))
        return "provider away" in text and "no route to the broker" in text and "1 min 5 s" in text

    assert eventually(shown)
    assert '<span class="state running">' not in browser.page(path)


@pytest.mark.parametrize("path", ["/", "/triggers", "/trigger?name=book"])
def test_a_trigger_of_a_guard_has_no_consumer_and_one_whose_consumer_left_does_not_run(
    site: Site, path: str
) -> None:
    admin = site.signed_in(Role.ADMIN)
    drive(site.store.claim("book", ["order-1"], "guard"))

    guarded = admin.page(path)
    beat(site, 0, leaving=True)

    assert "no consumer" in text_of(guarded).lower()
    assert "not running" not in text_of(guarded)
    assert eventually(lambda: "not running" in text_of(admin.page(path)))


def test_orders_that_would_reach_nobody_are_not_offered(site: Site) -> None:
    admin = site.signed_in(Role.ADMIN)
    drive(site.store.claim("book", ["order-1"], "guard"))

    guarded = admin.page("/trigger?name=book")
    beat(site, 1)

    assert 'action="/order"' not in guarded
    assert eventually(lambda: 'action="/order"' in admin.page("/trigger?name=book"))


@pytest.mark.parametrize("path", ["/", "/triggers", "/trigger?name=book"])
def test_a_suspended_trigger_is_shown_with_its_reason(site: Site, path: str) -> None:
    browser, number = site.signed_in(Role.OPERATOR), count()

    def shown() -> bool:
        # Report again and again, like a consumer. A silent consumer soon counts as gone.
        beat(site, next(number), state=TriggerState.SUSPENDED, reason="the bank is away")
        text = text_of(browser.page(path))
        return "suspended" in text and "the bank is away" in text

    assert eventually(shown)


def test_a_history_that_is_away_is_said_and_not_taken_for_one_where_nothing_is_parked() -> None:
    store = open_history("redis://127.0.0.1:1/0?circuit=off")
    surveyor = Surveyor(lambda: store)

    def said() -> bool:
        try:
            surveyor.latest()
        except HistoryUnavailableError:
            return True
        return False

    assert eventually(said)

    surveyor.close()
    drive(store.close())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "INTERVAL", 0.0)


def watching(site: Site, sessions: Sessions) -> tuple[AccessGate, AsyncIterator[str], list[bool]]:
    operations: Operations = site.app.state.operations
    gate = AccessGate(site.app.state.gate.access, sessions)
    session = gate.sign_in(TOKENS[Role.VIEWER].secret)
    assert session is not None
    ended = [False]
    visit: Visit = Visit(request=None, operations=operations, session=session, gate=gate, form={})  # type: ignore[arg-type]
    return gate, Live(gate, operations, lambda: ended[0]).events(visit), ended


@pytest.mark.usefixtures("quick")
async def test_who_watches_gets_the_new_page_when_something_has_changed(site: Site) -> None:
    _, events, _ = watching(site, Sessions(timedelta(hours=1), timedelta(hours=1)))

    first = await anext(events)
    site.park("order-1")
    second = await anext(events)
    while second.startswith(":"):
        second = await anext(events)

    assert "0</a>" in json.loads(first.removeprefix("data: "))
    assert "1</a>" in json.loads(second.removeprefix("data: "))


@pytest.mark.usefixtures("quick")
async def test_watching_neither_keeps_a_session_nor_outlives_it(site: Site) -> None:
    clock = Clock()
    _, events, _ = watching(site, Sessions(timedelta(seconds=10), timedelta(hours=1), clock))

    await anext(events)
    clock.now = 9.0
    await anext(events)
    clock.now = 11.0

    assert [event async for event in events] == ["event: end\ndata: \n\n"]


@pytest.mark.usefixtures("quick")
async def test_watching_ends_when_the_token_counts_no_more(site: Site) -> None:
    gate, events, _ = watching(site, Sessions(timedelta(hours=1), timedelta(hours=1)))

    await anext(events)
    gate.access = replace(gate.access, tokens=[TOKENS[Role.ADMIN]])

    assert [event async for event in events] == ["event: end\ndata: \n\n"]


@pytest.mark.usefixtures("quick")
async def test_watching_ends_when_the_server_stops(site: Site) -> None:
    _, events, ended = watching(site, Sessions(timedelta(hours=1), timedelta(hours=1)))

    await anext(events)
    ended[0] = True

    assert [event async for event in events] == []


def asking(*cookies: str, user: str = "", path: str = "/live/overview") -> Request:
    """Return the request of a page that wants to watch, or a request for another path."""
    headers = [(b"cookie", f"{COOKIE}={key}".encode()) for key in cookies]
    named = [(b"x-user", user.encode())] if user else []
    return Request({"type": "http", "path": path, "headers": [*headers, *named], "client": ("127.0.0.1", 1)})


async def test_a_page_that_connects_again_keeps_no_session(site: Site) -> None:
    clock = Clock()
    gate, _, _ = watching(site, Sessions(timedelta(seconds=10), timedelta(hours=1), clock))
    session = gate.sign_in(TOKENS[Role.VIEWER].secret)
    assert session is not None
    watched = Live(gate, site.app.state.operations, lambda: True)

    codes: list[int] = []
    for clock.now in (9.0, 11.0):
        codes.append((await watched.serve(asking(session.key))).status_code)

    assert codes == [200, 401]


async def test_a_page_that_connects_again_begins_no_session_behind_a_proxy(site: Site) -> None:
    gate = AccessGate(
        Access(proxy=ProxyHeader(user_header="x-user")), Sessions(timedelta(hours=1), timedelta(hours=1))
    )
    watched = Live(gate, site.app.state.operations, lambda: True)
    session = gate.session(asking(user="ann", path="/"))
    assert session is not None

    codes = [(await watched.serve(asking(*keys, user="ann"))).status_code for keys in ([session.key], [])]

    assert codes == [200, 401]


def test_a_page_that_looks_again_by_itself_keeps_no_session(site: Site) -> None:
    clock = Clock()
    site.app.state.gate.sessions = Sessions(timedelta(seconds=10), timedelta(hours=1), clock)
    waits, acts = site.signed_in(Role.VIEWER), site.signed_in(Role.VIEWER)

    codes: list[tuple[int, int]] = []
    for clock.now in (9.0, 11.0):
        answers = waits.get("/parked", **{AGAIN: "yes"}), acts.get("/parked")
        codes.append((answers[0].status_code, answers[1].status_code))

    assert codes == [(200, 200), (401, 200)]


def test_the_overview_says_what_the_history_takes_and_will_take(site: Site) -> None:
    clock = Clock()
    operations = replace(cast("Operations", site.app.state.operations), pulse=Pulse(site.store, clock))
    drive(site.store.claim("book", [f"order-{number}" for number in range(100)], "worker"))
    beat(site, 100)
    facts(operations)
    clock.now = 10.0
    beat(site, 110)

    text = " ".join(text_of(render("parts/overview_live.html", **facts(operations))).split())

    assert "100 about 15.5 kB" in text
    # One new message a second, remembered for the seven days of the trigger.
    assert "at the present rate 93.7 MB" in text


def test_the_dashboard_is_ready_while_its_history_answers(site: Site) -> None:
    ready = site.browser().get("/readyz").status_code
    store = open_history("redis://127.0.0.1:1/0?circuit=off")
    app = create_app("redis://127.0.0.1:1/0", access=Access(tokens=list(TOKENS.values())), store=store)
    away = Browser(app)

    answer = away.get("/readyz")

    assert (ready, answer.status_code, answer.text) == (200, 503, "the history does not answer\n")
    assert away.get("/livez").status_code == 200
    away.close()
    app.state.operations.close()
    drive(store.close())
