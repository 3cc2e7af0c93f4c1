"""Each partition's task claims rows as its own owner, and one copy of a row is NEW; without Spark."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
import pytest

from history import Entry, EntryOutcome, MemoryHistory, State
from history.bridge import drive
from history.store import BatchOwner
from tests.fixtures.threads import in_threads
from triggers.detection.table import Policy
from triggers.spark.batch.claims import bulk
from triggers.spark.batch.claims.bulk import BulkClaim
from triggers.spark.batch.claims.findings import AGAIN, RowVerdict
from triggers.spark.batch.claims.verdicts import ClaimTerms
from triggers.spark.batch.owners import BatchRun

_arrow: Any = pa

NEW, COPY, ADOPTED = int(RowVerdict.NEW), int(RowVerdict.NEW) + AGAIN, int(RowVerdict.ADOPTED)
DUPLICATE, ASIDE = int(RowVerdict.DUPLICATE), int(RowVerdict.ASIDE)

RUN = BatchRun(lineage="q", batch=7, token="run", line="line", partitions=3)  # noqa: S106  (of a run)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryHistory:
    made = MemoryHistory()

    def at(_url: str) -> MemoryHistory:
        return made

    monkeypatch.setattr(bulk, "history_at", at)
    return made


def task(
    partition: int,
    rows: Sequence[str | None],
    *,
    sizes: Sequence[int] = (),
    run: BatchRun = RUN,
    executes: bool = False,
) -> list[int]:
    """Compute a partition with rows in pieces of these sizes; return its verdicts."""
    terms = ClaimTerms(policy=Policy(), asks=False, asks_replayed=False, executes_replayed=executes)
    claim = BulkClaim(
        url="memory:",
        trigger="book",
        time_to_live=timedelta(days=1),
        lease=timedelta(minutes=1),
        patience=timedelta(0),
        table=terms.table(),
        executes_replayed=executes,
        run=run,
        closes=False,
    )

    def batches() -> Iterator[tuple[Any, ...]]:
        start = 0
        for size in sizes or [len(rows)]:
            piece = rows[start : start + size]
            start += size
            yield _arrow.array(piece, _arrow.string()), _arrow.array([partition] * len(piece), _arrow.int32())

    return [int(one) for one in np.concatenate(list(claim.own_verdicts(batches())))]


@pytest.mark.parametrize("sizes", [[7], [1] * 7, [2, 0, 3, 2], [6, 1]])
def test_of_copies_in_a_partition_the_first_is_new(store: MemoryHistory, sizes: list[int]) -> None:
    rows = ["b", "a", "b", None, "c", "a", "b"]

    assert task(0, rows, sizes=sizes) == [NEW, NEW, COPY, ASIDE, NEW, COPY, COPY]


def test_of_copies_in_several_partitions_the_one_that_is_claimed_first_is_new(store: MemoryHistory) -> None:
    assert task(1, ["a", "b", "a"]) == [NEW, NEW, COPY]
    assert task(0, ["b", "c", "c", "b"]) == [DUPLICATE, NEW, COPY, DUPLICATE + AGAIN]
    assert task(2, ["c", "a"], sizes=[1, 1]) == [DUPLICATE, DUPLICATE]


@pytest.mark.parametrize("sizes", [[4], [1] * 4, [3, 1]])
def test_a_partition_that_is_computed_again_comes_out_the_same(
    store: MemoryHistory, sizes: list[int]
) -> None:
    first = [task(one, rows) for one, rows in enumerate((["a", "b", "a", "d"], ["b", "c", "a", "e"]))]

    again = [task(1, ["b", "c", "a", "e"], sizes=sizes), task(0, ["a", "b", "a", "d"], sizes=sizes)]

    assert again == first[::-1]
    assert first == [[NEW, NEW, COPY, NEW], [DUPLICATE, NEW, DUPLICATE, NEW]]


def test_an_attempt_that_died_half_way_leaves_its_claims_to_the_next_one(store: MemoryHistory) -> None:
    drive(store.claim("book", ["a"], RUN.owner_of(0)))

    assert task(1, ["a", "b"]) == [DUPLICATE, NEW]
    assert task(0, ["a", "b"]) == [NEW, DUPLICATE]


def test_partition_one_does_not_take_what_is_partition_ten_s(store: MemoryHistory) -> None:
    run = replace(RUN, partitions=11)

    assert task(10, ["a"], run=run) == [NEW]
    assert task(1, ["a", "b"], run=run) == [DUPLICATE, NEW]
    assert task(10, ["a", "b"], run=run) == [NEW, DUPLICATE]


def test_twins_that_race_hand_over_each_row_once_each(store: MemoryHistory) -> None:
    random = Random(3)  # noqa: S311  (rows of a test)
    uuids = [f"u{number}" for number in range(200)]
    partitions = [random.choices(uuids, k=300) for _ in range(3)]
    verdicts: dict[tuple[int, int], list[int]] = {}

    def compute(partition: int, attempt: int) -> None:
        sizes = [37] * 8 + [4]
        verdicts[partition, attempt] = task(partition, partitions[partition], sizes=sizes)

    in_threads(lambda one: compute(*one), product(range(3), range(2)))

    for attempts in ((0, 0, 0), (1, 1, 1), (0, 1, 0)):
        given = [
            uuid
            for partition, attempt in enumerate(attempts)
            for uuid, verdict in zip(partitions[partition], verdicts[partition, attempt], strict=True)
            if verdict == NEW
        ]
        assert sorted(given) == sorted({uuid for rows in partitions for uuid in rows})
    assert all(verdicts[one, 0] == verdicts[one, 1] for one in range(3))


def test_what_others_have_is_told_as_ever(store: MemoryHistory) -> None:
    done = BatchOwner("q/6/line.other")
    drive(store.claim("book", ["done"], done))
    drive(store.settle_batch("book", done, EntryOutcome.OK))
    drive(store.claim("book", ["dead"], "a worker that died"))
    drive(store.claim("book", ["alive"], "a worker", timedelta(minutes=1)))

    found = task(0, ["done", "dead", "alive", "dead", "new"])

    assert found == [DUPLICATE, ASIDE, ASIDE, ASIDE + AGAIN, NEW]


def test_what_a_run_that_nobody_goes_on_with_left_is_adopted_by_one_partition(store: MemoryHistory) -> None:
    left = BatchRun(lineage="old", batch=40, token="left", line="old-line", partitions=2)  # noqa: S106  (as above)
    drive(store.claim("book", ["a"], left.owner_of(1)))
    run = replace(RUN, abandoned=(replace(left, token="left-1"),))  # noqa: S106  (as above)

    assert task(0, ["a", "a"], run=run) == [ADOPTED, ADOPTED + AGAIN]
    assert task(1, ["a"], run=run) == [DUPLICATE]
    assert task(0, ["a", "b"], sizes=[1, 1], run=run) == [NEW, NEW]


def test_what_a_partition_of_an_earlier_run_has_is_an_earlier_run_s() -> None:
    def entry(owner: BatchOwner) -> Entry:
        return replace(ENTRY, owner=owner.token, batch=True)

    earlier = replace(RUN, token="dead")  # noqa: S106  (of a run)
    entered = replace(RUN, token="now", entered=frozenset({"dead"}), partitions=0)  # noqa: S106  (as above)
    never = replace(entered, entered=frozenset())

    for owner in (earlier.owner_of(0), earlier.owner_of(12), earlier.resolved_owner, earlier.owner):
        assert entered.is_replayed(entry(owner))
        assert not entered.never_ran(entry(owner))
        assert never.never_ran(entry(owner))
        assert not entered.is_of_its_partitions(entry(owner))
    assert not RUN.is_replayed(entry(RUN.owner_of(1)))
    assert RUN.is_of_its_partitions(entry(RUN.owner_of(1)))
    assert not RUN.is_of_its_partitions(entry(RUN.resolved_owner))


def test_what_another_partition_has_is_as_good_as_done_where_it_is_looked_at_again() -> None:
    lease_until = ENTRY.read_at + timedelta(hours=1)
    of_partition, of_resolved = (
        replace(ENTRY, owner=owner.token, batch=True, lease_until=lease_until)
        for owner in (RUN.owner_of(2), RUN.resolved_owner)
    )

    seen = RUN.as_found(of_partition)

    assert seen is not None
    assert (seen.state, seen.outcome, seen.lease_alive) == (State.COMPLETED, EntryOutcome.OK, False)
    assert RUN.as_found(of_resolved) is of_resolved


def test_all_owners_of_a_run_are_named() -> None:
    whole = replace(RUN, partitions=0)

    assert RUN.owners(claimed=True, resolved=True, partitions=[2]) == [RUN.owner_of(2), RUN.resolved_owner]
    assert RUN.owners(claimed=True, resolved=False) == [RUN.owner_of(one) for one in range(3)]
    assert whole.owners(claimed=True, resolved=True) == [whole.owner, whole.resolved_owner]
    assert whole.owners(claimed=False, resolved=False) == []


def _entry() -> Entry:
    store = MemoryHistory()
    drive(store.claim("book", ["a"], "anybody"))
    (entry,) = drive(store.lookup("book", ["a"]))
    assert entry is not None
    return entry


ENTRY = _entry()
