"""Atomic triggers: the service's effects and its history entry are committed together, or not at all."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from history import Entry, EntryOutcome, HistoryUnavailableError, MemoryHistory, SqlHistory
from history.bridge import drive
from tests.fixtures.waiting import PATIENCE
from tests.integration.helpers.atomic_shop import INSERT, Make, Shop, insert
from triggers import Cause, ConfigurationError, FatalError, Message, Outcome, Status, TransientError, Trigger
from triggers.pipeline.pipeline import Step

#: A query that takes longer than the time that a test gives it.
SLOW = text(
    "WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < 3000000) "
    "SELECT max(n) FROM count"
)


def insert_by_session(message: Message, session: Session) -> None:
    session.execute(INSERT, {"uuid": message.uuid})


def sent(uuid: str = "u-1", **facts: Any) -> Message:
    given: dict[str, Any] = {"uuid": uuid, "body": {"id": uuid}} | facts
    return Message(**given)


class TestTogether:
    @pytest.mark.parametrize("service", [insert, insert_by_session], ids=["connection", "session"])
    def test_effect_and_entry_are_committed(
        self, shop: Shop, made: Make, service: Callable[..., None]
    ) -> None:
        book = made(service)

        outcomes = [book.handle(sent()), book.handle(sent(delivery_count=2))]

        assert [one.status for one in outcomes] == [Status.NEW, Status.DUPLICATE]
        assert all(one.acknowledge for one in outcomes)
        assert (shop.booked(), shop.outcome("u-1")) == (["u-1"], EntryOutcome.OK)

    def test_nobody_sees_one_without_the_other(self, shop: Shop, made: Make) -> None:
        seen: list[tuple[list[str], Entry | None]] = []

        def look(message: Message, connection: Connection) -> None:
            insert(message, connection)
            seen.append((shop.booked(), shop.entry("u-1")))

        if shop.url.startswith("sqlite"):  # its tables must be there before the transaction
            made(insert, name="other").handle(sent("other"))
        made(look).handle(sent())

        assert seen == [(["other"] if shop.url.startswith("sqlite") else [], None)]

    def test_a_session_commits_no_further_than_its_savepoint(self, shop: Shop, made: Make) -> None:
        def commit_and_fail(message: Message, session: Session) -> None:
            insert_by_session(message, session)
            session.commit()
            raise FatalError("after all")

        assert isinstance(made(commit_and_fail).handle(sent()).error, FatalError)
        assert shop.booked() == []

    def test_what_a_session_has_not_flushed_is_flushed(self, shop: Shop, made: Make) -> None:
        seen: list[Session] = []

        def begin_nothing(message: Message, session: Session) -> str:
            session.connection().execute(INSERT, {"uuid": message.uuid})
            seen.append(session)
            return "booked"

        outcome = made(begin_nothing).handle(sent())

        assert (outcome.error, outcome.result) == (None, "booked")
        assert shop.booked() == ["u-1"]
        assert not seen[0].in_transaction()

    def test_the_steps_come_in_order_with_the_commit_as_the_completion(self, made: Make) -> None:
        reached: list[Step] = []

        drive(made(insert).pipeline(reached.append).handle(sent()))

        assert reached == [Step.CLAIMED, Step.DECIDED, Step.RUN, Step.COMPLETED]


class TestFailures:
    def test_a_transient_failure_leaves_nothing_and_is_new_again(self, shop: Shop, made: Make) -> None:
        failures: list[Exception] = [TransientError("away")]

        def fail_once(message: Message, connection: Connection) -> None:
            insert(message, connection)
            if failures:
                raise failures.pop()

        book = made(fail_once)
        first = book.handle(sent())

        assert (first.status, first.acknowledge, first.event) == (Status.NEW, False, None)
        assert (shop.booked(), shop.entry("u-1")) == ([], None)
        assert book.handle(sent(delivery_count=2)).status is Status.NEW
        assert shop.booked() == ["u-1"]

    def test_a_fatal_failure_is_remembered_without_its_effects(self, shop: Shop, made: Make) -> None:
        def fail(message: Message, connection: Connection) -> None:
            insert(message, connection)
            raise FatalError("no such order")

        book = made(fail)
        first, second = book.handle(sent()), book.handle(sent(delivery_count=2))

        assert (first.acknowledge, first.event) == (False, None)
        assert (shop.booked(), shop.outcome("u-1")) == ([], EntryOutcome.FAILED)
        assert (second.rejected, second.executed, second.parked) == (True, False, True)
        assert second.event is not None
        assert second.event.cause is Cause.FAILED_BEFORE
        assert (second.event.exception_class, second.event.exception_message) == (
            "triggers.FatalError",
            "no such order",
        )

    def test_a_body_that_is_no_order_is_remembered_as_failed(self, shop: Shop, made: Make) -> None:
        def book_number(body: int, connection: Connection) -> None:
            raise AssertionError("must not run")

        outcome = made(book_number).handle(sent())

        assert (outcome.executed, outcome.acknowledge) == (False, False)
        assert shop.outcome("u-1") is EntryOutcome.FAILED

    def test_a_statement_that_failed_unnoticed_fails_the_message(self, shop: Shop, made: Make) -> None:
        def swallow(message: Message, connection: Connection) -> None:
            insert(message, connection)
            try:
                connection.execute(text("INSERT INTO nowhere VALUES (1)"))
            except Exception:  # noqa: BLE001  (just what a service must not do)
                logging.getLogger(__name__).debug("swallowed")

        outcome = made(swallow).handle(sent())

        if shop.url.startswith("sqlite"):  # its transactions survive a failed statement
            assert (outcome.error, shop.booked()) == (None, ["u-1"])
        else:
            assert outcome.error is not None
            assert (outcome.acknowledge, shop.booked()) == (False, [])
            assert shop.outcome("u-1") is EntryOutcome.FAILED

    @pytest.mark.parametrize("end", ["commit", "rollback", "ROLLBACK"])
    def test_a_service_may_not_end_the_transaction(self, shop: Shop, made: Make, end: str) -> None:
        def tear(message: Message, connection: Connection) -> None:
            insert(message, connection)
            if end == "ROLLBACK":  # without telling doubtless
                connection.exec_driver_sql(end)
            else:
                getattr(connection, end)()

        outcome = made(tear).handle(sent())

        assert (outcome.acknowledge, outcome.suspend) == (False, False)
        assert isinstance(outcome.error, ConfigurationError)
        assert (shop.booked(), shop.outcome("u-1")) == ([], EntryOutcome.FAILED)

    def test_a_nested_part_may_fail_alone(self, shop: Shop, made: Make) -> None:
        def try_twice(message: Message, connection: Connection) -> None:
            part = connection.begin_nested()
            insert(message, connection)
            part.rollback()
            insert(message, connection)

        assert made(try_twice).handle(sent()).error is None
        assert shop.booked() == ["u-1"]

    def test_a_base_exception_leaves_nothing(self, shop: Shop, made: Make) -> None:
        def die(message: Message, connection: Connection) -> None:
            insert(message, connection)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            made(die).handle(sent())

        assert (shop.booked(), shop.entry("u-1")) == ([], None)


class TestBatches:
    def test_one_transaction_commits_what_worked_and_undoes_what_failed(self, shop: Shop, made: Make) -> None:
        def work(message: Message, connection: Connection) -> None:
            insert(message, connection)
            if message.uuid == "bad":
                raise FatalError("bad")
            if message.uuid == "later":
                raise TransientError("later")

        book = made(work)
        outcomes = book.handle_batch([sent(uuid) for uuid in ("a", "bad", "later", "b", "a")])

        assert [one.status for one in outcomes] == [Status.NEW] * 4 + [Status.DUPLICATE]
        assert [one.acknowledge for one in outcomes] == [True, False, False, True, True]
        assert shop.booked() == ["a", "b"]
        assert shop.outcome("bad") is EntryOutcome.FAILED
        assert shop.entry("later") is None

    def test_a_batch_service_shares_one_end(self, shop: Shop, made: Make) -> None:
        def work(messages: list[Message], connection: Connection) -> int:
            for message in messages:
                insert(message, connection)
            return len(messages)

        outcomes = made(work, batch=2).handle_batch([sent(uuid) for uuid in ("a", "b", "c")])

        assert [one.result for one in outcomes] == [2, 2, 1]
        assert shop.booked() == ["a", "b", "c"]


class TestConcurrency:
    def test_the_same_uuid_at_once_is_one_effect_and_duplicates(self, shop: Shop, made: Make) -> None:
        started = threading.Barrier(4)
        books = [made(insert) for _ in range(4)]

        def handle(book: Trigger[..., Any]) -> Outcome:
            started.wait()
            return book.handle(sent(delivery_count=2))

        outcomes: list[Outcome] = []
        for _ in range(5):
            with ThreadPoolExecutor(4) as pool:
                outcomes = list(pool.map(handle, books))
            assert all(one.acknowledge for one in outcomes), [one.reason for one in outcomes]

        assert shop.booked() == ["u-1"]
        assert sorted(str(one.status) for one in outcomes) == ["DUPLICATE"] * 4


class TestAway:
    def test_a_database_that_is_away_gives_the_message_back(self, made: Make) -> None:
        nowhere = SqlHistory.from_url("postgresql://nobody@127.0.0.1:9/nowhere")

        outcome = made(insert, history=nowhere).handle(sent())
        drive(nowhere.close())

        assert (outcome.row, outcome.acknowledge, outcome.suspend) == (13, False, True)
        assert isinstance(outcome.error, HistoryUnavailableError)

    @pytest.mark.parametrize("detects", [True, False])
    def test_a_connection_that_dies_in_the_service_commits_nothing(
        self, shop: Shop, made: Make, *, detects: bool
    ) -> None:
        if shop.url.startswith("sqlite"):
            pytest.skip("an embedded database has no connection to lose")

        def lose(message: Message, connection: Connection) -> None:
            insert(message, connection)
            (pid,) = connection.execute(text("SELECT pg_backend_pid()")).one()
            with shop.engine.connect() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
            connection.execute(text("SELECT 1"))

        book = made(lose, detect_duplicates=detects)
        outcome = book.handle(sent())

        assert (outcome.acknowledge, outcome.suspend) == (False, False)
        assert (shop.booked(), shop.entry("u-1")) == ([], None)
        again = book.handle(sent(delivery_count=2))
        assert (again.acknowledge, again.rejected or again.parked, shop.booked()) == (True, True, [])

    def test_a_deadlock_is_tried_again_by_redelivery(self, shop: Shop, made: Make) -> None:
        if shop.url.startswith("sqlite"):
            pytest.skip("one transaction at a time cannot lock another out")
        met = threading.Barrier(2)

        def cross(message: Message, connection: Connection) -> None:
            first, second = (1, 2) if message.uuid == "a" else (2, 1)
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": first})
            if message.delivery_count == 1:
                met.wait(PATIENCE)
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": second})
            insert(message, connection)

        book = made(cross)
        book.handle(sent())  # makes the tables
        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(book.handle, [sent("a", delivery_count=1), sent("b", delivery_count=1)]))

        assert sorted(one.acknowledge for one in outcomes) == [False, True]
        (lost,) = [one for one in outcomes if not one.acknowledge]
        assert (lost.suspend, lost.event) == (False, None)
        assert book.handle(sent(lost.uuid or "", delivery_count=2)).status is Status.NEW
        assert shop.booked() == ["a", "b", "u-1"]


class TestAsyncio:
    def test_an_asyncio_service_is_atomic_as_well(self, shop: Shop, made: Make) -> None:
        async def by_connection(message: Message, connection: AsyncConnection) -> None:
            await connection.execute(INSERT, {"uuid": message.uuid})

        async def by_session(message: Message, session: AsyncSession) -> None:
            await session.execute(INSERT, {"uuid": message.uuid})
            if message.uuid == "bad":
                raise FatalError("bad")

        async def work() -> list[Outcome]:
            first, second = made(by_connection), made(by_session)
            outcomes = [
                await first.ahandle(sent("a")),
                await second.ahandle(sent("b")),
                await second.ahandle(sent("bad")),
                await first.ahandle(sent("b")),
            ]
            await first.aclose()
            await second.aclose()
            return outcomes

        outcomes = asyncio.run(work())

        assert [one.status for one in outcomes] == [Status.NEW, Status.NEW, Status.NEW, Status.DUPLICATE]
        assert shop.booked() == ["a", "b"]
        assert shop.outcome("bad") is EntryOutcome.FAILED

    @pytest.mark.parametrize("form", [AsyncConnection, AsyncSession])
    def test_a_statement_that_times_out_is_recovered_each_time(
        self, shop: Shop, made: Make, form: type[AsyncConnection | AsyncSession]
    ) -> None:
        async def wait(message: Message, opened: Any) -> None:
            await opened.execute(INSERT, {"uuid": message.uuid})
            async with asyncio.timeout(0.05):
                await opened.execute(SLOW)

        wait.__annotations__ = {"message": Message, "opened": form, "return": None}

        async def handle() -> list[Outcome]:
            book = made(wait)
            outcomes = [await book.ahandle(sent(delivery_count=count)) for count in (1, 2, 3)]
            await book.aclose()
            return outcomes

        outcomes = asyncio.run(handle())

        assert [type(one.error) for one in outcomes] == [TimeoutError] * 3
        assert [(one.acknowledge, one.suspend, one.parked) for one in outcomes] == [(False, False, False)] * 3
        assert (shop.booked(), shop.entry("u-1")) == ([], None)

    def test_the_error_of_a_service_is_known_if_its_connection_is_lost(self, shop: Shop, made: Make) -> None:
        async def fail(message: Message, connection: AsyncConnection) -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await connection.execute(SLOW)
            raise ValueError("no price")

        async def handle() -> Outcome:
            book = made(fail)
            outcome = await book.ahandle(sent(delivery_count=2))
            await book.aclose()
            return outcome

        outcome = asyncio.run(handle())

        assert (type(outcome.error), outcome.parked) == (ValueError, True)
        assert shop.outcome("u-1") is EntryOutcome.FAILED


class TestRefusals:
    def test_what_cannot_be_atomic_is_refused_with_its_remedy(self, made: Make) -> None:
        with pytest.raises(ConfigurationError, match="transacted=True"):
            made(insert, transacted=False).handle(sent())
        with pytest.raises(ConfigurationError, match="history is not in SQL"):
            made(insert, history=MemoryHistory()).handle(sent())
        with pytest.raises(ConfigurationError, match="without its history"):
            made(insert, on_history_error="resolve").handle(sent())

    def test_a_blocking_connection_does_not_exist_under_asyncio(self, made: Make) -> None:
        with pytest.raises(ConfigurationError, match="AsyncConnection"):
            asyncio.run(made(insert).ahandle(sent()))

    def test_a_view_inside_a_transaction_is_no_history_for_a_trigger(self, shop: Shop, made: Make) -> None:
        store = SqlHistory.from_url(shop.url)
        with shop.engine.connect() as connection, pytest.raises(ConfigurationError, match="already"):
            made(insert, history=store.joined(connection)).handle(sent())
        drive(store.close())


def test_a_message_that_the_history_is_not_asked_about_is_given_up_without_a_trace(
    shop: Shop, made: Make
) -> None:
    book = made(insert, max_delivery_count=3)

    outcome = book.handle(sent(delivery_count=4))

    assert (outcome.row, outcome.parked, outcome.acknowledge) == (1, True, True)
    assert (shop.booked(), shop.entry("u-1")) == ([], None)
    assert book.handle(sent()).executed


class TestComparedBodies:
    def test_another_body_under_a_uuid_has_no_effect_and_is_parked(self, shop: Shop, made: Make) -> None:
        book = made(insert, fingerprint="body")

        first, copy, other = (book.handle(sent(body=body)) for body in ("one", "one", "two"))

        assert (first.executed, copy.kind) == (True, "duplicate")
        assert (other.row, other.executed, other.parked, other.acknowledge) == (23, False, True, True)
        assert shop.booked() == ["u-1"]

    def test_among_messages_that_share_a_transaction_it_harms_none_of_the_others(
        self, shop: Shop, made: Make
    ) -> None:
        book = made(insert, fingerprint="body")
        book.handle(sent("u-1", body="one"))

        outcomes = book.handle_batch(
            [sent("u-0"), sent("u-1", body="two"), sent("u-2"), sent("u-2", body="x")]
        )

        assert [one.row for one in outcomes] == [7, 23, 7, 23]
        assert shop.booked() == ["u-0", "u-1", "u-2"]

    def test_a_body_that_was_rolled_back_is_still_the_one_that_came_first(
        self, shop: Shop, made: Make
    ) -> None:
        fails = [True]

        def service(message: Message, connection: Connection) -> None:
            insert(message, connection)
            if fails.pop():
                raise TransientError

        fails.insert(0, False)
        book = made(service, fingerprint="body", on_retry_failure="suspend")

        assert (book.handle(sent(body="one")).acknowledge, shop.booked()) == (False, [])
        assert book.handle(sent(body="two")).row == 23
        assert book.handle(sent(body="one", delivery_count=2)).executed
        assert shop.booked() == ["u-1"]

    async def test_so_it_is_for_coroutines(self, shop: Shop, made: Make) -> None:
        async def service(message: Message, connection: AsyncConnection) -> None:
            await connection.execute(INSERT, {"uuid": message.uuid})

        book = made(service, fingerprint="body")
        try:
            rows = [(await book.ahandle(sent(body=body))).row for body in ("one", "one", "two")]
        finally:
            await book.aclose()

        assert rows == [7, 8, 23]
        assert shop.booked() == ["u-1"]
