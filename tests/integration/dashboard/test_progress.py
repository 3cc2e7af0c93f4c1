"""Decisions about many messages: their pace, cancelling and continuing them, and ten thousand messages."""

import json
import re
from collections import Counter
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from history import open_history
from history.beside.kept import needed_beside
from history.beside.security import SecurityEvent
from history.bridge import drive
from history.message import Message
from history.store.parking import Parked, ParkedKind, parked_id
from tests.fixtures.beside import kept_in
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.dashboard.browser import Browser, text_of
from tests.integration.dashboard.clicking import Person
from tests.integration.dashboard.conftest import NOON, Order, Site
from tests.integration.dashboard.test_api import bearer
from triggers import trigger
from triggers.dashboard import Role
from triggers.dashboard.jobs.job import DecisionJob
from triggers.operations.decisions import decision_rows
from triggers.testing.redis_server import RedisServer

MESSAGES = 100


def begin(site: Site, browser: Browser, **more: str) -> DecisionJob:
    """Start a run of all parked messages, and do not wait for its end."""
    key = site.group(browser)
    answer = browser.send("/decide", decision="run", key=key, all="yes", reason="the cause is fixed", **more)
    return job_of(site, answer.headers["location"])


def job_of(site: Site, location: str) -> DecisionJob:
    (key,) = parse_qs(urlsplit(location).query)["key"]
    found = site.app.state.operations.jobs.find(key)
    assert isinstance(found, DecisionJob)
    return found


def test_a_run_is_paced_cancelled_and_continued_and_nothing_runs_twice(site: Site, operator: Browser) -> None:
    for number in range(MESSAGES):
        site.park(f"order-{number:03}")
    job = begin(site, operator, rate="1")
    eventually(lambda: job.closed >= 3)

    assert operator.send("/cancel", key=job.key).status_code == 303
    assert job.finished.wait(PATIENCE)
    ran = job.closed
    assert 3 <= ran < MESSAGES
    assert len(job.rest) == MESSAGES - ran == len(site.ids())
    assert len(site.done) == ran
    times = [record.at for record in drive(site.store.parking.decisions("book")).records]
    assert max(times) - min(times) >= timedelta(seconds=ran - 1)
    page = text_of(operator.page(f"/job?key={job.key}"))
    assert "a operator cancelled it" in page
    assert f"The other {MESSAGES - ran} have not run, and stay parked." in page

    admin = site.signed_in(Role.ADMIN)
    job.pace = None
    other = job_of(site, admin.send("/continue", key=job.key).headers["location"])
    assert admin.send("/continue", key=job.key).status_code == 409
    assert other.finished.wait(PATIENCE)
    assert Counter(site.done) == Counter(f"order-{number:03}" for number in range(MESSAGES))
    assert site.ids() == []
    rows = list(decision_rows(site.store.parking, "book"))
    assert [(row["by"], row["reason"]) for row in rows] == [
        ("a admin", "the cause is fixed"),
        ("a operator", "the cause is fixed"),
    ]
    outcomes = Counter(message["outcome"] for message in rows[1]["messages"])
    assert outcomes["it ran, and completed"] == ran
    assert set(outcomes) == {"it ran, and completed", "not run: a operator cancelled it"}
    log = kept_in(site.store).security_log
    events = Counter((one.event, one.user) for one in drive(log.read()).records)
    assert (events[SecurityEvent.CANCEL, "a operator"], events[SecurityEvent.RUN, "a admin"]) == (1, 1)


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_many_messages_are_run_over_the_same_connections(private_redis: RedisServer, kind: str) -> None:
    site = Site(private_redis.url, needed_beside(open_history(private_redis.url), "history", "messages"))

    if kind == "function":

        @trigger("orders", name="book")
        def book(order: Order) -> None:
            site.done.append(order.id)

        site.serve([book])
    else:

        @trigger("orders", name="book")
        async def abook(order: Order) -> None:
            site.done.append(order.id)

        site.serve([abook])
    for number in range(MESSAGES):
        site.park(f"order-{number:03}")
    operator = site.signed_in(Role.OPERATOR)
    with connected(private_redis.url) as client:
        before = client.info("stats")["total_connections_received"]

        for _ in range(2):  # the second job runs after the connections of the first are closed
            begin(site, operator).finished.wait(PATIENCE)
            site.park("order-again")

        made = client.info("stats")["total_connections_received"] - before
    operator.close()
    site.app.state.operations.close()
    drive(site.store.close())
    assert len(site.done) == len(set(site.done)) == MESSAGES + 1
    assert made < MESSAGES / 2


@pytest.mark.parametrize("rate", ["0", "fast", "-1", "nan", "1e9"])
def test_a_pace_that_cannot_be_kept_is_refused(site: Site, operator: Browser, rate: str) -> None:
    site.park("order-1")

    answer = operator.send(
        "/decide", decision="run", key=site.group(operator), all="yes", reason="so", rate=rate
    )

    assert answer.status_code == 400
    assert "rate: " in answer.text
    assert site.done == []


