"""Queries of Spark and their batches, in the dashboard."""

from datetime import timedelta

from history.beside.progress import begin, change
from history.bridge import drive
from history.store.progress import BatchState, Beginning
from tests.integration.dashboard.browser import text_of
from tests.integration.dashboard.conftest import NOON, Site
from triggers.dashboard import Role

HOSTILE = "<img src=x>&trigger=other"


def run(site: Site, query: str, batch: int, token: str, *, ended: BatchState | None = None) -> None:
    """Begin a run of a batch, and end it after two seconds."""
    beginning = Beginning(query=query, batch=batch, lineage="checkpoint-1", run=token)
    record = drive(begin(site.store.progress, "load", beginning, NOON + timedelta(minutes=batch)))
    if ended is not None:
        at = record.started_at + timedelta(seconds=2)
        drive(change(site.store.progress, "load", record, BatchState.RUNNING, at))
        drive(
            change(
                site.store.progress, "load", record, ended, at, {"rows": 1200, "new": 1000, "duplicate": 200}
            )
        )


def known(site: Site) -> None:
    """Make the trigger known to the history by a claim."""
    drive(site.store.claim("load", ["u-1"], "somebody"))


def test_each_query_is_shown_with_its_last_batch(site: Site) -> None:
    known(site)
    run(site, "orders", 0, "a", ended=BatchState.COMPLETED)
    run(site, "orders", 1, "b", ended=BatchState.COMPLETED)
    run(site, HOSTILE, 7, "c")

    page = site.signed_in(Role.VIEWER).page("/spark")

    rows = [text_of(row).split() for row in page.split("<tr data-row>")[1:]]
    assert rows[1][:8] == ["orders", "load", "1", "completed", "1", "1,200", "1,000", "200"]
    assert "2.00" in rows[1]
    assert "claiming" in rows[0]
    assert "<img" not in page


def test_a_batch_that_spark_replayed_shows_its_runs(site: Site) -> None:
    known(site)
    run(site, HOSTILE, 3, "a")
    run(site, HOSTILE, 3, "b", ended=BatchState.FAILED)
    run(site, HOSTILE, 4, "c", ended=BatchState.COMPLETED)
    browser = site.signed_in(Role.VIEWER)
    link = browser.page("/spark").split('href="/query?')[1].split('"')[0].replace("&amp;", "&")

    page = browser.page(f"/query?{link}")

    rows = [text_of(row).split() for row in page.split("<tr data-row>")[1:]]
    assert [row[:3] for row in rows] == [["4", "completed", "1"], ["3", "failed", "2"]]
    assert "checkpoint-1" in page


def test_an_unknown_query_and_a_history_without_spark_are_said(site: Site) -> None:
    browser = site.signed_in(Role.VIEWER)

    assert "No query of Spark" in text_of(browser.page("/spark"))
    assert "knows no batch" in text_of(browser.page("/query?trigger=x&query=y"))
