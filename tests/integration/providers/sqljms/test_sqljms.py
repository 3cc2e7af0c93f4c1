"""SQL-JMS with real triggers: transactions of sender and service, wake-ups, and who gets which message."""

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from history import ConfigurationError, Message, SqlHistory
from history.bridge import drive
from tests.fixtures.sqljms import Database, opened, received, send
from tests.fixtures.waiting import PATIENCE
from triggers import trigger
from triggers.providers import Arrival, SharingTransactions
from triggers.providers.sqljms.provider import SqlJms
from triggers.providers.sqljms.settings import SqlJmsSettings
from triggers.providers.sqljms.tables import create

QUEUE = "queue://orders"

#: Consumers do not poll in these tests, so each message that arrives was announced.
NEVER = timedelta(minutes=10)

ASLEEP = SqlJmsSettings(poll_interval=NEVER, lease=timedelta(hours=1))


def bodies(database: Database, destination: str = QUEUE, **options: str) -> list[object]:
    return [one.message.body for one in received(opened(database.provider(), destination, **options))]


class TestSending:
    def test_a_message_and_a_row_are_committed_together(self, database: Database) -> None:
        provider = database.provider()
        database.rows("CREATE TABLE orders (id TEXT)")

        with database.engine.begin() as connection:
            connection.execute(text("INSERT INTO orders VALUES ('N-1')"))
            sent = provider.sending(connection).send(QUEUE, {"id": "N-1"})

        [arrival] = received(opened(provider, QUEUE))
        assert arrival.message.body == {"id": "N-1"}
        assert (arrival.message.uuid, arrival.message.message_id) == (sent.uuid, sent.message_id)

    def test_a_message_is_rolled_back_with_the_row(self, database: Database) -> None:
        provider = database.provider()
        database.rows("CREATE TABLE orders (id TEXT)")

        with database.engine.connect() as connection:
            connection.execute(text("INSERT INTO orders VALUES ('N-1')"))
            provider.sending(connection).send_batch("orders", ["a", "b"])
            provider.sending(connection).send(QUEUE, "c")
            connection.rollback()

        assert database.rows("SELECT * FROM orders") == []
        assert bodies(database) == []
        send(provider, "orders", Message(body="later"))
        assert bodies(database, "orders") == ["later"]

    @pytest.mark.parametrize(
        ("batch", "uuid", "setting"), [(["a", "b"], "u", "uuid"), ("ab", None, "bodies")]
    )
    def test_a_batch_is_several_messages_each_under_its_own_uuid(
        self, database: Database, batch: Any, uuid: str | None, setting: str
    ) -> None:
        provider = database.provider()

        with database.engine.begin() as connection, pytest.raises(ConfigurationError) as refused:
            provider.sending(connection).send_batch(QUEUE, batch, uuid=uuid)

        assert (refused.value.setting, bodies(database)) == (setting, [])

    def test_who_comes_later_hears_that_it_begins_now(
        self, database: Database, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO", "triggers.providers.sqljms")
        provider = database.provider()
        send(provider, "orders", Message(body="early"))
        assert bodies(database, "orders", subscription="first") == ["early"]
        assert "new subscription" not in caplog.text

        assert bodies(database, "orders", subscription="second", name="b") == []

        assert "second is a new subscription beside others: it gets what is sent from now on" in caplog.text

    def test_a_session_sends(self, database: Database) -> None:
        provider = database.provider()

        with Session(database.engine) as session:
            provider.sending(session).send(QUEUE, "x")
            session.commit()

        assert bodies(database) == ["x"]

    def test_nobody_sees_a_message_before_the_commit(self, database: Database) -> None:
        if database.engine.dialect.name == "sqlite":
            return  # SQLite has one writer, so nobody could look meanwhile
        provider = database.provider()
        receiver = opened(database.provider(), QUEUE)

        with database.engine.begin() as connection:
            provider.sending(connection).send(QUEUE, "x")
            assert received(receiver) == []

        assert len(received(receiver)) == 1

    def test_a_connection_to_another_kind_of_database_is_refused(self, database: Database) -> None:
        other = "postgresql" if database.engine.dialect.name == "sqlite" else "sqlite"
        provider = SqlJms.from_url("sqlite://" if other == "sqlite" else "postgresql://127.0.0.1/none")

        with database.engine.connect() as connection, pytest.raises(ConfigurationError, match="connection"):
            provider.sending(connection)
        drive(provider.close())

    def test_a_scoped_session_sends(self, database: Database) -> None:
        provider = database.provider()
        session = scoped_session(sessionmaker(database.engine))

        provider.sending(session).send(QUEUE, "x")
        session.commit()
        session.remove()

        assert bodies(database) == ["x"]

    @pytest.mark.parametrize("given", [None, "x", create_engine("sqlite://")], ids=["none", "text", "engine"])
    def test_what_is_not_a_connection_is_refused(self, given: Any) -> None:
        provider = SqlJms.from_url("sqlite://")

        with pytest.raises(ConfigurationError) as refused:
            provider.sending(given)

        assert refused.value.setting == "connection"
        drive(provider.close())

    def test_a_connection_that_commits_each_statement_sends_only_in_a_transaction(
        self, database: Database
    ) -> None:
        provider = database.provider()
        alone = database.engine.execution_options(isolation_level="AUTOCOMMIT")

        with alone.connect() as connection, pytest.raises(ConfigurationError) as refused:
            provider.sending(connection).send(QUEUE, "a")
        with alone.connect() as connection:
            connection.execute(text("BEGIN"))
            provider.sending(connection).send(QUEUE, "b")
            connection.execute(text("COMMIT"))

        assert (refused.value.setting, bodies(database)) == ("connection", ["b"])

    def test_a_connection_to_another_database_of_postgresql_is_refused(self, postgres_url: str) -> None:
        engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
        provider = SqlJms(engine)
        send(provider, QUEUE, Message(body="x"))

        with engine.connect() as connection:
            # Its numbers of messages are others, and those of the provider would seem to be sent already.
            connection.execute(text("CREATE SCHEMA doubtless_beside"))
            connection.execute(text("SET LOCAL search_path TO doubtless_beside"))
            drive(create(connection))
            with pytest.raises(ConfigurationError) as refused:
                provider.sending(connection).send(QUEUE, "y")
            connection.invalidate()

        assert refused.value.setting == "connection"
        drive(provider.close())
        engine.dispose()

    async def test_an_asyncio_connection_sends(self, database: Database) -> None:
        name = "sqlite+aiosqlite:" if database.engine.dialect.name == "sqlite" else "postgresql+psycopg:"
        engine = create_async_engine(name + database.url.partition(":")[2])
        provider = database.provider()
        opened(provider, QUEUE)  # this creates the tables and the queue

        async with engine.begin() as connection:
            if database.engine.dialect.name == "sqlite":
                driver = await connection.get_raw_connection()
                await driver.driver_connection.create_function("julianday", 1, lambda _: 2_440_587.5)  # type: ignore[union-attr]
            await provider.sending(connection).asend(QUEUE, "x")
        await engine.dispose()

        assert bodies(database, name="b") == ["x"]

    def test_many_messages_are_few_statements(self, database: Database) -> None:
        provider = database.provider()
        names = send(provider, QUEUE, *[Message(body=number, uuid=f"u{number}") for number in range(2500)])

        assert len(set(names)) == 2500
        receiver = opened(provider, QUEUE)
        found = [*received(receiver, 2000), *received(receiver, 2000), *received(receiver, 2000)]
        assert [one.message.body for one in found] == list(range(2500))


class TestDestinations:
    def test_a_topic_of_jms_keeps_nothing_for_nobody(self, database: Database) -> None:
        provider = database.provider()
        send(provider, "topic://orders", Message(body="early"))

        assert bodies(database, "topic://orders") == []
        assert set(database.counts().values()) == {0}

    def test_nothing_more_is_kept_for_the_first_subscriber_while_there_is_another(
        self, database: Database
    ) -> None:
        provider = database.provider()
        send(provider, "orders", Message(body="early"))
        jms = opened(provider, "topic://orders", subscription="jms")

        send(provider, "topic://orders", Message(body="late"))
        send(provider, "orders", Message(body="later"))

        assert [arrival.message.body for arrival in received(jms)] == ["late", "later"]
        assert bodies(database, "orders", subscription="first") == ["early"]

    def test_a_queue_is_shared_by_all_triggers(self, database: Database) -> None:
        provider = database.provider()
        one, two = (opened(provider, QUEUE, subscription=name) for name in ("one", "two"))
        send(provider, QUEUE, Message(body=1), Message(body=2))

        assert [arrival.message.body for arrival in (*received(one, 1), *received(two))] == [1, 2]

    def test_the_most_urgent_comes_first(self, database: Database) -> None:
        provider = database.provider()
        send(provider, QUEUE, *[Message(body=level, priority=level) for level in (4, 0, 9, 5)])

        assert bodies(database) == [9, 5, 4, 0]

    def test_a_subscription_cannot_change_its_kind(self, database: Database) -> None:
        provider = database.provider()
        opened(provider, "topic://t", subscription="s")

        with pytest.raises(ConfigurationError, match="durable"):
            opened(provider, "topic://t?durable=no", subscription="s", name="b")

    def test_a_subscription_with_a_consumer_cannot_be_ended(self, database: Database) -> None:
        provider = database.provider()
        opened(provider, "topic://t", subscription="s")

        with pytest.raises(ConfigurationError, match="living"):
            drive(provider.unsubscribe("topic://t", "s"))

    def test_a_queue_has_no_subscription_to_end(self, database: Database) -> None:
        provider = database.provider()
        drive(opened(provider, "topic://t", subscription="s").close())

        with pytest.raises(ConfigurationError) as refused:
            drive(provider.unsubscribe("queue://t", "s"))

        assert refused.value.setting == "destination"
        assert drive(provider.unsubscribe("topic://t", "s"))

    def test_a_subscription_of_a_dead_consumer_can_be_ended(self, database: Database) -> None:
        opened(database.provider(), "topic://t", subscription="s")
        database.set_clock(60_000)  # its lease is over, and nobody has looked since

        assert drive(database.provider().unsubscribe("topic://t", "s"))

        assert database.rows("SELECT * FROM dms_topic_sub") == []

    @pytest.mark.parametrize(
        "destination", ["", "queue://", "topic://t?durable=maybe", "topic://?durable=no"]
    )
    def test_a_destination_without_a_name_is_refused(self, database: Database, destination: str) -> None:
        with pytest.raises(ConfigurationError, match="destination"):
            send(database.provider(), destination, Message(body="x"))


class TestWaking:
    def test_who_waits_is_woken(self, database: Database) -> None:
        self._is_woken(database, lambda provider: send(provider, QUEUE, Message(body="x")))

    def test_who_waits_is_woken_by_another_ones_transaction(self, database: Database) -> None:
        def committed(provider: SqlJms) -> None:
            with database.engine.begin() as connection:
                provider.sending(connection).send(QUEUE, "x")

        self._is_woken(database, committed)

    def test_who_waits_is_woken_by_what_is_given_back(self, database: Database) -> None:
        other = opened(database.provider(), QUEUE, name="other")
        send(database.provider(), QUEUE, Message(body="x"))
        held = received(other)

        self._is_woken(database, lambda _: drive(other.recover(held)))

    def test_an_expired_message_does_not_delay_the_next_one(self, database: Database) -> None:
        provider = database.provider()
        provider._settings = ASLEEP  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        receiver = opened(provider, QUEUE)
        assert received(receiver) == []  # it sweeps now, and not again within this test
        mortal = Message(body="mortal", expiration=datetime.fromtimestamp(1, UTC))
        send(provider, QUEUE, *[mortal] * 4, Message(body="x"))

        found = drive(receiver.receive(1, timedelta(seconds=PATIENCE)))

        assert [arrival.message.body for arrival in found if isinstance(arrival, Arrival)] == ["x"]

    def _is_woken(self, database: Database, cause: Callable[[SqlJms], object]) -> None:
        provider = database.provider()
        provider._settings = ASLEEP  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        receiver = opened(provider, QUEUE)
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.extend(drive(receiver.receive(1, NEVER))))
        thread.start()

        cause(database.provider())
        thread.join(PATIENCE)

        assert len(found) == 1


