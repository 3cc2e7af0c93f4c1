"""Bugs of similar libraries, described in our words: each ticket has a test, and we pass it.

"Retold" at the end of a docstring means that we could not read the ticket itself. Then the test follows what
others write about the ticket.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from history import Claim, EntryOutcome, HistoryUnavailableError, MemoryHistory, Settlement, State
from history.bridge import drive
from history.message import UNDEFINED_COUNT, Uuid
from resolvers import Resolution
from tests.unit.helpers.in_memory import (
    NAME,
    Clock,
    Effects,
    entry_of,
    made,
    message,
    parked_of,
    resolving,
    started_by_another,
    state_of,
)
from triggers import Message, Outcome, Status, TransientError
from triggers.testing import Effects as Ledger
from triggers.testing import exactly_once

pytestmark = pytest.mark.proof

LEASE = timedelta(seconds=30)

#: The row of the decision table for another body under a known uuid.
ANOTHER_BODY = 23


def test_powertools_python_8386() -> None:
    """A run had no deadline. It counted as dead while it still ran, so a copy ran beside it. Retold."""
    copies: list[Outcome] = []
    runs: list[bytes] = []

    def service(body: bytes) -> None:
        runs.append(body)
        copies.append(book.handle(message(delivery_count=2)))

    book = made(service, lease=None)

    assert book.handle(message()).executed
    assert [(copy.executed, copy.status) for copy in copies] == [(False, Status.IN_DOUBT)]
    assert len(runs) == 1


#: Delivery counts: 1 is claimed immediately, 2 is looked up first, and the last means an unknown count.
COUNTS = (1, 2, UNDEFINED_COUNT)


@pytest.mark.parametrize("count", COUNTS)
def test_powertools_python_3781(count: int) -> None:
    """A known key with another body counted as a copy, if the claim returned the earlier record.

    Python was cleared of it in the end; TypeScript (#2058) and Java (#2260) were not.
    """
    runs: list[str] = []
    book = made(runs.append, fingerprint="body")

    first = book.handle(message(body="10 euros"))
    other = book.handle(message(body="99 euros", delivery_count=count))

    assert first.executed
    assert (other.executed, other.row, other.parked) == (False, ANOTHER_BODY, True)
    assert runs == ["10 euros"]


@pytest.mark.parametrize("count", COUNTS)
def test_powertools_python_3821(count: int) -> None:
    """A record was cached before the bodies were compared. So a second wrong body got its answer."""
    service = Effects()
    book = made(service, fingerprint="body", keep_result=True)

    first = book.handle(message(body="10 euros"))
    wrong = [book.handle(message(body="99 euros", delivery_count=count)) for _ in range(3)]
    honest = book.handle(message(body="10 euros", delivery_count=2))

    assert first.result == "10 euros"
    assert [(one.row, one.result) for one in wrong] == [(ANOTHER_BODY, None)] * 3
    assert (honest.status, honest.result) == (Status.DUPLICATE, "10 euros")
    assert service.runs == ["u-1"]


def test_powertools_typescript_5705(history_url: str) -> None:
    """When a run was completed, the hash of its body was deleted. So true copies were refused. Retold."""
    service = Effects()
    with closing(made(service, history=history_url, fingerprint="body")) as book:
        first = book.handle(message(body="10 euros"))
        honest = [book.handle(message(body="10 euros", delivery_count=count)) for count in COUNTS]
        other = book.handle(message(body="99 euros", delivery_count=2))

    assert first.executed
    assert [(one.status, one.acknowledge, one.parked) for one in honest] == [
        (Status.DUPLICATE, True, False)
    ] * len(COUNTS)
    assert (other.row, other.parked) == (ANOTHER_BODY, True)
    assert service.runs == ["u-1"]


def test_powertools_typescript_5714() -> None:
    """A worker recovered a run that seemed dead, but had ended. Its record was overwritten. Retold."""
    clock = Clock()
    store = MemoryHistory(clock=clock)
    [claim] = drive(store.claim(NAME, ["u-1"], "slow worker", LEASE))
    clock.now += 2 * LEASE
    [orphan] = drive(store.lookup(NAME, ["u-1"]))
    assert orphan is not None
    drive(store.settle(NAME, [Settlement(Uuid("u-1"), claim.fence, EntryOutcome.OK, "slow worker")]))

    assert drive(store.take_over(NAME, "u-1", "recoverer", LEASE, orphan.fence)) is None
    [entry] = drive(store.lookup(NAME, ["u-1"]))
    assert entry is not None
    assert entry.outcome is EntryOutcome.OK


def test_powertools_typescript_5675() -> None:
    """A duplicate that was turned away deleted the lock of the original, which still ran. Retold."""
    copies: list[Outcome] = []

    def service(body: bytes) -> None:
        del body
        for count in (2, 3):
            copies.append(book.handle(message(delivery_count=count)))
            assert state_of(book) is State.STARTED

    book = made(service, history=MemoryHistory(clock=Clock()))

    assert book.handle(message()).executed
    assert [(copy.executed, copy.acknowledge) for copy in copies] == [(False, False)] * 2
    assert state_of(book) is EntryOutcome.OK


class _AwayOnce(MemoryHistory):
    """Fail the first claim, which writes nothing."""

    left = 1

    async def claim(self, trigger: str, uuids: Sequence[str], *args: Any, **options: Any) -> Sequence[Claim]:
        if self.left:
            self.left -= 1
            raise HistoryUnavailableError("claiming")
        return await super().claim(trigger, uuids, *args, **options)


def test_camel_24046() -> None:
    """A key was cached before its insert, which failed: each redelivery was a duplicate, and lost. Retold."""
    service = Effects()
    book = made(service, history=_AwayOnce())

    refused = book.handle(message())
    again = book.handle(message(delivery_count=2))

    assert (refused.executed, refused.acknowledge) == (False, False)
    assert (again.status, again.executed) == (Status.NEW, True)
    assert service.runs == ["u-1"]


def test_wolverine_3695() -> None:
    """Rows had a state that no search found, and the broker deleted its copy: lost. Retold."""
    service = Effects()
    book = made(service, lease=None)
    started_by_another(book)

    outcome = book.handle(message(delivery_count=2))

    assert (outcome.status, outcome.executed, outcome.acknowledge) == (Status.IN_DOUBT, False, True)
    assert [parked.uuid for parked in parked_of(book)] == ["u-1"]


def test_pulsar_5218() -> None:
    """A message that could not be stored was called a duplicate when it was sent again: lost. Retold."""
    service = Effects(TransientError("the disk is full"))
    book = made(service, transacted=True)

    failed = book.handle(message())
    again = book.handle(message(delivery_count=2))

    assert failed.acknowledge is False
    assert (again.status, again.executed, again.acknowledge) == (Status.NEW, True, True)


def test_dbos_733() -> None:
    """The offset was committed before the run was stored. A crash in between lost the run. Retold."""
    ledger = Ledger()

    def service(order: dict[str, str]) -> None:
        ledger.record(order["id"])

    report = exactly_once(made(service), [Message(body={"id": "N-1"}, uuid="u-1")], effects=ledger, crashes=1)

    assert report.none_lost, report
    assert report.never_twice, report


def test_taskiq_redis_123() -> None:
    """Two workers took the same pending message at the same moment, behind a lock that was not atomic."""
    service = Effects()
    book = made(service)
    start = threading.Barrier(2)

    def work(count: int) -> Outcome:
        start.wait()
        return book.handle(message(delivery_count=count))

    with ThreadPoolExecutor(2) as workers:
        outcomes = list(workers.map(work, (1, 2)))

    assert sorted(outcome.executed for outcome in outcomes) == [False, True]
    assert service.runs == ["u-1"]


def test_taskiq_redis_131() -> None:
    """A worker that was killed left a lock without a time limit: nobody took its messages ever again."""
    clock = Clock()
    service = Effects()
    book = made(service, history=MemoryHistory(clock=clock), resolver=resolving(Resolution.NEW))
    started_by_another(book, lease=LEASE)

    held = book.handle(message(delivery_count=2))
    clock.now += 2 * LEASE
    free = book.handle(message(delivery_count=3))

    assert (held.executed, held.acknowledge) == (False, False)
    assert (free.executed, free.acknowledge) == (True, True)
    assert service.runs == ["u-1"]


def test_faststream_2618() -> None:
    """A later success committed past a message that had failed, which never came again."""
    service = Effects(TransientError("try again"))
    book = made(service, transacted=True)

    failed = book.handle(message("u-1"))
    later = book.handle(message("u-2"))
    again = book.handle(message("u-1", delivery_count=2))

    assert [failed.acknowledge, later.acknowledge, again.acknowledge] == [False, True, True]
    assert service.runs == ["u-1", "u-2", "u-1"]


@pytest.mark.parametrize("lease", [LEASE, None], ids=["lease", "no-lease"])
def test_celery_5306(lease: timedelta | None) -> None:
    """A task that ran longer than the visibility timeout was delivered again, and ran beside itself."""
    clock = Clock()
    runs: list[bytes] = []
    copies: list[Outcome] = []

    def service(body: bytes) -> None:
        runs.append(body)
        clock.now += timedelta(hours=2)
        copies.append(book.handle(message(delivery_count=2)))

    book = made(service, history=MemoryHistory(clock=clock), lease=lease)

    book.handle(message())
    after = book.handle(message(delivery_count=3))

    assert [copy.executed for copy in copies] == [False]
    assert after.status is Status.DUPLICATE
    assert len(runs) == 1


def test_celery_2599() -> None:
    """A task with a long ETA was sent to the workers once more each hour, and each copy ran."""
    service = Effects()
    book = made(service)

    outcomes = [book.handle(message()) for _ in range(6)]

    assert [outcome.status for outcome in outcomes] == [Status.NEW] + [Status.DUPLICATE] * 5
    assert entry_of(book)
    assert service.runs == ["u-1"]
