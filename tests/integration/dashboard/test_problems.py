"""Overview shows problems, outages, and triggers that have their own history."""

import os
import re
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from history.beside import control
from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.opening import open_history
from history.store.control import Report, TriggerState, Trouble, TroubleKind, Verb
from tests.fixtures.waiting import eventually
from tests.integration.dashboard.browser import Browser, desk_during_an_outage, text_of
from tests.integration.dashboard.conftest import TOKENS, Site
from triggers import trigger
from triggers.consumer.options import AnyTrigger
from triggers.dashboard import Access, Role, create_app, pulse, survey
from triggers.dashboard.operations import Operations
from triggers.dashboard.pulse import Pulse, Source
from triggers.testing.redis_server import RedisServer


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "FRESH", 0.0)


def beat(store: KeepsBeside, name: str = "book", consumer: str = "c-1", **facts: Any) -> None:
    report = Report.model_validate({"consumer": consumer, "trigger": name, **facts})
    drive(store.control.beat(f"token of {consumer}", [report]))


def problems(browser: Browser) -> list[tuple[str, ...]]:
    """Return kind, trigger and messages of the problems on Overview."""
    rows = browser.page("/").split("<tr data-problem=")[1:]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [tuple(" ".join(text_of(row[number]).split()) for number in (0, 1, 3)) for row in cells]


def test_without_a_problem_no_table_of_problems_is_there(site: Site) -> None:
    beat(site.store)

    assert problems(site.signed_in(Role.VIEWER)) == []
    assert "What goes wrong" not in site.signed_in(Role.VIEWER).page("/")


def test_what_consumers_tell_of_one_trouble_is_one_problem(site: Site) -> None:
    for number in (1, 2):
        trouble = Trouble(kind=TroubleKind.FAILING, cause="ValueError: card 4711", elapsed=3.0, count=number)
        beat(site.store, consumer=f"c-{number}", troubles=(trouble,))

    assert problems(site.signed_in(Role.OPERATOR)) == [("messages fail", "book", "3 failed")]
    assert "ValueError: card 4711" in site.signed_in(Role.OPERATOR).page("/")
    seen = site.signed_in(Role.VIEWER).page("/")
    assert "4711" not in seen
    assert "ValueError" in seen


def test_the_most_urgent_problem_is_first(site: Site) -> None:
    hanging = Trouble(kind=TroubleKind.HANGING, cause="charge (bank.py:12)", elapsed=65.0)
    nowhere = Trouble(kind=TroubleKind.NOT_PARKED, cause="the lot: the disk is full", elapsed=5.0, count=4)
    beat(site.store, away="no route", away_for=3.0, troubles=(hanging, nowhere))
    beat(site.store, name="ship", state=TriggerState.SUSPENDED, reason="the bank is away")

    assert problems(site.signed_in(Role.OPERATOR)) == [
        ("provider away", "book", "not known"),
        ("cannot park", "book", "4 given back"),
        ("suspended", "ship", "not known"),
        ("a call does not end", "book", "1 in progress"),
    ]


def test_a_consumer_that_is_silent_is_lost_and_one_that_left_is_not(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "LOST_AFTER", timedelta(0))
    beat(site.store, consumer="killed", busy=2)
    beat(site.store, consumer="left", leaving=True)
    viewer = site.signed_in(Role.VIEWER)

    assert eventually(lambda: problems(viewer) == [("consumer lost", "book", "2 or more in its hands")])
    page = text_of(viewer.page("/trigger?name=book"))
    assert re.search(r"killed\s+lost", page)
    assert not re.search(r"left\s", page)


def test_a_consumer_that_took_another_token_is_not_lost(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "LOST_AFTER", timedelta(seconds=0.5))
    beat(site.store)

    def has_another() -> bool:
        drive(site.store.control.beat("another", [Report(consumer="c-1", trigger="book")]))
        return not site.app.state.operations.pulse.read().overview.lost

    viewer = site.signed_in(Role.VIEWER)
    assert eventually(lambda: problems(viewer) != [])
    assert has_another()


def test_at_an_outage_the_last_known_state_stays_with_its_age_and_it_heals(
    site: Site, private_redis: RedisServer
) -> None:
    site.url, site.store = private_redis.url, open_history(f"{private_redis.url}?circuit=off")
    site.serve([])
    viewer = site.signed_in(Role.VIEWER)
    beat(site.store, busy=1)
    before = viewer.page("/")

    private_redis.kill()
    after = viewer.page("/")
    desk = viewer.get("/trigger?name=book")

    assert 'href="/trigger?name=book"' in before
    assert 'href="/trigger?name=book"' in after
    assert [kind for kind, *_ in problems(viewer)] == ["history away"]
    assert "What is shown of book is from" in after
    assert ".lua" not in after
    assert desk.status_code == 200 or "data-again" in desk.text
    private_redis.start()
    assert eventually(lambda: problems(viewer) == [])


