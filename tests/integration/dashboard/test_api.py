"""The desk for programs: list, show and decide with a token in a header, by the rules of the pages."""

import json
from typing import Any

import httpx
import pytest

from history.beside.security import SecurityEvent
from history.bridge import drive
from tests.fixtures.beside import kept_in
from tests.fixtures.waiting import eventually
from tests.integration.dashboard.browser import Browser
from tests.integration.dashboard.conftest import TOKENS, Site
from triggers.dashboard import Role
from triggers.dashboard.api.routes import OPERATIONS

CARD = "card 4711"


def bearer(role: Role = Role.OPERATOR) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[role].secret}"}


def asked(site: Site, path: str, role: Role = Role.OPERATOR) -> httpx.Response:
    return site.browser().get(path, **bearer(role))


def decided(browser: Browser, role: Role = Role.OPERATOR, **fields: str) -> httpx.Response:
    return browser.post("/api/decide", fields, headers=bearer(role))


def job_of(browser: Browser, answer: httpx.Response) -> dict[str, Any]:
    """Follow the answer to a decision until it is carried out."""
    assert answer.status_code == 303, answer.text
    found: dict[str, Any] = {}

    def ended() -> bool:
        found.update(browser.get(answer.headers["location"], **bearer()).json())
        return bool(found["finished"])

    assert eventually(ended)
    return found


def test_messages_are_listed_and_shown(site: Site) -> None:
    parked = site.park("order-1", {"id": CARD})

    listed = [json.loads(line) for line in asked(site, "/api/parked?trigger=book").text.splitlines()]
    shown = asked(site, f"/api/message?trigger=book&id={parked.id}").json()

    assert [row["uuid"] for row in listed] == ["order-1"]
    assert (shown["body"], shown["decisions"]) == ({"id": CARD}, ["run", "done", "discard"])
    assert shown["decided"] == []


def test_who_sees_no_bodies_gets_none(site: Site) -> None:
    parked = site.park("order-1", {"id": CARD}, error_message=CARD, reason=f"FAILED: {CARD} (row 7)")

    listed = asked(site, "/api/parked", Role.VIEWER).text
    shown = asked(site, f"/api/message?trigger=book&id={parked.id}", Role.VIEWER)

    assert CARD not in listed + shown.text
    assert shown.json()["decisions"] == []


@pytest.mark.parametrize(("word", "ran"), [("run", ["order-1"]), ("done", []), ("discard", [])])
def test_a_decision_is_carried_out_and_recorded_as_one_of_a_page(
    site: Site, word: str, ran: list[str]
) -> None:
    parked, browser = site.park("order-1"), site.browser()

    answer = decided(browser, decision=word, trigger="book", id=parked.id, reason="I have looked")
    job = job_of(browser, answer)

    assert (job["total"], job["closed"], job["left"], job["error"]) == (1, 1, 0, None)
    assert (site.ids(), site.done) == ([], ran)
    (record, *_) = drive(site.store.parking.decisions("book")).records[::-1]
    assert (record.by, record.reason) == ("a operator", "I have looked")
    log = kept_in(site.store).security_log
    kept = [(one.event, one.user) for one in drive(log.read(limit=10)).records]
    assert (SecurityEvent(word), "a operator") in kept


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"decision": "discard", "reason": ""}, 422),
        ({"decision": "burn", "reason": "x"}, 400),
        ({"decision": "discard", "reason": "x", "id": "none"}, 409),
    ],
)
def test_a_decision_that_is_refused_says_why_as_json(site: Site, fields: dict[str, str], status: int) -> None:
    parked = site.park("order-1")

    answer = decided(site.browser(), Role.OPERATOR, **{"trigger": "book", "id": parked.id, **fields})

    assert answer.status_code == status
    assert set(answer.json()) == {"title", "text"}
    assert site.ids() == [parked.id]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_session_or_a_wrong_token_opens_nothing(site: Site, operator: Browser, method: str) -> None:
    parked = site.park("order-1")
    fields = {"decision": "discard", "trigger": "book", "id": parked.id, "reason": "x"}
    fields["csrf"] = operator.csrf()
    wrong = {"Authorization": "Bearer wrong"}
    paths = [one.path for one in OPERATIONS if one.method == method]

    def statuses(headers: dict[str, str]) -> set[int]:
        if method == "GET":
            return {operator.get(path, **headers).status_code for path in paths}
        return {operator.post(path, fields, headers=headers).status_code for path in paths}

    assert statuses({}) == {401}
    assert statuses(wrong) <= {401, 429}  # after some wrong tokens, their sender must wait
    assert site.ids() == [parked.id]


def test_programs_with_wrong_tokens_must_wait(site: Site) -> None:
    browser = site.browser()

    answers = [browser.get("/api/parked", Authorization="Bearer wrong") for _ in range(10)]

    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) > 0


@pytest.mark.parametrize("path", ["/api/message?trigger=book&id=none", "/api/job?key=none"])
def test_what_is_not_there_is_not_found(site: Site, path: str) -> None:
    site.park("order-1")

    assert asked(site, path).status_code == 404
