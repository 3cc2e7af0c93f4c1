"""A message with the uuid of another message but a different body does not run, and is not lost."""

import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest

from history import ConfigurationError, MemoryHistory, open_history
from history.beside.fingerprints import BodyOf, Fingerprints, first_of
from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.store import DecisionKind, OperatorDecision, ParkedLabel
from tests import ROOT
from tests.fixtures.waiting import eventually
from triggers import Cause, FatalError, Message, Outcome, trigger
from triggers.detection.table import HistoryUse
from triggers.operations.running import run_parked
from triggers.pipeline.finding import Finding
from triggers.pipeline.leases import LeaseKeeper
from triggers.pipeline.parking.decisions import decide
from triggers.pipeline.run import Run
from triggers.service.fingerprints import fingerprint_of


def booking(history: Any, runs: list[Any], **options: Any) -> Any:
    given: dict[str, Any] = {"history": history, "fingerprint": "body"} | options

    @trigger("orders", name="book", **given)
    def book(message: Message) -> None:
        runs.append(message.body)
        if message.body == "bad":
            raise FatalError("no such order")

    return book


@contextmanager
def opened(url: str) -> Generator[KeepsBeside]:
    store = open_history(url)
    try:
        yield store
    finally:
        drive(store.close())


def order(body: Any, **more: Any) -> Message:
    return Message(body=body, uuid="u-1", **more)


def is_another(outcome: Outcome) -> bool:
    return outcome.row == 23 and outcome.parked and outcome.acknowledge and not outcome.executed


