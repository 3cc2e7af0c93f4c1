"""Triggers with separate histories: the desk, decisions and the audit trail include all of them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from history import ConfigurationError, EntryOutcome, Message, Parked, State, open_history
from history.beside.journal import JournalLine
from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.store import DecisionKind, OperatorDecision, ParkedLabel
from tests.fixtures.beside import kept_in
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.dashboard.browser import Browser, desk_during_an_outage, keys_of, text_of
from tests.integration.dashboard.conftest import TOKENS, Order, Site
from tests.integration.dashboard.test_api import bearer
from tests.integration.dashboard.test_metrics import scraped
from triggers import FatalError, trigger
from triggers.dashboard import Access, Role, create_app, pulse, survey
from triggers.dashboard.operations import Operations
from triggers.testing.redis_server import RedisServer


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "FRESH", 0.0)


@dataclass(slots=True)
class Two:
    """A dashboard over the history of ``book``, and the history of ``ship``."""

    site: Site
    second: KeepsBeside

    def park(self, uuid: str, *, minutes: int = 0) -> Parked:
        """Leave a message of ``ship`` In Doubt, in its history."""
        return self.site.park(uuid, trigger_name="ship", minutes=minutes, store=self.second)

    def left(self) -> list[str]:
        return [one.id for one in drive(self.second.parking.list(trigger="ship"))]


def two_at(site: Site, url: str) -> Two:
    """Serve ``book`` with the history of the site, and ``ship`` with the history at a URL."""

    @trigger("orders", name="book")
    def book(order: Order) -> None:
        site.done.append(f"book {order.id}")

    @trigger("parcels", name="ship", history=url)
    def ship(order: Order) -> None:
        site.done.append(f"ship {order.id}")

    site.serve([book, ship])
    second = open_history(url)
    drive(second.check())
    return Two(site, second)


@pytest.fixture
def two(site: Site, tmp_path: Path) -> Iterator[Two]:
    made = two_at(site, f"sqlite:///{tmp_path}/second.db")
    yield made
    drive(made.second.close())


def test_the_desk_has_the_groups_of_all_histories_the_largest_first(two: Two) -> None:
    two.site.park("order-1")
    for number in range(2):
        two.park(f"parcel-{number}", minutes=number)
    operator = two.site.signed_in(Role.OPERATOR)

    page = operator.page("/parked")
    of_ship = operator.page("/parked?trigger=ship")
    lines = operator.page(f"/group?key={keys_of(of_ship)[0]}")

    assert "3 messages wait for a decision" in page
    assert page.index(">ship</a>") < page.index(">book</a>")
    assert (len(keys_of(page)), len(keys_of(of_ship))) == (2, 1)
    assert "parcel-0" in lines
    assert "parcel-1" in lines


def test_a_message_is_shown_from_the_history_of_its_trigger(two: Two) -> None:
    parked = two.park("parcel-1")
    journal = kept_in(two.second).journal
    drive(journal.append("ship", [JournalLine(uuid="parcel-1", verdict="late", reason="too late")]))

    text = text_of(two.site.signed_in(Role.OPERATOR).page(f"/message?trigger=ship&id={parked.id}"))

    assert "Did ship happen for parcel-1?" in text
    assert "journal: late" in text
    assert "STARTED" in text


@pytest.mark.parametrize(
    ("word", "state", "ran"),
    [
        ("run", State.COMPLETED, ["ship parcel-1"]),
        ("done", State.COMPLETED, []),
        ("discard", State.STARTED, []),
    ],
)
def test_a_decision_is_carried_out_and_kept_in_the_history_of_its_trigger(
    two: Two, word: str, state: State, ran: list[str]
) -> None:
    parked = two.park("parcel-1")
    operator = two.site.signed_in(Role.OPERATOR)

    job = operator.decide(decision=word, trigger="ship", id=parked.id, reason="I have looked")

    (entry,) = drive(two.second.lookup("ship", ["parcel-1"]))
    assert entry is not None
    assert (job.closed, job.error, entry.state) == (1, None, state)
    assert (two.left(), two.site.done) == ([], ran)
    assert [one.kind.value for one in drive(two.second.parking.decisions("ship")).records][-1:] == [word]
    assert "I have looked" in text_of(operator.page("/decisions"))
    assert "I have looked" in text_of(operator.page("/decisions?trigger=ship"))
    assert "I have looked" not in text_of(operator.page("/decisions?trigger=book"))


def test_one_decision_about_a_host_reaches_every_history(two: Two) -> None:
    one = two.site.park("order-1")
    two.park("parcel-1")
    operator = two.site.signed_in(Role.OPERATOR)
    both = keys_of(operator.page("/parked?host=host-1"))

    job = operator.decide(decision="discard", key=both, all="yes", reason="the host is gone")

    assert (len(both), job.closed) == (2, 2)
    assert one.id not in two.site.ids()
    assert two.left() == []
    assert "Nothing is parked" in operator.page("/parked")


def test_the_story_of_a_uuid_comes_from_all_histories(two: Two) -> None:
    two.site.park("same")
    two.park("same")

    text = text_of(two.site.signed_in(Role.OPERATOR).page("/story?uuid=same"))

    assert "book" in text
    assert "ship" in text


def test_messages_of_a_trigger_in_another_history_than_its_own_are_named(two: Two) -> None:
    left_behind = two.site.park("parcel-1", trigger_name="ship")
    viewer = two.site.signed_in(Role.VIEWER)

    text = " ".join(text_of(viewer.page("/parked")).split())

    assert f"1 message of ship is parked in {two.site.store.control.address}" in text
    assert viewer.get(f"/message?trigger=ship&id={left_behind.id}").status_code == 404


def test_a_trigger_of_the_module_keeps_its_history_if_another_history_knows_its_name(two: Two) -> None:
    parked = two.site.park("order-1")
    drive(two.second.claim("book", ["other"], "host-9:1:a"))

    operator = two.site.signed_in(Role.OPERATOR)
    operator.page("/")

    assert operator.get(f"/message?trigger=book&id={parked.id}").status_code == 200


def test_metrics_count_the_parked_messages_of_all_histories(two: Two) -> None:
    two.site.park("order-1")
    two.park("parcel-1")

    found = scraped(two.site.browser())

    parked = {labels: value for (name, labels), value in found.items() if name == "doubtless_parked_messages"}
    assert sorted(parked.values()) == [1, 1]


def test_while_a_history_is_away_the_others_rows_stay_and_can_be_decided(
    site: Site, private_redis: RedisServer
) -> None:
    two = two_at(site, f"{private_redis.url}?circuit=off")
    parked = two.site.park("order-1")
    other = two.park("parcel-1")
    operator = two.site.signed_in(Role.OPERATOR)
    operator.page("/parked")

    private_redis.kill()
    desk, of_ship = operator.page("/parked"), operator.get(f"/message?trigger=ship&id={other.id}")
    operator.decide(decision="discard", trigger="book", id=parked.id, reason="not wanted")
    trail = operator.page("/decisions")
    private_redis.start()
    drive(two.second.close())

    assert ">book</a>" in desk
    assert "does not answer" in desk
    assert "data-again" in desk
    assert of_ship.status_code == 503
    assert site.ids() == []
    assert "not wanted" in trail
    assert "does not answer" in trail


def test_while_the_dashboards_history_is_away_the_rows_of_others_stay(
    site: Site, tmp_path: Path, private_redis: RedisServer
) -> None:
    site.url, site.store = private_redis.url, open_history(f"{private_redis.url}?circuit=off")
    two = two_at(site, f"sqlite:///{tmp_path}/second.db")
    parked = two.park("parcel-1")
    viewer = site.signed_in(Role.VIEWER)
    viewer.page("/")

    private_redis.kill()
    desk, message = viewer.page("/parked?trigger=ship"), viewer.get(f"/message?trigger=ship&id={parked.id}")
    private_redis.start()
    drive(two.second.close())

    assert ">ship</a>" in desk
    assert "does not answer" in desk
    assert message.status_code == 200


def test_what_was_known_of_a_history_that_went_away_stays_on_the_pages(
    site: Site, private_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "PAUSE", 0.0)
    url = f"{private_redis.url}?circuit=off"
    two = two_at(site, url)
    two.site.app.state.operations.close()

    @trigger("parcels", name="ship", history=url)
    def ship(order: Order) -> None:
        raise AssertionError(order)

    message = two.park("parcel-1")
    app = create_app(site.url, access=Access(tokens=list(TOKENS.values())), triggers=[ship], store=site.store)
    site.app = app
    browser = Browser(app)
    browser.sign_in(TOKENS[Role.OPERATOR].secret)
    assert eventually(lambda: ">ship</a>" in browser.page("/parked"))

    old = desk_during_an_outage(browser, private_redis)
    private_redis.kill()
    page = browser.get(f"/message?trigger=ship&id={message.id}")
    private_redis.start()

    assert ">ship</a>" in old
    assert page.status_code == 503
    assert "data-again" in page.text
    assert re.search(r"What was known \S+ \S+ ago", text_of(page.text))
    assert "parcel-1" in page.text
    assert "in doubt" in page.text
    browser.close()
    drive(two.second.close())


def test_a_decision_whose_history_went_away_says_so_and_leaves_its_messages(
    site: Site, private_redis: RedisServer
) -> None:
    two = two_at(site, f"{private_redis.url}?circuit=off")
    two.park("parcel-1")
    operations: Operations = site.app.state.operations
    operations.surveyor.latest()
    labels = [
        ParkedLabel.of(two.site.park("order-1")),
        ParkedLabel.of(drive(two.second.parking.list(trigger="ship"))[0]),
    ]

    private_redis.kill()
    job = operations.jobs.start(OperatorDecision(kind=DecisionKind.DISCARD, by="ann"), labels)
    assert job.finished.wait(PATIENCE)
    private_redis.start()

    assert [(share.closed, share.error is None) for share in job.shares] == [(1, True), (0, False)]
    assert eventually(lambda: len(two.left()) == 1)
    drive(two.second.close())


def test_a_history_that_a_module_opened_itself_is_shown_decided_and_left_open(
    site: Site, tmp_path: Path
) -> None:
    store = open_history(f"sqlite:///{tmp_path}/second.db")
    two = Two(site, store)
    two.park("parcel-1")

    @trigger("parcels", name="ship", history=store)
    def ship(order: Order) -> None:
        site.done.append(f"ship {order.id}")

    site.serve([ship])
    operator = site.signed_in(Role.OPERATOR)
    seen = re.search(r'href="/parked\?trigger=ship">(.*?)</a>', operator.page("/"))
    (message,) = drive(store.parking.list(trigger="ship"))
    operator.decide(decision="run", trigger="ship", id=message.id, reason="paid")
    site.serve([])

    assert seen is not None
    assert seen[1] == "1"
    assert site.done == ["ship parcel-1"]
    assert two.left() == []
    drive(store.close())


@pytest.mark.parametrize("scheme", ["sqlite", "redis"])
def test_a_history_that_only_an_event_loop_can_use_is_a_problem_of_its_triggers(
    site: Site, tmp_path: Path, scheme: str
) -> None:
    url = f"sqlite:///{tmp_path}/second.db" if scheme == "sqlite" else "redis://127.0.0.1:1/0"

    @trigger("parcels", name="ship", history=open_history(url).for_asyncio())
    def ship(order: Order) -> None:
        raise AssertionError(order)

    site.serve([ship])
    page = site.signed_in(Role.VIEWER).page("/")

    assert 'data-problem="history away"' in page
    assert "give the triggers a URL" in page


@dataclass(slots=True)
class Apart:
    """A dashboard over the history of ``mail``, which parks its messages in another one."""

    site: Site
    lot: KeepsBeside

    def left(self) -> list[str]:
        return [str(one.uuid) for one in drive(self.lot.parking.list(trigger="mail"))]


@pytest.fixture
def apart(site: Site, tmp_path: Path) -> Iterator[Apart]:
    url = f"sqlite:///{tmp_path}/lot.db"
    store = open_history(url)

    @trigger("mails", name="mail", history=site.store, parking=url)
    def mail(order: Order) -> None:
        if order.id not in site.done:
            site.done.append(order.id)
            raise FatalError("no such address")

    for number in range(3):
        mail.handle(Message(body={"id": f"mail-{number}"}, uuid=f"mail-{number}"))
    site.serve([mail])
    yield Apart(site, store)
    mail.close()
    drive(store.close())


def metrics_of_parked(browser: Browser) -> dict[str, float]:
    """Return the number of parked messages of each trigger that ``/metrics`` names."""
    answer = browser.get("/metrics")
    found = re.findall(r'doubtless_parked_messages\{trigger="(.*?)"\} (.*)', answer.text)
    return {name: float(value) for name, value in found}


def parked_shown(browser: Browser) -> str:
    """Return the number of parked messages of ``mail`` on Overview."""
    (shown,) = re.findall(r'href="/parked\?trigger=mail">(.*?)</a>', browser.page("/"))
    return str(shown)


def test_what_a_trigger_parks_in_another_history_is_counted_and_shown(apart: Apart) -> None:
    operator = apart.site.signed_in(Role.OPERATOR)
    operator.page("/parked")

    (key,) = keys_of(operator.page("/parked"))

    assert parked_shown(operator) == "3"
    assert "mail-2" in operator.page(f"/group?key={key}")
    assert metrics_of_parked(operator) == {"mail": 3}
    assert len(operator.get("/export").text.splitlines()) == 3
    assert "is another" not in operator.page("/parked")
    assert "a fatal error; parked" in text_of(operator.page("/story?uuid=mail-1"))


@pytest.mark.parametrize("everything", [False, True], ids=["one", "all"])
@pytest.mark.parametrize(
    ("word", "outcome"),
    [("run", EntryOutcome.OK), ("done", EntryOutcome.OK), ("discard", EntryOutcome.FAILED)],
    ids=["run", "done", "discard"],
)
def test_a_decision_about_it_changes_the_lot_and_the_entry(
    apart: Apart, word: str, outcome: EntryOutcome, *, everything: bool
) -> None:
    operator = apart.site.signed_in(Role.OPERATOR)
    (first,) = (one for one in drive(apart.lot.parking.list(trigger="mail")) if one.uuid == "mail-0")
    (key,) = keys_of(operator.page("/parked"))
    chosen = {"key": key, "all": "yes"} if everything else {"trigger": "mail", "id": first.id}

    job = operator.decide(decision=word, reason="corrected", **chosen)

    entries = drive(apart.site.store.lookup("mail", ["mail-0", "mail-1", "mail-2"]))
    decided = [outcome] * 3 if everything else [outcome, EntryOutcome.FAILED, EntryOutcome.FAILED]
    assert job.error is None
    assert [entry and entry.outcome for entry in entries] == decided
    assert sorted(apart.left()) == ([] if everything else ["mail-1", "mail-2"])
    assert "corrected" in text_of(operator.page("/decisions?trigger=mail"))


def test_a_message_of_a_lot_that_answers_is_shown_while_its_history_is_away(
    site: Site, tmp_path: Path, private_redis: RedisServer
) -> None:
    history, lot = f"{private_redis.url}?circuit=off", f"sqlite:///{tmp_path}/lot.db"

    @trigger("mails", name="mail", history=history, parking=lot)
    def mail(_: Order) -> None:
        raise FatalError("no such address")

    mail.handle(Message(body={"id": "mail-1"}, uuid="mail-1"))
    mail.close()
    site.serve([mail])
    operator, store = site.signed_in(Role.OPERATOR), open_history(lot)
    (message,) = drive(store.parking.list())

    private_redis.kill()
    page = operator.page(f"/message?trigger=mail&id={message.id}")
    by_program = operator.get(f"/api/message?trigger=mail&id={message.id}", **bearer())
    private_redis.start()
    drive(store.close())

    assert "no such address" in page
    assert "nothing now: it does not answer" in text_of(page)
    assert by_program.json()["uuid"] == "mail-1"


def test_comments_are_kept_where_the_message_is_parked(apart: Apart) -> None:
    operator = apart.site.signed_in(Role.OPERATOR)
    message = drive(apart.lot.parking.list(trigger="mail"))[0]

    sent = operator.send("/comment", trigger="mail", id=message.id, text="I ask the customer")

    assert sent.status_code == 303
    assert "I ask the customer" in operator.page(f"/message?trigger=mail&id={message.id}")
    assert len(drive(apart.lot.comments.read("mail", message.id))) == 1


def test_what_is_parked_in_a_file_of_another_machine_is_not_called_nothing(site: Site) -> None:
    drive(site.store.claim("ping", ["from-before"], "worker-1"))

    @trigger("pings", name="ping", history=None)
    def ping(order: Order) -> None:
        raise AssertionError(order)

    site.serve([ping])
    viewer = site.signed_in(Role.VIEWER)

    assert re.search(r'href="/parked\?trigger=ping">-</a>', viewer.page("/"))
    assert metrics_of_parked(viewer) == {}


def test_two_triggers_of_one_name_with_two_histories_are_refused(site: Site, tmp_path: Path) -> None:
    @trigger("orders", name="book", history=site.url)
    def one(order: Order) -> None:
        raise AssertionError(order)

    @trigger("returns", name="book", history=f"sqlite:///{tmp_path}/second.db")
    def other(order: Order) -> None:
        raise AssertionError(order)

    with pytest.raises(ConfigurationError) as refused:
        create_app(
            site.url, access=Access(tokens=list(TOKENS.values())), triggers=[one, other], store=site.store
        )

    assert refused.value.setting == "trigger book"


def test_failures_of_a_history_that_is_away_are_not_denied(site: Site, tmp_path: Path) -> None:
    @trigger("parcels", name="ship", history=f"sqlite:///{tmp_path}/nowhere.db")
    def ship(order: Order) -> None:
        raise AssertionError(order)

    site.serve([ship])

    assert "Nothing has failed in what was counted" in site.signed_in(Role.VIEWER).page("/failures")


def later(site: Site, option: str, file: Path) -> Browser:
    """Serve the trigger ``mail`` with a file for this option that does not exist yet."""

    @trigger("mails", name="mail", **{"history": site.store, option: f"sqlite:///{file}"})  # type: ignore[arg-type]
    def mail(_: Order) -> None:
        raise FatalError("no such address")

    site.serve([mail])
    return site.signed_in(Role.OPERATOR)


def test_a_history_whose_file_does_not_exist_is_a_problem(site: Site, tmp_path: Path) -> None:
    operator = later(site, "history", tmp_path / "later.db")

    assert "there is no file" in operator.page("/")
    assert not (tmp_path / "later.db").exists()


def test_a_lot_whose_file_does_not_exist_yet_is_empty_until_a_message_is_parked(
    site: Site, tmp_path: Path
) -> None:
    operator = later(site, "parking", tmp_path / "later.db")

    assert "data-problem" not in operator.page("/")
    assert keys_of(operator.page("/parked")) == []
    assert parked_shown(operator) == "-"
    assert not (tmp_path / "later.db").exists()

    mail = site.app.state.operations.triggers["mail"]
    mail.handle(Message(body={"id": "mail-1"}, uuid="mail-1"))
    mail.close()

    assert len(keys_of(operator.page("/parked"))) == 1
    assert parked_shown(operator) == "1"
    assert metrics_of_parked(operator) == {"mail": 1}


@pytest.mark.parametrize("url", ["memory://", "sqlite:///:memory:", "env:LOT"])
def test_a_lot_in_the_memory_of_a_consumer_is_not_an_outage(
    site: Site, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOT", "memory://")

    @trigger("mails", name="mail", history=site.store, parking=url)
    def mail(order: Order) -> None:
        raise AssertionError(order)

    drive(site.store.claim("mail", ["mail-1"], "worker-1"))
    site.serve([mail])
    operator = site.signed_in(Role.OPERATOR)
    pages = [operator.page(path) for path in ("/", "/triggers", "/parked", "/failures", "/trigger?name=mail")]
    message = operator.get("/message?trigger=mail&id=mail-1")

    assert not [page for page in pages if "data-problem" in page or 'role="alert"' in page]
    assert message.status_code == 404
    assert "in the memory of its consumer" in message.text
    assert "in the memory of its consumer" in pages[2]
    assert "Nobody is waiting" not in pages[2]
    assert "in the memory of its consumer" in pages[4]
    assert parked_shown(operator) == "-"
    assert metrics_of_parked(operator) == {}
    assert 'parked_oldest_seconds{trigger="mail"}' not in operator.get("/metrics").text


def test_a_lot_that_cannot_be_opened_is_an_outage(site: Site) -> None:
    @trigger("mails", name="mail", history=site.store, parking="env:NO_SUCH_LOT")
    def mail(order: Order) -> None:
        raise AssertionError(order)

    site.serve([mail])
    operator = site.signed_in(Role.OPERATOR)

    assert operator.get("/message?trigger=mail&id=mail-1").status_code == 503
    assert "NO_SUCH_LOT" in operator.page("/")
