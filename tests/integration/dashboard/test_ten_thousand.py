"""Ten thousand parked messages of three causes: found, run at a pace, cancelled, continued and exported."""

import json
import re
from collections import Counter
from datetime import timedelta

import pytest

from history.beside.security import SecurityEvent
from history.bridge import drive
from history.message import Message
from history.store.parking import Parked, ParkedKind, parked_id
from tests.fixtures.beside import kept_in
from tests.fixtures.waiting import eventually
from tests.integration.dashboard.browser import Browser
from tests.integration.dashboard.clicking import Person
from tests.integration.dashboard.conftest import NOON, Site
from triggers.operations.decisions import decision_rows

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
    """Look for who did what, and what came of each message."""
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
