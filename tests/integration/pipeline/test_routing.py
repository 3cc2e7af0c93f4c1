"""Selectors and routing rules in consumers, blocking and asyncio, on real servers."""

import asyncio
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, text

from history import EntryOutcome, Message
from history.bridge import drive
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Lane, entry_in, is_drained, parked_in
from triggers import open_provider, trigger
from triggers.consumer.options import AnyTrigger


def send(url: str, *messages: Message) -> None:
    provider = open_provider(url)
    drive(provider.send("orders", messages))
    drive(provider.close())


def add_route(lane: Lane, book: AnyTrigger, name: str, wanted: Any, ran: list[str]) -> None:
    """Add a rule with a service that notes its runs."""

    def service(message: Message) -> None:
        ran.append(f"{name} {message.uuid}")

    async def async_service(message: Message) -> None:
        await asyncio.to_thread(service, message)

    book.route(name, filter=wanted)(async_service if lane.asyncio else service)


def test_each_message_reaches_the_service_it_is_for_once(
    lane: Lane, redis_url: str, history_url: str
) -> None:
    ran: list[str] = []
    book = lane.trigger(
        "orders",
        lambda message: ran.append(f"book {message.uuid}"),
        selector="region = 'EU'",
        filter="JMSType IS NULL",
    )
    add_route(lane, book, "cancel", "JMSType = 'cancel'", ran)
    add_route(lane, book, "large", "body.order.amount >= 1000", ran)
    eu = {"region": "EU"}
    send(
        redis_url,
        Message(uuid="1", body="{}", properties=eu),
        Message(uuid="2", body="{}", properties=eu, type="cancel"),
        Message(uuid="3", body=b'{"order": {"amount": 1000}}', properties=eu, type="any"),
        Message(uuid="4", body="{}", properties=eu, type="nobody's"),
        Message(uuid="5", body="{}", properties={"region": "US"}),
        Message(uuid="2", body="{}", properties=eu, type="cancel"),
    )

    with lane.run([book], redis_url, history=history_url) as running:
        eventually(lambda: is_drained(redis_url, "orders"))

    assert ran == ["book 1", "cancel 2", "large 3"]
    assert running.counts == {"orders": {"ok": 3, "duplicate": 1, "unmatched": 2}}
    entries = {uuid: entry_in(history_url, "orders", uuid) for uuid in "12345"}
    assert {uuid for uuid, entry in entries.items() if entry is not None} == set("123")
    assert all(entry.outcome is EntryOutcome.OK for entry in entries.values() if entry is not None)
    assert parked_in(history_url, "orders") == []


def test_a_message_that_nobody_wants_is_acknowledged_while_the_history_is_away(
    lane: Lane, redis_url: str
) -> None:
    book = lane.trigger("orders", lambda _: None, selector="region = 'EU'", history="redis://127.0.0.1:1/0")
    send(redis_url, Message(uuid="1", body="{}", properties={"region": "US"}))

    with lane.run([book], redis_url) as running:
        eventually(lambda: is_drained(redis_url, "orders"))

    assert running.counts == {"orders": {"unmatched": 1}}


def test_an_atomic_trigger_s_rules_share_its_transaction(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/orders.sqlite3"
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE ran (name TEXT)"))

    @trigger("orders", name="orders", history=url, transacted=True, filter="JMSType IS NULL")
    def book(connection: Connection) -> None:
        connection.execute(text("INSERT INTO ran VALUES ('book')"))

    @book.route("cancel", filter="JMSType = 'cancel'")
    def cancel(connection: Connection, message: Message) -> None:
        connection.execute(text("INSERT INTO ran VALUES ('cancel')"))
        if message.body == "fails":
            raise ValueError(message.body)

    kinds = {"1": None, "2": "cancel", "3": "nobody's"}
    messages = [Message(uuid=uuid, body="{}", type=kind) for uuid, kind in kinds.items()]
    outcomes = book.handle_batch([*messages, Message(uuid="4", body="fails", type="cancel")])
    book.close()

    assert [outcome.executed for outcome in outcomes] == [True, True, False, True]
    with engine.connect() as connection:
        assert connection.execute(text("SELECT name FROM ran")).scalars().all() == ["book", "cancel"]
    entries = [entry_in(url, "orders", uuid) for uuid in "1234"]
    assert [entry and entry.outcome for entry in entries] == ["ok", "ok", None, "failed"]
    assert callable(cancel)
    engine.dispose()


def test_rules_in_series_run_in_the_order_in_which_their_messages_were_sent(
    lane: Lane, redis_url: str
) -> None:
    ran: list[str] = []
    book = lane.trigger("orders", lambda message: ran.append(f"ship {message.uuid}"), concurrency=1)
    add_route(lane, book, "create", "JMSType = 'create'", ran)
    add_route(lane, book, "pay", "JMSType = 'pay'", ran)
    kinds = ["create", "pay", "ship"] * 10
    send(redis_url, *(Message(uuid=str(n), body="", type=kind) for n, kind in enumerate(kinds)))

    with lane.run([book], redis_url, history=redis_url):
        eventually(lambda: is_drained(redis_url, "orders"))

    assert ran == [f"{kind} {n}" for n, kind in enumerate(kinds)]
    with connected(redis_url) as client:
        assert client.xlen("orders") in {0, len(kinds)}
