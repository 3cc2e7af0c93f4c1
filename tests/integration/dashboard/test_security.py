"""The security log records each action of a person. Only some roles may read it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from history.beside.security import (
    SecurityEvent,
    SecurityLog,
    SecurityOutcome,
    SecurityRecord,
)
from history.bridge import drive
from history.errors import HistoryUnavailableError
from tests.fixtures.beside import kept_in
from tests.integration.dashboard.browser import Browser, text_of
from tests.integration.dashboard.conftest import TOKENS, Site
from triggers.dashboard import Access, ProxyHeader, Role, SecurityLogging
from triggers.dashboard.access.throttle import FREE
from triggers.dashboard.pages import security
from triggers.dashboard.pages.triggers import ROLES

ALLOWED, DENIED, FAILED = SecurityOutcome.ALLOWED, SecurityOutcome.DENIED, SecurityOutcome.FAILED


def log_of(site: Site) -> SecurityLog:
    return kept_in(site.store).security_log


def records(site: Site, *events: SecurityEvent) -> Sequence[SecurityRecord]:
    page = drive(log_of(site).read(limit=1_000))
    return [record for record in reversed(page.records) if record.event in events]


def facts(found: Sequence[SecurityRecord], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(getattr(record, name) for name in names) for record in found]


@pytest.fixture
def file(site: Site, tmp_path: Path) -> Path:
    """The file of the security log of the dashboard."""
    file = tmp_path / "security.jsonl"
    site.serve([], Access(tokens=list(TOKENS.values()), security_log=SecurityLogging(file=file)))
    return file


def test_who_signs_in_and_out_and_from_where(site: Site) -> None:
    browser = site.browser(address="10.0.0.7")

    browser.sign_in(TOKENS[Role.OPERATOR].secret)
    browser.send("/sign-out")

    events = SecurityEvent.SIGN_IN, SecurityEvent.SIGN_OUT, SecurityEvent.SESSION_END
    found = records(site, *events)
    assert facts(found, "event", "outcome") == [(event, ALLOWED) for event in events]
    assert set(facts(found, "user", "role", "source")) == {("a operator", "operator", "10.0.0.7")}
    assert found[0].way == "token"


def test_wrong_tokens_and_waits_are_counted(site: Site) -> None:
    browser = site.browser(address="10.0.0.7")

    for _ in range(FREE + 1):
        browser.sign_in("wrong")
    for _ in range(3):
        assert browser.sign_in("wrong").status_code == 429
    site.app.state.operations.recorder.close()

    found = records(site, SecurityEvent.SIGN_IN)
    assert set(facts(found, "outcome", "user", "source")) == {(DENIED, None, "10.0.0.7")}
    by_cause: dict[str | None, int] = {}
    for record in found:
        by_cause[record.why] = by_cause.get(record.why, 0) + record.times
    assert sorted(by_cause.values()) == [3, FREE + 1]
    assert len(found) == 4


def test_who_a_proxy_names_signs_in_by_it_and_two_names_do_not(site: Site) -> None:
    access = Access(proxy=ProxyHeader(user_header="x-user", role_header="x-role"))
    site.serve([], access)

    site.browser(headers={"x-user": "ann", "x-role": "admin"}).page("/")
    site.browser(headers=[("x-user", "eve"), ("x-user", "ann")]).get("/")

    found = records(site, SecurityEvent.SIGN_IN, SecurityEvent.ACCESS)
    assert facts(found, "event", "outcome", "user", "role", "way") == [
        (SecurityEvent.SIGN_IN, ALLOWED, "ann", "admin", "proxy"),
        (SecurityEvent.ACCESS, DENIED, None, None, None),
    ]


def test_what_is_refused(site: Site) -> None:
    parked = site.park("order-1")
    viewer, admin = site.signed_in(Role.VIEWER), site.signed_in(Role.ADMIN)
    form = {"decision": "discard", "trigger": "book", "id": parked.id, "reason": "because"}

    viewer.send("/decide", **form)
    admin.post("/decide", form)
    admin.post("/decide", {**form, "csrf": admin.csrf()}, headers={"sec-fetch-site": "cross-site"})
    site.browser(address="10.0.0.7").post("/decide", form)
    site.browser(address="10.0.0.8", host="evil.example.com").get("/")
    site.browser(address="10.0.0.9").get("/metrics")

    found = records(site, SecurityEvent.ACCESS)
    assert facts(found, "outcome", "user", "page") == [
        (DENIED, "a viewer", "/decide"),
        (DENIED, "a admin", "/decide"),
        (DENIED, "a admin", "/decide"),
        (DENIED, None, "/decide"),
        (DENIED, None, None),
        (DENIED, None, "/metrics"),
    ]
    assert [record.source for record in found[3:]] == ["10.0.0.7", "10.0.0.8", "10.0.0.9"]
    assert len({record.why for record in found}) == 6
    assert records(site, SecurityEvent.DISCARD) == []


def test_who_saw_which_body(site: Site) -> None:
    parked = site.park("order-1", {"id": "order-1", "card": "4111"})
    path = f"/message?trigger=book&id={parked.id}"

    site.signed_in(Role.VIEWER).page(path)
    site.signed_in(Role.OPERATOR).page(path)
    site.signed_in(Role.ADMIN).page(path)

    found = records(site, SecurityEvent.VIEW_BODY)
    assert facts(found, "outcome", "user", "trigger", "message") == [
        (ALLOWED, name, "book", "order-1") for name in ("a operator", "a admin")
    ]


@pytest.mark.parametrize("word", ["run", "done", "discard"])
def test_a_decision(site: Site, operator: Browser, word: str) -> None:
    parked = site.park("order-1")

    operator.decide(decision=word, trigger="book", id=parked.id, reason="because")

    (record,) = records(site, SecurityEvent(word))
    assert (record.outcome, record.user, record.role) == (ALLOWED, "a operator", "operator")
    assert (record.trigger, record.message, record.messages) == ("book", "order-1", 1)


def test_a_decision_about_many_messages_says_how_many(site: Site, operator: Browser) -> None:
    for number in range(3):
        site.park(f"order-{number}", minutes=number)

    operator.decide(decision="discard", key=site.group(operator), all="yes", reason="because")

    (record,) = records(site, SecurityEvent.DISCARD)
    assert (record.trigger, record.message, record.messages) == ("book", None, 3)


def test_a_decision_that_breaks_off(site: Site, operator: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    parked = site.park("order-1")

    async def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("secret-of-the-error")

    monkeypatch.setattr("triggers.dashboard.jobs.jobs.decide", fail)
    operator.decide(decision="discard", trigger="book", id=parked.id, reason="because")

    found = records(site, SecurityEvent.DISCARD)
    assert facts(found, "outcome", "user", "messages") == [
        (ALLOWED, "a operator", 1),
        (FAILED, "a operator", 1),
    ]
    assert "secret-of-the-error" not in found[1].to_json()


def test_commands_to_consumers(site: Site) -> None:
    drive(site.store.claim("book", ["known"], "somebody"))
    form = {"name": "book", "reason": "because"}

    site.signed_in(Role.OPERATOR).send("/order", order="suspend", **form)
    site.signed_in(Role.OPERATOR).send("/order", order="disable", **form)
    site.signed_in(Role.ADMIN).send("/order", order="disable", **form)

    found = records(site, *(SecurityEvent(verb.value) for verb in ROLES))
    assert facts(found, "event", "outcome", "user", "trigger") == [
        (SecurityEvent.SUSPEND, ALLOWED, "a operator", "book"),
        (SecurityEvent.DISABLE, DENIED, "a operator", "book"),
        (SecurityEvent.DISABLE, ALLOWED, "a admin", "book"),
    ]


def away(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def append(*_: Any) -> None:
        raise HistoryUnavailableError("it is away")

    monkeypatch.setattr(log_of(site), "append", append)


def test_nothing_is_decided_or_commanded_without_its_record(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    parked, admin = site.park("order-1"), site.signed_in(Role.ADMIN)
    away(site, monkeypatch)

    decided = admin.send("/decide", decision="discard", trigger="book", id=parked.id, reason="because")
    ordered = admin.send("/order", order="disable", name="book", reason="because")

    assert (decided.status_code, ordered.status_code) == (503, 503)
    assert site.ids() == [parked.id]
    assert drive(site.store.control.overview()).orders == []


def test_a_history_that_is_away_keeps_nobody_from_signing_in(
    site: Site, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away(site, monkeypatch)

    refused = site.browser().sign_in("wrong")
    site.signed_in(Role.OPERATOR)

    assert refused.status_code == 403
    written = [SecurityRecord.from_json(line) for line in file.read_text().splitlines()]
    assert facts(written, "event", "outcome") == [
        (SecurityEvent.SIGN_IN, DENIED),
        (SecurityEvent.SIGN_IN, ALLOWED),
    ]


def test_no_record_holds_a_secret_a_body_or_an_error(site: Site, file: Path) -> None:
    body = {"id": "order-1", "card": "secret-of-the-body"}
    parked = site.park("order-1", body, error_message="secret-of-the-error")
    operator = site.signed_in(Role.OPERATOR)
    csrf = operator.csrf()
    operator.page(f"/message?trigger=book&id={parked.id}")
    operator.post("/decide", {"csrf": f"{csrf}x"})
    operator.decide(decision="discard", trigger="book", id=parked.id, reason="secret-of-the-reason")
    site.browser().sign_in("secret-that-is-wrong")
    site.browser().get("/metrics", authorization="Bearer secret-that-is-wrong")
    site.browser().get("/secret-of-the-path?secret=yes")
    operator.send("/sign-out")
    site.app.state.operations.recorder.close()

    everything = "\n".join(record.to_json() for record in records(site, *SecurityEvent)) + file.read_text()

    assert "order-1" in everything
    assert "secret" not in everything
    assert csrf not in everything
    assert not [token.secret for token in TOKENS.values() if token.secret in everything]


@pytest.mark.parametrize("role", Role)
def test_only_an_administrator_sees_the_page(site: Site, role: Role) -> None:
    browser = site.signed_in(role)

    answer, home = browser.get("/security"), browser.page("/")

    assert answer.status_code == (200 if role is Role.ADMIN else 403)
    assert ("a admin" in answer.text) == (role is Role.ADMIN)
    assert ('href="/security"' in home) == (role is Role.ADMIN)


def test_the_page_filters_by_who_what_and_when(site: Site) -> None:
    site.signed_in(Role.OPERATOR)
    admin = site.signed_in(Role.ADMIN)
    at = records(site, SecurityEvent.SIGN_IN)[0].at.date().isoformat()

    def found(query: str) -> int:
        return admin.page(f"/security?{query}").count("<tr data-row>")

    assert [found("who=OPERATOR"), found("who=nobody"), found("what=sign_in"), found("what=sign_out")] == [
        *(1, 0),
        *(2, 0),
    ]
    assert [
        found(f"since={at}"),
        found(f"until={at}"),
        found("since=2100-01-01"),
        found("until=2001-01-01"),
    ] == [*(2, 2), *(0, 0)]


@pytest.mark.parametrize("query", ["since=x", "until=2026-13-01", "cursor=x", "cursor=x-1"])
def test_the_page_refuses_what_it_cannot_read(site: Site, query: str) -> None:
    assert site.signed_in(Role.ADMIN).get(f"/security?{query}").status_code == 400


def test_the_page_says_which_events_there_are(site: Site) -> None:
    answer = site.signed_in(Role.ADMIN).get("/security?what=sign_inn")

    assert answer.status_code == 404
    assert "sign_in" in answer.text


def test_the_page_goes_on_with_older_records(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "ROWS", 3)
    for _ in range(3):
        site.signed_in(Role.OPERATOR)
    admin = site.signed_in(Role.ADMIN)

    first = admin.page("/security")
    older = first.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&")

    assert first.count("<tr data-row>") == 3
    assert admin.page(older).count("<tr data-row>") == 1


def test_the_page_shows_what_strangers_choose_as_text(site: Site) -> None:
    odd = SecurityRecord(event=SecurityEvent.RUN, outcome=ALLOWED, user="<b>root", by="ana", source="host-1")
    drive(log_of(site).append([odd]))

    html = site.signed_in(Role.ADMIN).page("/security")

    assert "<b>root" not in html
    assert "ana, as <b>root" in text_of(html)
