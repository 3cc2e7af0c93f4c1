"""Groups of parked messages: by cause, even if its text differs between messages, and by host."""

import gc
import random
from datetime import timedelta

import pytest

from history.store.parking import Evidence, ParkedKind, ParkedLabel
from tests.integration.dashboard.browser import Browser, keys_of, text_of
from tests.integration.dashboard.conftest import NOON, Site
from triggers.dashboard import groups
from triggers.dashboard.groups import MOST_TEXTS, Counting, cause_of
from triggers.dashboard.pages.failures import CAUSES

STARTED = "IN DOUBT: an earlier run did not finish; parked"


@pytest.mark.parametrize(
    "differing",
    [
        "its fingerprint is {number:032x}, and that of the first body 00ff{number}",
        "resolver: order {number} of 'customer {number}' is not booked",
        "host-1:{number}:ab lost the fence {number} to host-2:{number}:cd: its end is not recorded",
        'no answer to "{number}" of 3f2504e0-4f89-11d3-9a0c-0305e82c33{number:02d} in time',
    ],
)
def test_what_differs_from_message_to_message_makes_no_groups(
    site: Site, operator: Browser, differing: str
) -> None:
    for number in range(10, 15):
        reason = f"{STARTED}; {differing.format(number=number)} (row 10)"
        site.park(f"order-{number}", reason=reason, minutes=number)

    page = operator.page("/parked")

    assert len(keys_of(page)) == 1
    assert "(row 10)" in page
    assert "order-10" in text_of(page), "one stands for all"


def test_one_row_with_more_texts_than_somebody_reads_is_one_group(site: Site, operator: Browser) -> None:
    for number in range(MOST_TEXTS + 1):
        customer = "abcdefghijklmnopqrstuvwxyz"[number] * 3
        site.park(f"order-{number}", reason=f"{STARTED}; resolver: {customer} has none (row 11)")
    site.park("order-99", reason=f"{STARTED} (row 10)")

    page = operator.page("/parked")

    assert len(keys_of(page)) == 2
    assert f"{STARTED}; …" in text_of(page)


def test_texts_that_say_different_things_are_different_groups(site: Site, operator: Browser) -> None:
    site.park("order-1", reason=f"{STARTED}; resolver: the ledger is closed (row 11)")
    site.park("order-2", reason=f"{STARTED}; resolver: the customer is unknown (row 11)")
    site.park("order-3", reason=f"{STARTED}; resolver: the customer is unknown (row 10)")

    assert len(keys_of(operator.page("/parked"))) == 3


def test_two_places_with_the_same_class_of_error_are_two_groups(site: Site, operator: Browser) -> None:
    places = ("shop/orders.py:7 in book", "shop/orders.py:9 in book", None)
    for number in range(6):
        site.park(
            f"order-{number}",
            kind=ParkedKind.REJECTED,
            reason=f"FAILED: order {number} has no price; parked (row 7)",
            error_class="shop.NoPriceError",
            error_message=f"order {number} has no price",
            error_place=places[number % 3],
        )

    desk, filtered = operator.page("/parked"), operator.page("/parked?error=orders.py:9")
    pages = [operator.page(f"/group?key={key}") for key in keys_of(desk)]

    assert len(keys_of(desk)) == len(places)
    assert len(keys_of(filtered)) == 1
    for place, first, second in (("py:7", 0, 3), ("py:9", 1, 4), (" at ", 2, 5)):
        (page,) = (one for one in map(text_of, pages) if f"order-{first}" in one)
        assert f"order-{second}" in page, "numbers in a text make no groups"
        assert "2 messages" in page
        assert (f"shop/orders.{place} in book" in page) == (place != " at ")
    for shown in (text_of(desk), operator.page(f"/message?trigger=book&id={site.ids()[0]}")):
        assert places[0] in shown


def test_a_group_shows_why_each_of_its_messages_is_there(site: Site, operator: Browser) -> None:
    for number in range(2):
        site.park(f"order-{number}", reason=f"{STARTED}; resolver: seen {number} times (row 11)")

    group = text_of(operator.page(f"/group?key={site.group(operator)}"))

    assert "resolver: seen … times (row 11)" in group
    assert "seen 0 times" in group
    assert "seen 1 times" in group


@pytest.mark.parametrize("reason", ["", "(row 7)", "'" * 500, '"' * 499, "7" * 500, "x" * 500, " " * 500])
def test_any_text_is_a_cause(reason: str) -> None:
    assert cause_of(reason) == cause_of(reason)


def test_causes_are_shown_a_page_at_a_time_and_the_journal_has_its_own(site: Site, operator: Browser) -> None:
    for number in range(CAUSES + 1):
        error = f"shop.Problem{number}Error"
        site.park(f"bad-{number}", kind=ParkedKind.REJECTED, reason="it failed (row 7)", error_class=error)

    first, second = (operator.page(f"/failures?causes={page}") for page in (1, 2))

    assert len(keys_of(first)) == CAUSES
    assert len(keys_of(second)) == 1
    assert "causes=2" in first


def label(number: int) -> ParkedLabel:
    """Return one of many labels. Each label has a different reason."""
    customer = str(number).translate(str.maketrans("0123456789", "aeioulmnrs"))
    return ParkedLabel(
        id=f"{number:024x}",
        trigger_name="book",
        kind=ParkedKind.IN_DOUBT,
        reason=f"{STARTED}; resolver: {customer} has none (row 11)",
        evidence=Evidence(owner=f"host-{number % 3}:1:2"),
        parked_at=NOON + timedelta(seconds=number),
    )


def test_the_oldest_are_first_however_many_are_sorted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "SORTED", 3)
    rests: list[str] = []
    counting = Counting(lambda: rests.append("a rest"))
    numbers = random.sample(range(100), 32)
    for number in numbers:
        counting.add(label(number))

    (group,) = counting.by_cause()

    assert [line.uuid or int(line.id, 16) for line in group.lines] == sorted(numbers)
    assert (group.count, group.oldest) == (32, NOON + timedelta(seconds=min(numbers)))
    assert group.reason == f"{STARTED}; … (row 11)"
    assert [line.id for line in group.choose({f"{max(numbers):024x}"}, None)] == [f"{max(numbers):024x}"]
    assert len(rests) == 11 + 10, "before each piece, and before two are put together"


def test_counting_leaves_little_for_the_garbage_collector_which_all_pages_wait_for() -> None:
    many = [label(number) for number in range(3_000)]
    cause_of.cache_clear()
    gc.collect()
    before = len(gc.get_objects())

    counting = Counting()
    for one in many:
        counting.add(one)
    found = counting.by_cause(), counting.by_host()
    gc.collect()

    remembered = cause_of.cache_info().currsize
    assert sum(len(group.lines) for group in (*found[0], *found[1])) == 2 * len(many)
    assert len(gc.get_objects()) - before - remembered < len(many) / 10
