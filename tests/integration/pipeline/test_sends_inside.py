"""If an atomic service sends to SQL-JMS in its own database, the message is committed with its effects."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from history.bridge import drive
from history.errors import EffectsDiscardedError
from tests.fixtures.databases import asked, engine_at
from triggers import Message, Producer, TransientError, Trigger, trigger
from triggers.pipeline.pipeline import Step
from triggers.providers.memory import MemoryProvider

pytestmark = pytest.mark.usefixtures("fresh_components")


class Shop:
    """An atomic trigger and a producer in the same database. The service writes an effect and sends."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.producer = Producer(url)
        self.failures: list[Exception] = []
        self.rows("CREATE TABLE effects (uuid TEXT)")

    def trigger(self, kind: str) -> Trigger[..., None]:
        def work(message: Message, run: Any) -> None:
            run.execute(text("INSERT INTO effects (uuid) VALUES (:uuid)"), {"uuid": message.uuid})
            self.producer.send("queue://invoices", {"of": message.uuid})
            if self.failures:
                raise self.failures.pop(0)

        def in_connection(message: Message, connection: Connection) -> None:
            work(message, connection)

        def in_session(message: Message, session: Session) -> None:
            work(message, session)

        if kind == "connection":
            return trigger("orders", name="shop", history=self.url, transacted=True)(in_connection)
        return trigger("orders", name="shop", history=self.url, transacted=True)(in_session)

    def rows(self, query: str) -> list[tuple[object, ...]]:
        return asked(self.url, query)

    @property
    def sent(self) -> list[tuple[object, ...]]:
        return self.rows("SELECT m.uuid FROM dms_queue_entry AS e JOIN dms_msg AS m ON m.msg_id = e.msg_id")


@pytest.fixture
def shop(sql_database: str) -> Iterator[Shop]:
    shop = Shop(sql_database)
    yield shop
    shop.producer.close()


@pytest.mark.parametrize("kind", ["connection", "session"])
@pytest.mark.parametrize("used", [False, True], ids=["first use", "later"])
def test_a_message_is_sent_when_the_effect_is_committed(shop: Shop, kind: str, *, used: bool) -> None:
    producer = shop.producer if used else Producer(shop.url)
    producer.send("queue://others", "hello")
    producer.close()
    book = shop.trigger(kind)
    shop.failures = [TransientError("for now")]
    seen: list[tuple[str, int]] = []

    def observe(step: Step) -> None:
        if step in {Step.RUN, Step.COMPLETED}:
            seen.append((step.name, len(shop.sent)))

    pipeline = book.pipeline(observe)
    for count in (1, 2):
        book.handle(Message(uuid="order-1", body="", delivery_count=count))
    book.close()

    assert pipeline.store is not None
    assert (shop.rows("SELECT uuid FROM effects"), len(shop.sent)) == ([("order-1",)], 2)
    # Before the commit, nobody else sees it.
    assert seen[-2:] == [("RUN", 1), ("COMPLETED", 2)]


class Base(DeclarativeBase):
    pass


class Effect(Base):
    __tablename__ = "unique_effects"

    uuid: Mapped[str] = mapped_column(primary_key=True)


@pytest.mark.parametrize("closes", [False, True], ids=["the database refuses them", "the service closed it"])
def test_nothing_leaves_if_the_changes_in_the_session_are_not_kept(
    sql_database: str, *, closes: bool
) -> None:
    with engine_at(sql_database) as engine:
        Base.metadata.create_all(engine)
        with Session(engine) as session, session.begin():
            session.add(Effect(uuid="order-1"))
    elsewhere = MemoryProvider()
    producer = Producer(elsewhere)

    @trigger("orders", name="shop", history=sql_database, transacted=True)
    def order(message: Message, session: Session) -> None:
        session.add(Effect(uuid="order-2" if closes else "order-1"))
        producer.send("invoices", {"of": message.uuid})
        if closes:
            session.flush()
            session.close()

    outcome = order.handle(Message(uuid="order-1", body=""))
    order.close()
    receiver = drive(elsewhere.open_receiver("invoices", subscription="look", name="look"))
    sent = drive(receiver.receive(10))
    drive(receiver.close())

    assert isinstance(outcome.error, EffectsDiscardedError if closes else IntegrityError)
    assert list(sent) == []


@pytest.mark.parametrize("way", ["send", "asend"])
async def test_a_coroutine_function_sends_in_its_transaction(shop: Shop, way: str) -> None:
    failures = [TransientError("for now")]
    seen: list[tuple[str, int]] = []

    @trigger("orders", name="shop", history=shop.url, transacted=True)
    async def order(message: Message, connection: AsyncConnection) -> None:
        await connection.execute(text("INSERT INTO effects (uuid) VALUES (:uuid)"), {"uuid": message.uuid})
        if way == "send":
            shop.producer.send("queue://invoices", {"of": message.uuid})
        else:
            await shop.producer.asend("queue://invoices", {"of": message.uuid})
        if failures:
            raise failures.pop()

    def observe(step: Step) -> None:
        if step in {Step.RUN, Step.COMPLETED}:
            seen.append((step.name, len(shop.sent)))

    shop.producer.send("queue://others", "hello")  # makes the tables
    order.async_pipeline(observe)
    for count in (1, 2):
        await order.ahandle(Message(uuid="order-1", body="", delivery_count=count))
    await order.aclose()
    await shop.producer.aclose()

    assert shop.rows("SELECT uuid FROM effects") == [("order-1",)]
    assert seen[-2:] == [("RUN", 1), ("COMPLETED", 2)]
