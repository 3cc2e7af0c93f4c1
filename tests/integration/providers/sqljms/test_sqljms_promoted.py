"""A standby is promoted without the last commits: SQL-JMS never uses an id of a lost message again."""

import logging
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from history.memory import MemoryHistory
from history.store import instant
from tests.fixtures.servers.pgbouncer import PgBouncer
from tests.fixtures.servers.postgres_pair import Pair
from triggers import Message, Status, trigger
from triggers.providers.provider import Arrival
from triggers.providers.sqljms.limbo.limbo import Delayed as LimboEntry
from triggers.providers.sqljms.limbo.limbo import Limbo
from triggers.providers.sqljms.link import BLOCK
from triggers.providers.sqljms.provider import SqlJms

QUEUE = "queue://orders"


@pytest.fixture
def pooler() -> Iterator[PgBouncer]:
    with tempfile.TemporaryDirectory(prefix="doubtless-pgbouncer-") as folder:
        pooler = PgBouncer(Path(folder), backends=2)
        yield pooler
        pooler.kill()


async def _sent(url: str, count: int) -> list[str]:
    """Send messages without a uuid through a new provider, like another process. Return their ids."""
    provider = SqlJms.from_url(url)
    names = await provider.send(QUEUE, [Message(body=number) for number in range(count)])
    await provider.close()
    return list(names)


def _lose_tables(url: str) -> None:
    with psycopg.connect(url) as connection:
        ((schema,),) = connection.execute("SHOW search_path").fetchall()
        for statement in ("DROP SCHEMA {} CASCADE", "CREATE SCHEMA {}"):
            connection.execute(sql.SQL(statement).format(sql.Identifier(schema)))


async def _client(url: str) -> int:
    """Open a consumer, and close it; return its id."""
    provider = SqlJms.from_url(url)
    receiver = await provider.open_receiver(QUEUE, subscription="book", name="one")
    with psycopg.connect(url) as connection:
        ((number,),) = connection.execute("SELECT client_id FROM dms_client").fetchall()
    await receiver.close()
    await provider.close()
    return int(number)


async def test_a_message_sent_after_a_promotion_is_not_taken_for_one_that_was_lost(
    postgres_pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    @trigger("orders", name="book", history=MemoryHistory())
    def book(message: Message) -> None: ...

    await _sent(postgres_pair.url, 1)
    postgres_pair.copy()
    lost = await _sent(postgres_pair.url, 3)
    assert {book.handle(Message(message_id=name, body="")).status for name in lost} == {Status.NEW}
    client = await _client(postgres_pair.url)
    postgres_pair.fail_over()

    with caplog.at_level(logging.WARNING):
        sent = await _sent(postgres_pair.url, 3)

    assert not set(sent) & set(lost)
    assert {book.handle(Message(message_id=name, body="")).status for name in sent} == {Status.NEW}
    assert "SQL-JMS is on another server than before" in caplog.text
    assert await _client(postgres_pair.url) > client


async def test_no_number_of_the_limbo_comes_twice(
    postgres_pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    async def put(uuid: str) -> int:
        """Put a message into limbo through a new connection, like another process. Return its number."""
        limbo = Limbo.from_url(postgres_pair.url)
        message = Message(body="", uuid=uuid)
        await limbo.put([LimboEntry(component="shop", port="OUT", message=message, due=instant(0))])
        await limbo.close()
        with psycopg.connect(postgres_pair.url) as connection:
            row = connection.execute("SELECT msg_id FROM dms_limbo_state WHERE uuid = %s", [uuid]).fetchone()
        assert row is not None
        return int(row[0])

    await put("kept")
    postgres_pair.copy()
    # More than PostgreSQL logs ahead: after a crash it skips the numbers that it logged.
    lost = max([await put("lost"), *[await put(f"lost {number}") for number in range(34)]])
    postgres_pair.fail_over()

    with caplog.at_level(logging.WARNING):
        assert await put("after") > lost

    assert "SQL-JMS is on another server than before" in caplog.text


async def test_a_connection_that_a_pooler_kept_open_notices_before_it_numbers_messages(
    postgres_pair: Pair, pooler: PgBouncer
) -> None:
    pooler.start(postgres_pair.primary.url)
    provider = SqlJms.from_url(f"postgresql://anybody@127.0.0.1:{pooler.port}/postgres")
    await provider.send(QUEUE, [Message(body="")])
    postgres_pair.copy()
    lost = await _sent(postgres_pair.url, 3)
    postgres_pair.fail_over()
    pooler.turn_to(postgres_pair.promoted)

    sent = await provider.send(QUEUE, [Message(body="")] * BLOCK)

    assert not set(sent) & set(lost)
    await provider.close()


async def test_a_sender_takes_no_number_of_lost_tables_for_another_queue(postgres_url: str) -> None:
    """Senders run while an old dump without their queue is restored. Another queue then gets its number."""
    sender, another = (SqlJms.from_url(postgres_url) for _ in range(2))
    await sender.send(QUEUE, [Message(body="", uuid="lost")])
    _lose_tables(postgres_url)
    await another.send("queue://invoices", [Message(body="", uuid="b")])

    await sender.send(QUEUE, [Message(body="", uuid="a")])

    for queue, uuid in (("queue://invoices", "b"), (QUEUE, "a")):
        receiver = await another.open_receiver(queue, subscription="book", name=queue)
        (received,) = await receiver.receive(10)
        assert isinstance(received, Arrival)
        assert received.message.uuid == uuid
        await receiver.close()
    for provider in (sender, another):
        await provider.close()


async def test_a_consumer_is_given_no_message_of_a_queue_that_got_its_number(postgres_url: str) -> None:
    """Another queue gets a lost queue's number while its consumers run. They look up their queue again."""
    provider, another = (SqlJms.from_url(postgres_url) for _ in range(2))
    receiver = await provider.open_receiver(QUEUE, subscription="book", name="one")
    assert await receiver.receive(10, timedelta(0)) == []
    _lose_tables(postgres_url)
    other = await another.open_receiver("queue://invoices", subscription="bill", name="one")
    await another.send("queue://invoices", [Message(body="", uuid="a")])

    assert await receiver.receive(10, timedelta(0)) == []
    assert len(await other.receive(10)) == 1
    for opened in (receiver, other, provider, another):
        await opened.close()
