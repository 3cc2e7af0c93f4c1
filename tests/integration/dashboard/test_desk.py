"""The desk: groups, messages, decisions and their audit trail."""

from datetime import timedelta

import pytest

from history import EntryOutcome, Evidence, ParkedKind, State
from history.beside.journal import JournalLine
from history.bridge import drive
from tests.fixtures.beside import kept_in
from tests.integration.dashboard.browser import Browser, text_of
from tests.integration.dashboard.conftest import Site
from triggers.dashboard.access.roles import Role
from triggers.dashboard.pages.parked import LINES
from triggers.operations.comparing import MOST_COPIES


def test_what_is_parked_stands_in_groups_with_counts_the_largest_first(site: Site, operator: Browser) -> None:
    for number in range(3):
        site.park(f"order-{number}", minutes=number)
    site.park("bad", kind=ParkedKind.REJECTED, reason="it failed", error_class="shop.NoCustomerError")

    html = operator.page("/parked")

    assert html.index("did not finish") < html.index("it failed")
    assert "4 messages wait for a decision" in html
    assert "shop.NoCustomerError" in html


def test_a_group_lists_the_oldest_first_a_page_at_a_time(site: Site, operator: Browser) -> None:
    for number in range(LINES + 1):
        site.park(f"order-{number:03}", minutes=LINES - number)

    key = site.group(operator)
    first, second = (operator.page(f"/group?key={key}&page={page}") for page in (1, 2))

    assert "order-050" in first
    assert "order-000" not in first
    assert "order-000" in second
    assert first.count("data-row") == LINES
    assert second.count("data-row") == 1


def test_a_message_shows_the_question_the_evidence_and_what_it_holds(site: Site, operator: Browser) -> None:
    parked = site.park("order-1", {"id": "N-17"}, error_trace="Traceback\n  line 1")

    text = text_of(operator.page(f"/message?trigger=book&id={parked.id}"))

    assert "Did book happen for order-1?" in text
    assert "on host-1, process 42" in text
    assert "at its delivery number 2" in text
    assert '"id": "N-17"' in text
    assert "STARTED" in text


def test_the_timeline_has_every_fact_that_is_kept_in_order_of_time(site: Site, operator: Browser) -> None:
    parked = site.park("order-1")
    (entry,) = drive(site.store.lookup("book", ["order-1"]))
    assert entry is not None
    lease = timedelta(seconds=30)
    drive(site.store.take_over("book", "order-1", "host-2:7:ab", lease, entry.fence))
    journal = kept_in(site.store).journal
    line = JournalLine(uuid="order-1", verdict="late", reason="its end is not recorded", delivery_count=3)
    drive(journal.append("book", [line]))

    html = operator.page(f"/message?trigger=book&id={parked.id}").split('class="timeline">')[1]

    facts = [
        "an earlier run claimed it",
        "on host-1, process 42",
        "at its delivery number 2",
        "claimed again since",
        "on host-2, process 7, fence",
        "journal: late",
        "its end is not recorded, delivery number 3",
        "its lease ends",
        "the history forgets it",
    ]
    places = [html.find(fact) for fact in facts]
    assert -1 not in places, facts[places.index(-1)]
    assert places == sorted(places)
    assert "heartbeat" in html


def test_the_one_run_of_a_message_that_failed_did_not_claim_it_again(site: Site, operator: Browser) -> None:
    (claim,) = drive(site.store.claim("book", ["order-1"], "host-1:42:a"))
    failed = Evidence(delivery_count=1, fence=claim.fence)
    parked = site.park("order-1", kind=ParkedKind.REJECTED, evidence=failed)

    html = operator.page(f"/message?trigger=book&id={parked.id}").split('class="timeline">')[1]

    assert "claimed" in html
    assert "claimed again" not in html


@pytest.mark.parametrize("word", ["done", "discard", "run"])
def test_a_decision_needs_a_reason(site: Site, operator: Browser, word: str) -> None:
    parked = site.park("order-1")

    answer = operator.send("/decide", decision=word, trigger="book", id=parked.id, reason="  ")

    assert answer.status_code == 422
    assert "Give a reason" in answer.text
    assert site.ids() == [parked.id]


def test_settled_as_done_its_copies_are_duplicates_and_the_audit_trail_says_who_and_why(
    site: Site, operator: Browser
) -> None:
    parked = site.park("order-1")

    job = operator.decide(decision="done", trigger="book", id=parked.id, reason="it is in the ledger")

    (entry,) = drive(site.store.lookup("book", ["order-1"]))
    assert (job.closed, job.left, job.error) == (1, 0, None)
    assert entry is not None
    assert (entry.state, entry.outcome) == (State.COMPLETED, EntryOutcome.OK)
    assert site.ids() == []
    trail = text_of(operator.page("/decisions"))
    assert "a operator" in trail
    assert "it is in the ledger" in trail


def test_nothing_runs_without_the_module_of_its_trigger(site: Site, operator: Browser) -> None:
    parked = site.park("order-1", trigger_name="other")

    page = operator.page(f"/message?trigger=other&id={parked.id}")
    answer = operator.send("/decide", decision="run", trigger="other", id=parked.id, reason="try")

    assert "was started without the module of other" in text_of(page)
    assert (answer.status_code, site.done, site.ids()) == (400, [], [parked.id])


