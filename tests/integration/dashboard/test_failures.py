"""The page Failures shows which triggers fail, and why."""

from history.beside.journal import JournalLine
from history.bridge import drive
from history.store import Counts, ParkedKind, Report
from tests.fixtures.beside import kept_in
from tests.integration.dashboard.browser import text_of
from tests.integration.dashboard.conftest import Site
from triggers.dashboard import Role

HOSTILE = "<script>alert(1)</script>"


def count(site: Site, trigger: str, **counts: int) -> None:
    report = Report(consumer="c-1", trigger=trigger, counts=Counts(**counts))
    drive(site.store.control.beat("token-1", [report]))


def write(site: Site, trigger: str, *lines: JournalLine) -> None:
    journal = kept_in(site.store).journal
    for line in lines:
        drive(journal.append(trigger, [line]))


def test_nothing_failed_is_said(site: Site) -> None:
    count(site, "book", new=5, runs=5)

    page = text_of(site.signed_in(Role.OPERATOR).page("/failures"))

    assert "Nothing has failed." in page
    assert "No message that was given up is parked." in page
    assert "journal=" in page


def test_what_failed_is_counted_with_its_share_of_all_runs(site: Site) -> None:
    count(site, "book", new=80, runs=100, failed=5, retried=20, rejected=3)
    count(site, "ship", new=9, runs=9)

    page = text_of(site.signed_in(Role.OPERATOR).page("/failures"))

    assert "25.0%" in page
    assert "ship" not in page


def test_causes_are_those_of_what_was_given_up(site: Site) -> None:
    site.park("doubtful")
    for number in range(2):
        site.park(
            f"failed-{number}",
            kind=ParkedKind.REJECTED,
            reason="the service failed for good",
            error_class="shop.NoSuchCustomerError",
            error_message=HOSTILE,
        )

    page = site.signed_in(Role.OPERATOR).page("/failures")

    assert "shop.NoSuchCustomerError" in page
    assert "an earlier run started" not in page
    assert HOSTILE in text_of(page)
    assert HOSTILE not in page


def test_the_journals_of_all_triggers_are_one_list_the_newest_first(site: Site) -> None:
    count(site, "book", new=1)
    count(site, "ship", new=1)
    write(site, "book", JournalLine(uuid="u-1", verdict="duplicate", reason="it ran"))
    write(site, "ship", JournalLine(uuid=None, verdict="rejected", reason=HOSTILE))
    write(site, "book", JournalLine(uuid="u-2", verdict="given up", reason="no such customer"))
    browser = site.signed_in(Role.OPERATOR)

    page = browser.page("/failures")
    one = text_of(browser.page("/failures?trigger=ship"))

    words = text_of(page)
    assert words.index("no such customer") < words.index("alert(1)") < words.index("it ran")
    assert HOSTILE not in page
    assert "it ran" not in one
    assert "alert(1)" in one


def test_one_leafs_through_a_long_journal(site: Site) -> None:
    count(site, "book", new=1)
    write(
        site,
        "book",
        *(JournalLine(uuid=f"u-{n}", verdict="duplicate", reason=f"line {n};") for n in range(60)),
    )
    browser = site.signed_in(Role.OPERATOR)

    first, second = (text_of(browser.page(f"/failures?page={page}")) for page in (1, 2))

    assert "line 59;" in first
    assert "line 10;" in first
    assert "line 9;" not in first
    assert "line 9;" in second
    assert "line 0;" in second