class TestAtomic:
    def test_the_service_finds_its_message_gone_only_when_it_commits(self, database: Database) -> None:
        history, provider = database.history(), database.provider()
        receiver = opened(provider, QUEUE)
        send(provider, QUEUE, Message(body="x", uuid="u"))

        @trigger(QUEUE, name="t", history=history, transacted=True)
        def work(message: Message, connection: Connection) -> None:
            provider.sending(connection).send("queue://done", "y")

        [outcome] = drive(work.pipeline().deliver(receiver, received(receiver)))

        assert outcome.executed
        assert set(bodies(database, "queue://done")) == {"y"}
        assert database.rows("SELECT queue_name FROM dms_queue_entry NATURAL JOIN dms_queue") == [("done",)]
        assert drive(receiver.shares(history))

    def test_nothing_of_a_service_that_fails_is_left(self, database: Database) -> None:
        history, provider = database.history(), database.provider()
        receiver = opened(provider, QUEUE)
        send(provider, QUEUE, Message(body="x", uuid="u"))

        @trigger(QUEUE, name="t", history=history, transacted=True, redelivery=None)
        def work(message: Message, connection: Connection) -> None:
            provider.sending(connection).send("queue://done", "y")
            raise ConnectionError("try again")

        [outcome] = drive(work.pipeline().deliver(receiver, received(receiver)))

        assert not outcome.acknowledge
        assert bodies(database, "queue://done") == []
        [again] = received(receiver)
        assert again.message.delivery_count == 2

    def test_a_batch_is_one_transaction(self, database: Database) -> None:
        history, provider = database.history(), database.provider()
        receiver = opened(provider, QUEUE)
        send(provider, QUEUE, *[Message(body=number, uuid=f"u{number % 8}") for number in range(10)])
        seen: list[object] = []

        @trigger(QUEUE, name="t", history=history, transacted=True, batch=10)
        def work(messages: list[Message], connection: Connection) -> None:
            seen.append(sorted(str(one.body) for one in messages))

        outcomes = drive(work.pipeline().deliver(receiver, received(receiver)))

        assert seen == [[str(number) for number in range(8)]]
        assert [outcome.acknowledge for outcome in outcomes] == [True] * 10
        assert set(database.counts().values()) == {0}

    def test_a_history_elsewhere_is_not_joined(
        self, database: Database, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        elsewhere = SqlHistory.from_url(f"sqlite:///{tmp_path_factory.mktemp('h')}/history.sqlite3")
        provider = database.provider()
        receiver = opened(provider, QUEUE)
        send(provider, QUEUE, Message(body="x", uuid="u"))

        @trigger(QUEUE, name="t", history=elsewhere, transacted=True)
        def work(message: Message, connection: Connection) -> None:
            pass

        sharing: SharingTransactions = receiver
        assert not drive(sharing.shares(elsewhere))
        [outcome] = drive(work.pipeline().deliver(receiver, received(receiver)))
        assert outcome.executed
        assert set(database.counts().values()) == {0}
        drive(elsewhere.close())


async def test_a_twin_for_asyncio_connects_as_its_engine_does(postgres_url: str) -> None:
    url = postgres_url.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url, connect_args={"application_name": "shop"})
    twin, history = SqlJms(engine).for_asyncio(), SqlHistory(engine).for_asyncio()

    for opened_by in (twin, history):
        pooled: AsyncEngine = vars(opened_by)["_engine"]
        async with pooled.connect() as connection:
            assert await connection.scalar(text("SHOW application_name")) == "shop"

    await twin.close()
    await history.close()
    engine.dispose()


