"""The owner's token shows which run owns the entry of a row."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from history.entry import Entry, EntryOutcome, Fence, State
from history.store import BatchOwner
from triggers.spark.batch.owners import BatchRun

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = BatchRun(lineage="a/b", batch=7, token="now", unentered=frozenset({"dead"}))  # noqa: S106


def entry(owner: str | None, *, batch: bool = True) -> Entry:
    return Entry(
        state=State.STARTED,
        fence=Fence(1),
        started_at=NOW,
        expires_at=NOW + timedelta(days=7),
        read_at=NOW,
        owner=owner,
        batch=batch,
    )


@pytest.mark.parametrize(
    ("owner", "replayed", "never_ran"),
    [
        ("a%2Fb/7/dead", True, True),
        ("a%2Fb/7/dead+", True, True),
        ("a%2Fb/7/entered", True, False),
        ("a%2Fb/7/now", False, False),
        ("a%2Fb/7/now+", False, False),
        ("a%2Fb/8/dead", False, False),
        ("a%2Fb/77/dead", False, False),
        ("a/b/7/dead", False, False),
        (None, False, False),
    ],
)
def test_only_earlier_runs_of_the_same_batch_are_replays(
    owner: str | None, *, replayed: bool, never_ran: bool
) -> None:
    found = entry(owner)

    assert (RUN.is_replayed(found), RUN.never_ran(found)) == (replayed, never_ran)


@pytest.mark.parametrize(
    ("owner", "never_ran"),
    [
        ("a%2Fb/7/line.any", True),
        ("a%2Fb/7/line.any+", True),
        ("a%2Fb/7/line.entered", False),
        ("a%2Fb/7/line.entered+", False),
        ("a%2Fb/7/line.now", False),
        ("a%2Fb/7/another.any", False),
        ("a%2Fb/7/another.dead", True),
        ("a%2Fb/7/any", False),
    ],
)
def test_of_a_line_all_runs_are_known_that_entered(owner: str, *, never_ran: bool) -> None:
    run = replace(RUN, line="line", entered=frozenset({"entered"}))

    assert run.never_ran(entry(owner)) is never_ran


def test_what_an_abandoned_batch_never_ran_never_ran() -> None:
    old = BatchRun(lineage="old", batch=40, token="fence", line="line", entered=frozenset({"entered"}))  # noqa: S106
    run = replace(RUN, abandoned=(old,))

    assert run.never_ran(entry("old/40/line.dead"))
    assert not run.never_ran(entry("old/40/line.entered"))
    assert not run.never_ran(entry("old/41/line.dead"))
    assert not run.is_replayed(entry("old/40/line.dead"))


def test_what_is_completed_or_no_batch_s_is_no_replay() -> None:
    done = replace(entry("a%2Fb/7/dead"), state=State.COMPLETED, outcome=EntryOutcome.OK)

    assert not RUN.is_replayed(done)
    assert not RUN.is_replayed(entry("a%2Fb/7/dead", batch=False))


def test_both_owners_of_a_run_are_told_from_each_other() -> None:
    assert BatchOwner("a%2Fb/7/now") == RUN.owner
    assert BatchOwner("a%2Fb/7/now+") == RUN.resolved_owner


def test_a_lease_that_an_earlier_run_of_the_batch_has_left_is_nobody_s() -> None:
    lease_until = NOW + timedelta(hours=1)
    earlier = replace(entry("a%2Fb/7/entered+"), lease_until=lease_until)
    others = replace(entry("worker-1", batch=False), lease_until=lease_until)

    assert RUN.as_found(earlier) == replace(earlier, lease_until=None)
    assert RUN.as_found(others) is others
    assert RUN.as_found(None) is None


@pytest.mark.parametrize("part", ["", "+"])
def test_of_two_batches_exactly_one_gives_way_to_the_other(part: str) -> None:
    first, second = replace(RUN, lineage="a"), replace(RUN, lineage="z")

    assert second.gives_way_to(entry(first.owner.token + part))
    assert not first.gives_way_to(entry(second.owner.token + part))
    assert not second.gives_way_to(entry("a worker that runs a single message", batch=False))