def die_before_the_claim(url: str, body: str) -> None:
    """Let another process store the fingerprint of a body, and kill it before its claim."""
    words = [sys.executable, "-m", "tests.integration.pipeline.dying_claim", url, body]
    died = subprocess.run(words, cwd=ROOT, check=False, capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()


class TestEachHistory:
    def test_another_body_under_a_completed_uuid_is_parked_with_both_fingerprints(
        self, history_url: str
    ) -> None:
        runs: list[Any] = []
        with closing(booking(history_url, runs)) as book:
            first = book.handle(order({"amount": 1, "to": "a"}))
            copy = book.handle(order(b'{ "to": "a", "amount": 1 }'))
            other = book.handle(order({"amount": 2, "to": "a"}))

        assert (first.executed, copy.kind) == (True, "duplicate")
        assert is_another(other)
        assert runs == [{"amount": 1, "to": "a"}]
        assert other.event is not None
        assert other.event.cause is Cause.OTHER_BODY
        with opened(history_url) as store:
            (parked,) = drive(store.parking.list(trigger="book"))
        for amount in (1, 2):
            assert fingerprint_of({"amount": amount, "to": "a"}).hex() in parked.reason

    def test_so_it_is_for_batches(self, history_url: str) -> None:
        taken: list[list[Any]] = []

        @trigger("orders", name="book", history=history_url, fingerprint="body", batch=10)
        def book(messages: list[Message]) -> None:
            taken.append([message.body for message in messages])

        with closing(book):
            first = book.handle_batch([order("one"), Message(body="other", uuid="u-2")])
            again = book.handle_batch([order("two"), order("one"), Message(body="new", uuid="u-3")])

        assert [one.row for one in [*first, *again]] == [7, 7, 23, 8, 7]
        assert taken == [["one", "other"], ["new"]]

    def test_so_it_is_after_the_first_has_failed_for_good(self, history_url: str) -> None:
        runs: list[Any] = []
        with closing(booking(history_url, runs)) as book:
            book.handle(order("bad"))

            assert is_another(book.handle(order("good")))
            assert book.handle(order("bad")).kind == "duplicate"

        assert runs == ["bad"]

    def test_so_it_is_while_the_first_runs(self, history_url: str) -> None:
        entered, leave = threading.Event(), threading.Event()

        @trigger("orders", name="book", history=history_url, fingerprint="body")
        def book(message: Message) -> None:
            entered.set()
            leave.wait()

        with closing(book), closing(booking(history_url, [])) as beside:
            first = threading.Thread(target=book.handle, args=(order("one"),))
            first.start()
            try:
                entered.wait()

                assert is_another(beside.handle(order("two")))
            finally:
                leave.set()
                first.join()
            assert beside.handle(order("one")).kind == "duplicate"

    def test_a_process_that_was_killed_before_its_claim_has_lost_nothing(self, history_url: str) -> None:
        runs: list[Any] = []
        die_before_the_claim(history_url, "one")
        with opened(history_url) as store:
            assert drive(store.lookup("book", ["u-1"])) == [None]

        with closing(booking(history_url, runs)) as book:
            assert is_another(book.handle(order("two")))
            assert book.handle(order("one", delivery_count=2)).executed
            assert book.handle(order("one", delivery_count=3)).kind == "duplicate"
            assert is_another(book.handle(order("two", delivery_count=2)))

        assert runs == ["one"]

    def test_where_its_message_never_comes_again_the_uuid_can_be_forgotten(self, history_url: str) -> None:
        runs: list[Any] = []
        die_before_the_claim(history_url, "one")

        with closing(booking(history_url, runs)) as book, opened(history_url) as store:
            assert is_another(book.handle(order("two")))
            assert drive(store.forget("book", "u-1"))
            assert book.handle(order("two")).executed

        assert runs == ["two"]

    def test_an_entry_without_a_fingerprint_has_copies_as_before(self, history_url: str) -> None:
        with closing(booking(history_url, [], fingerprint=None)) as before:
            assert before.handle(order("one")).executed

        with closing(booking(history_url, [])) as book:
            assert book.handle(order("one")).kind == "duplicate"


class TestItsParkedCopy:
    def store_and_copy(self, runs: list[Any]) -> tuple[MemoryHistory, Any, Outcome]:
        """Return a history with a fingerprint but no entry, and a copy with a different body."""
        store = MemoryHistory()
        book = booking(store, runs)
        living = book.settings.history_time_to_live
        drive(first_of(store.fingerprints, "book", "u-1", fingerprint_of("one"), living))
        return store, book, book.handle(order("two"))

    def labels(self, store: MemoryHistory) -> Sequence[ParkedLabel]:
        return drive(store.parking.labels(trigger="book")).labels

    def test_what_somebody_calls_done_completes_nothing_of_the_first(self) -> None:
        runs: list[Any] = []
        store, book, other = self.store_and_copy(runs)
        assert is_another(other)

        done = OperatorDecision(kind=DecisionKind.DONE, by="somebody")
        (verdict,) = drive(decide(self.labels(store), done, lot=store.parking, store=store))

        assert verdict.left is None
        assert self.labels(store) == []
        assert book.handle(order("one")).executed

    async def test_what_somebody_runs_is_another_body_still_and_stays_parked(self) -> None:
        runs: list[Any] = []
        store, book, _ = self.store_and_copy(runs)
        (parked,) = await store.parking.list(trigger="book")

        assert is_another(await run_parked(book, parked, store.parking))
        assert len(self.labels(store)) == 1
        assert runs == []


class Lasting(Fingerprints):
    """Notes the time to live of the fingerprints."""

    def __init__(self) -> None:
        super().__init__(MemoryHistory().records)
        self.noted: list[timedelta] = []

    async def first_of_each(
        self, trigger: str, bodies: Sequence[BodyOf], time_to_live: timedelta
    ) -> Sequence[bytes]:
        del trigger
        self.noted.append(time_to_live)
        return [fingerprint for _, fingerprint in bodies]


class Recorder(MemoryHistory):
    """A history that notes the time to live of its fingerprints."""

    def __init__(self) -> None:
        super().__init__()
        self.lasting = Lasting()

    @property
    def fingerprints(self) -> Fingerprints:
        return self.lasting


class TestItsLife:
    @pytest.mark.parametrize("time_to_live", [timedelta(seconds=2), timedelta(days=3650)])
    def test_it_lives_longer_than_the_entry_by_a_pause_and_by_how_coarse_that_is(
        self, time_to_live: timedelta
    ) -> None:
        store = Recorder()

        booking(store, [], history_time_to_live=time_to_live).handle(order("one"))

        assert store.lasting.noted == [time_to_live * 1.001 + timedelta(hours=1)]

    def test_a_run_that_outlives_it_prolongs_it_with_every_renewal_of_its_lease(self) -> None:
        store, lease, day = Recorder(), timedelta(seconds=0.3), timedelta(days=1)
        (claim,) = drive(store.claim("book", ["u-1"], "worker", lease))
        run = Run(order("one"), Finding(HistoryUse.ON, fence=claim.fence, owner="worker"))
        run.compared = (fingerprint_of("one"), monotonic() - day.total_seconds())
        keeper = LeaseKeeper("book", lease, store)

        keeper.hold([run], monotonic())
        eventually(lambda: len(store.lasting.noted) >= 2)
        keeper.close()

        assert min(store.lasting.noted) > day + 2 * lease


class TestWhatCounts:
    def test_a_function_says_what_counts_and_none_compares_nothing(self) -> None:
        runs: list[Any] = []

        def amount(message: Message) -> Any:
            return message.body["amount"] if isinstance(message.body, dict) else None

        book = booking(MemoryHistory(), runs, fingerprint=amount)

        assert book.handle(order({"amount": 1, "sent": "today"})).executed
        assert book.handle(order({"amount": 1, "sent": "later"})).kind == "duplicate"
        assert book.handle(order("no amount")).kind == "duplicate"
        assert is_another(book.handle(order({"amount": 2})))

    @pytest.mark.parametrize("answer", [object(), {1, 2}])
    def test_a_message_whose_fingerprint_cannot_be_read_is_rejected(self, answer: Any) -> None:
        runs: list[Any] = []

        def read(_message: Message) -> Any:
            return answer

        outcome = booking(MemoryHistory(), runs, fingerprint=read).handle(order("one"))

        assert (outcome.row, outcome.parked, runs) == (19, True, [])
        assert "its fingerprint could not be read" in outcome.reason

    @pytest.mark.parametrize(
        ("one", "same"),
        [({"a": 1, "b": [2]}, '{"b":[2], "a":1}'), ("plain", b"plain"), (None, b"null"), (b"[1]", [1])],
    )
    def test_json_counts_by_what_it_says(self, one: Any, same: Any) -> None:
        assert fingerprint_of(one) == fingerprint_of(same)

    def test_different_bodies_have_different_fingerprints(self) -> None:
        objects = [{"a": 1}, {"a": 2}, {"a": "1"}, {}]
        bodies: list[Any] = ["", "a", b"\xff", *objects, [], None, 0, False, "[" * 100_000]

        assert len({fingerprint_of(body) for body in bodies}) == len(bodies)


@pytest.mark.parametrize(
    "options", [{"shadow": True}, {"join": "one"}, {"detect_duplicates": False}], ids=str
)
def test_what_cannot_be_beside_it_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="fingerprint"):
        booking(MemoryHistory(), [], **options).handle(order("one"))


def test_it_needs_a_history() -> None:
    with pytest.raises(ConfigurationError, match="fingerprint"):
        booking(None, []).handle(order("one"))