def test_a_group_is_previewed_with_its_count_and_decided_whole(site: Site, operator: Browser) -> None:
    for number in range(5):
        site.park(f"order-{number}", minutes=number)
    key = site.group(operator)

    preview = text_of(operator.page(f"/decide?key={key}&decision=run&all=yes"))
    before = site.ids()
    job = operator.decide(decision="run", key=key, all="yes", reason="none is booked")

    assert "Run 5 messages?" in preview
    assert len(before) == 5
    assert (job.closed, site.ids()) == (5, [])
    assert sorted(site.done) == [f"order-{number}" for number in range(5)]


def test_what_is_parked_after_the_preview_is_not_part_of_the_decision(site: Site, operator: Browser) -> None:
    site.park("order-1")
    key = site.group(operator)
    shown = operator.page(f"/decide?key={key}&decision=discard&all=yes")
    until = shown.split('name="until" value="')[1].split('"')[0]
    late = site.park("order-2", minutes=1)

    job = operator.decide(decision="discard", key=key, all="yes", until=until, reason="old ones")

    assert (job.total, site.ids()) == (1, [late.id])


def test_only_what_is_ticked_is_decided_and_nothing_where_nothing_is(site: Site, operator: Browser) -> None:
    one, two, three = (site.park(f"order-{number}", minutes=number) for number in range(3))
    key = site.group(operator)

    nothing = operator.get(f"/decide?key={key}&decision=discard")
    preview = text_of(operator.page(f"/decide?key={key}&decision=discard&id={one.id}&id={three.id}"))
    operator.decide(decision="discard", key=key, id=[one.id, three.id], reason="copies")

    assert nothing.status_code == 400
    assert "Discard 2 messages?" in preview
    assert site.ids() == [two.id]


def test_one_that_was_parked_again_since_it_was_looked_at_is_left_alone(
    site: Site, operator: Browser
) -> None:
    parked = site.park("order-1")
    site.park("order-1", minutes=5)
    seen = parked.parked_at.isoformat()

    answer = operator.send(
        "/decide", decision="discard", trigger="book", id=parked.id, until=seen, reason="old"
    )

    assert answer.status_code == 400
    assert "parked again since you looked" in text_of(answer.text)
    assert site.ids() == [parked.id]


@pytest.mark.parametrize(
    "asked",
    [
        "/message?trigger=book&id=none",
        "/message",
        "/group?key=none",
        "/decide?decision=run&key=none&all=yes",
        "/decide?decision=burn",
        "/decide?decision=run&key=none&until=yesterday",
        "/decide?decision=run&key=none&shown=few&all=yes",
        f"/decide?decision=run&key=none&shown={'9' * 5_000}&all=yes",
        "/decide?decision=run&key=none&key=other&shown=1&all=yes",
        "/parked?page=0",
        "/parked?page=99999999999",
        "/parked?page=-1",
        "/job?key=none",
    ],
)
def test_an_address_that_leads_nowhere_says_so(site: Site, operator: Browser, asked: str) -> None:
    site.park("order-1")

    assert operator.get(asked).status_code < 500


def copies(site: Site, *bodies: object) -> list[str]:
    """Park copies of one uuid, and return their ids."""
    return [
        site.park("order-1", body, minutes=number, id=f"{number:024x}").id
        for number, body in enumerate(bodies)
    ]


def diff_of(page: str) -> str:
    """Return the text of the difference on a page, without HTML tags."""
    return text_of(page.split('class="diff"')[1].partition("</pre>")[0])


def test_copies_of_one_uuid_with_different_bodies_are_compared(site: Site, operator: Browser) -> None:
    first, later = copies(site, {"id": "order-1", "qty": 2}, {"qty": "<b>3", "id": "order-1"})

    pages = [operator.page(f"/message?trigger=book&id={id_}") for id_ in (first, later)]

    for page in pages:
        shown = diff_of(page)
        assert '\n -  "qty": 2' in shown
        assert '\n +  "qty": "<b>3"' in shown
        assert '\n -  "id"' not in shown
        assert "<b>3" not in page
    assert f"id={later}" in pages[0]


def test_only_some_of_many_copies_are_compared(site: Site, operator: Browser) -> None:
    first, *others = copies(site, *({"qty": number} for number in range(MOST_COPIES + 3)))

    page = operator.page(f"/message?trigger=book&id={first}")

    assert page.count('class="diff"') == MOST_COPIES
    assert f"{len(others) - MOST_COPIES} more copies" in page


def test_a_copy_that_differs_only_in_its_properties_or_is_too_large_has_no_difference(
    site: Site, operator: Browser
) -> None:
    first, *_ = copies(site, {"id": "order-1"}, {"id": "order-1"}, "x" * 70_000)

    page = operator.page(f"/message?trigger=book&id={first}")

    assert 'class="diff"' not in page
    assert page.count("<h2>Compared") == 2


def test_a_role_that_sees_no_bodies_sees_no_difference(site: Site) -> None:
    first, _ = copies(site, {"qty": "first-secret"}, {"qty": "later-secret"})

    page = site.signed_in(Role.VIEWER).page(f"/message?trigger=book&id={first}")

    assert "secret" not in page
    assert "Compared" not in page


def test_a_message_without_other_copies_is_compared_with_nothing(site: Site, operator: Browser) -> None:
    alone = site.park("order-1")
    site.park("order-2")

    assert "Compared" not in operator.page(f"/message?trigger=book&id={alone.id}")