def test_an_ended_decision_has_nothing_to_cancel(site: Site, operator: Browser) -> None:
    site.park("order-1")
    job = begin(site, operator)
    assert job.finished.wait(PATIENCE)

    assert operator.send("/cancel", key=job.key).status_code == 409
    assert operator.send("/continue", key=job.key).status_code == 409


def test_a_program_cancels_and_continues(site: Site) -> None:
    for number in range(MESSAGES):
        site.park(f"order-{number:03}")
    browser = site.browser()
    (one, *_) = browser.get("/api/parked", **bearer()).text.splitlines()
    assert json.loads(one)["trigger"] == "book"
    key = site.group(site.signed_in(Role.OPERATOR))
    told = {"decision": "run", "key": key, "all": "yes", "reason": "so", "rate": "20"}
    begun = browser.post("/api/decide", told, headers=bearer())
    job = job_of(site, begun.headers["location"])
    cancelled = browser.post("/api/cancel", {"key": job.key}, headers=bearer())
    assert job.finished.wait(PATIENCE)

    facts = browser.get(cancelled.headers["location"], **bearer()).json()

    assert (facts["cancelled_by"], facts["rate"], facts["rest"]) == ("a operator", 20, len(job.rest))


#: How many messages each cause has.
CAUSES = {"NoPriceError": 2_000, "BankAwayError": 5_000, "NoCustomerError": 3_000}


#: The pace, in messages a second.
RATE = 100


MOST_CLICKS = 9


def park_all(site: Site) -> None:
    number, parked = 0, list[Parked]()
    for error, count in CAUSES.items():
        for _ in range(count):
            number += 1
            message = Message(body={"id": f"order-{number:05}"}, uuid=f"order-{number:05}")
            parked.append(
                Parked(
                    id=parked_id("book", message),
                    trigger_name="book",
                    kind=ParkedKind.REJECTED,
                    reason=f"FAILED: {error}: order {number}; parked (row 7)",
                    uuid=message.uuid,
                    destination="orders",
                    message=message,
                    error_class=f"shop.{error}",
                    error_message=f"order {number}",
                    parked_at=NOON + timedelta(seconds=number),
                )
            )
    for start in range(0, len(parked), 500):
        drive(site.store.parking.park(parked[start : start + 500]))


@pytest.mark.prove
def test_ten_thousand_parked_messages_take_less_than_ten_clicks(site: Site, operator: Browser) -> None:
    park_all(site)
    count = CAUSES["NoPriceError"]
    ann = Person(operator)

    ann.follow("Parked messages")
    for error, parked in CAUSES.items():
        assert re.search(rf"{parked:,} book rejected shop\.{error} ", ann.text), ann.text
    ann.press("Search", error="NoPrice")
    ann.follow("book", containing="/group")
    ann.press(f"all {count:,}", decision="run")
    ann.press("Run", reason="the price list is back", rate=str(RATE))
    eventually(lambda: len(site.done) >= count // 2)
    ann.press("Cancel")
    ann.wait_for("have not run, and stay parked")
    half = len(site.done)
    assert count // 2 <= half < count
    ann.press("Run the other")
    ann.wait_for("It is carried out.")
    ann.follow("Parked messages")
    ann.follow("JSON lines")

    exported = [json.loads(line) for line in ann.html.splitlines()]
    assert len(ann.clicks) <= MOST_CLICKS, ann.clicks
    assert Counter(row["error_class"] for row in exported) == {
        f"shop.{error}": parked for error, parked in CAUSES.items() if error != "NoPriceError"
    }
    assert Counter(site.done) == Counter(f"order-{number:05}" for number in range(1, count + 1))
    check_pace(site, half, count)
    check_audit(site, half, count)


def check_pace(site: Site, half: int, count: int) -> None:
    """Compare the duration of both decisions, by the clock of the history, with their pace."""
    records = [*drive(site.store.parking.decisions("book", limit=10_000)).records][::-1]
    begun = [one for one in records if one.outcome_of is None]
    heads = list(dict.fromkeys(one.token.partition("/")[0] for one in begun))
    assert len(heads) == 2
    for head, ran in zip(heads, (half, count - half), strict=True):
        mine = [one.at for one in records if one.token.partition("/")[0] == head]
        shortest = timedelta(seconds=(ran - 1) / RATE)
        assert max(mine) - min(mine) >= shortest


def check_audit(site: Site, half: int, count: int) -> None:
    """Check who did what, and the outcome of each message."""
    later, first = decision_rows(site.store.parking, "book")
    assert {(row["by"], row["reason"]) for row in (first, later)} == {
        ("a operator", "the price list is back")
    }
    outcomes = Counter(message["outcome"] for message in first["messages"])
    assert outcomes["it ran, and completed"] == half
    assert outcomes.keys() <= {"it ran, and completed", "not run: a operator cancelled it"}
    assert Counter(message["outcome"] for message in later["messages"]) == {
        "it ran, and completed": count - half
    }
    log = kept_in(site.store).security_log
    events = Counter((one.event, one.user) for one in drive(log.read()).records)
    who = "a operator"
    assert events[SecurityEvent.RUN, who] == 2
    assert events[SecurityEvent.CANCEL, who] == events[SecurityEvent.EXPORT, who] == 1