def test_a_history_that_hangs_delays_the_page_once_and_is_a_problem(
    private_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse, "PATIENCE", 0.05)
    store = open_history(f"{private_redis.url}?circuit=off")
    beat(store)
    watched = Pulse(store)
    assert eventually(watched.look)

    with stopped(private_redis):
        assert eventually(lambda: "has not answered" in str((watched.look(), watched.sources[0].problem)))
        kept = watched.look()
    healed = eventually(lambda: (watched.look(), watched.sources[0].problem)[1] is None)
    watched.close()
    drive(store.close())

    assert healed
    assert kept is not None
    assert kept.triggers == ["book"]


@contextmanager
def stopped(server: RedisServer) -> Generator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@contextmanager
def counted(server: RedisServer) -> Generator[Browser]:
    """Serve the dashboard of a Redis in which nothing is parked, after its first count."""
    store = open_history(f"{server.url}?circuit=off")
    app = create_app(server.url, access=Access(tokens=list(TOKENS.values())), store=store)
    browser = Browser(app)
    try:
        browser.sign_in(TOKENS[Role.VIEWER].secret)
        assert eventually(lambda: "Nothing is parked" in browser.page("/parked"))
        yield browser
    finally:
        browser.close()
        app.state.operations.close()
        drive(store.close())


def test_the_desk_says_that_its_counts_are_old_while_the_history_is_away(
    private_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "PAUSE", 0.0)
    with counted(private_redis) as browser:
        old = desk_during_an_outage(browser, private_redis)

    assert "Nothing is parked" in old
    assert "data-again" in old


def served_with(site: Site, ship: AnyTrigger) -> Browser:
    triggers: Sequence[AnyTrigger] = [ship]
    site.serve(triggers)
    return site.signed_in(Role.ADMIN)