def test_an_engine_with_a_creator_has_no_twin(postgres_url: str) -> None:
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(postgres_url))

    with pytest.raises(ConfigurationError) as refused:
        SqlJms(engine).for_asyncio()

    assert refused.value.setting == "engine"


async def test_an_asyncio_trigger_is_atomic_too(postgres_url: str) -> None:
    provider = SqlJms.from_url(postgres_url).for_asyncio()
    history = SqlHistory.from_url(postgres_url).for_asyncio()
    receiver = await provider.open_receiver(QUEUE, subscription="s", name="a")
    await provider.send(QUEUE, [Message(body="x", uuid="u")])

    @trigger(QUEUE, name="t", history=history, transacted=True)
    async def work(message: Message, connection: AsyncConnection) -> None:
        await provider.sending(connection).asend("queue://done", message.body)

    found = await receiver.receive(1, timedelta(seconds=5))
    [outcome] = await work.async_pipeline().deliver(receiver, found)

    assert outcome.executed
    done = await provider.open_receiver("queue://done", subscription="s", name="b")
    assert len(await done.receive(10, timedelta(seconds=5))) == 1
    assert list(await receiver.receive(10, timedelta(0))) == []
    await asyncio.gather(receiver.close(), done.close())
    await provider.close()
    await history.close()