def test_a_trigger_with_a_history_of_its_own_is_shown_and_obeys(site: Site, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/second.db"
    second = open_history(url)
    beat(second, name="ship", busy=3)

    @trigger("parcels", name="ship", history=url)
    def ship(parcel: dict[str, str]) -> None:
        raise AssertionError(parcel)

    admin = served_with(site, ship)
    page = text_of(admin.page("/"))
    ordered = admin.send("/order", name="ship", order="disable", reason="moved")
    orders = [(one.trigger, one.verb) for one in drive(second.control.overview()).orders]
    drive(second.close())

    assert "running" in page
    assert "no consumer" not in page.lower()
    assert (ordered.status_code, orders) == (200, [("ship", Verb.DISABLE)])


def test_a_second_history_that_cannot_be_opened_is_a_problem_and_the_first_is_shown(
    site: Site, tmp_path: Path
) -> None:
    @trigger("parcels", name="ship", history=f"sqlite:///{tmp_path}/nowhere.db")
    def ship(parcel: dict[str, str]) -> None:
        raise AssertionError(parcel)

    beat(site.store)
    admin = served_with(site, ship)

    assert problems(admin) == [("history away", "ship", "not known")]
    assert "running" in text_of(admin.page("/"))
    assert re.search(r'href="/parked\?trigger=ship">-</a>', admin.page("/"))


def test_a_history_that_was_away_from_the_start_is_a_problem_of_the_triggers_that_will_use_it(
    private_redis: RedisServer,
) -> None:
    @trigger("orders", name="book")
    def book(order: dict[str, str]) -> None:
        raise AssertionError(order)

    store = open_history(f"{private_redis.url}?circuit=off")
    private_redis.kill()
    operations = Operations.over(store, private_redis.url, [book], background=False)

    operations.pulse.look()
    found = operations.pulse.sources[0]
    operations.close()

    assert found.problem is not None
    assert found.triggers == ["book"]


def test_one_history_under_two_names_is_read_once(site: Site) -> None:
    site.park("order-1")
    beat(site.store)
    twice = Pulse(
        site.store, others=[Source("the same", lambda: open_history(site.url), ["book"])], background=False
    )

    reading = twice.look()
    found = len(twice.sources), reading is not None and len(reading.overview.beats)
    twice.close()

    assert found == (1, 1)


@pytest.mark.parametrize("path", ["/trigger?name=book", "/triggers"])
def test_a_page_of_triggers_says_that_it_is_old_while_the_history_is_away(
    site: Site, private_redis: RedisServer, path: str
) -> None:
    site.url, site.store = private_redis.url, open_history(f"{private_redis.url}?circuit=off")
    site.serve([])
    viewer = site.signed_in(Role.VIEWER)
    beat(site.store, busy=1)
    before = viewer.page(path)

    private_redis.kill()
    during = viewer.page(path)
    private_redis.start()

    assert "What is shown of book is from" not in before
    assert "What is shown of book is from" in during
    assert 'role="alert" data-again=' in during
    assert eventually(lambda: "What is shown of book is from" not in viewer.page(path))


def test_nothing_is_claimed_about_the_consumers_of_a_history_that_never_answered(
    site: Site, tmp_path: Path
) -> None:
    @trigger("parcels", name="ship", history=f"sqlite:///{tmp_path}/nowhere.db")
    def ship(parcel: dict[str, str]) -> None:
        raise AssertionError(parcel)

    page = text_of(served_with(site, ship).page("/trigger?name=ship"))

    assert "Nothing is known of ship" in page
    assert "No consumer has ever reported" not in page
    assert "mean ms" not in page


@pytest.mark.parametrize("path", ["/message?trigger=book&id=x", "/api/message?trigger=book&id=x", "/metrics"])
def test_an_answer_during_an_outage_names_the_history_and_no_script(
    site: Site, private_redis: RedisServer, path: str
) -> None:
    url = f"{private_redis.url}?circuit=off"
    site.url, site.store = private_redis.url, open_history(url)
    site.serve([])
    viewer = site.signed_in(Role.VIEWER)
    viewer.page("/")

    private_redis.kill()
    answer = viewer.get(path, Authorization=f"Bearer {TOKENS[Role.VIEWER].secret}")
    private_redis.start()

    assert answer.status_code == 503
    assert f"{site.store.control.address} has not answered since 2" in answer.text
    assert ".lua" not in answer.text


def test_the_desk_says_how_old_the_counts_of_a_history_that_is_away_are(
    site: Site, private_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "PAUSE", 0.0)
    with counted(private_redis) as browser:
        browser.page("/")
        old = text_of(desk_during_an_outage(browser, private_redis))

    assert re.search(r"Its counts are from 2[0-9: -]+ UTC", old)
    assert re.search(r"does not answer \(since 2[0-9: -]+ UTC\)", old)


def test_the_page_of_a_trigger_whose_history_cannot_be_opened_is_no_wrong_request(
    site: Site, tmp_path: Path
) -> None:
    @trigger("parcels", name="ship", history=f"sqlite:///{tmp_path}/nowhere.db")
    def ship(parcel: dict[str, str]) -> None:
        raise AssertionError(parcel)

    admin = served_with(site, ship)

    assert admin.get("/parked?trigger=ship").status_code == 200
    message = admin.get("/message?trigger=ship&id=x")
    assert message.status_code == 503
    assert "data-again" in message.text


def test_two_histories_that_cannot_be_opened_have_two_names(site: Site, tmp_path: Path) -> None:
    @trigger("parcels", name="ship", history=f"sqlite:///{tmp_path}/one.db")
    def ship(parcel: dict[str, str]) -> None:
        raise AssertionError(parcel)

    @trigger("parcels", name="bill", history=f"sqlite:///{tmp_path}/two.db")
    def bill(parcel: dict[str, str]) -> None:
        raise AssertionError(parcel)

    site.serve([ship, bill])
    desk = site.signed_in(Role.VIEWER).page("/decisions")

    assert f"The history sqlite:///{tmp_path}/one.db" in desk
    assert f"The history sqlite:///{tmp_path}/two.db" in desk


def test_a_history_that_must_be_corrected_is_not_said_to_heal_by_itself(site: Site, tmp_path: Path) -> None:
    @trigger("parcels", name="ship", history="memory://")
    def ship(parcel: dict[str, str]) -> None:
        raise AssertionError(parcel)

    page = served_with(site, ship).page("/")

    assert "Nothing is lost" not in page
    assert "give a server or a file" in page


def test_the_desk_says_immediately_that_its_counts_are_old(
    private_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "PAUSE", 600.0)  # as after a survey of many messages
    with counted(private_redis) as browser:
        before = browser.page("/parked")
        private_redis.kill()
        during = browser.page("/parked")
        private_redis.start()
        assert eventually(lambda: "does not answer" not in browser.page("/parked"))

    assert "does not answer" not in before
    assert "does not answer" in during
    assert "Nobody is waiting" not in during
