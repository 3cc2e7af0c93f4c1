"""Uses of the public API as users write them: type-checked by mypy and pyright, never run."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, assert_type

import redis
import redis.asyncio
from pydantic import BaseModel
from sqlalchemy import Connection, create_engine
from sqlalchemy.ext.asyncio import AsyncSession

from history import (
    BatchOwner,
    Claim,
    Entry,
    HistoryStore,
    MemoryHistory,
    RedisHistory,
    Settlement,
    SqlHistory,
    open_history,
)
from resolvers import Evidence, Resolution, Resolved, Resolver, chain, load_resolver, sql_row_exists
from triggers import (
    Cause,
    ConfigurationError,
    Delivery,
    FailedBeforeError,
    FatalError,
    Keep,
    Message,
    Outcome,
    Producer,
    RetrievalFailureEvent,
    Retry,
    SentMessage,
    Status,
    Subscription,
    TransientError,
    Trigger,
    trigger,
)
from triggers import on_retrieval_failure as on_failure
from triggers.configuration import Configuration, override, read_configuration
from triggers.guards import protect


class Order(BaseModel):
    id: str
    amount: float


def already_booked(uuid: str, trigger_name: str, message: Message) -> Resolution:
    return Resolution.DUPLICATE if message.uuid == uuid and trigger_name else Resolution.IN_DOUBT


def told_more(uuid: str, trigger_name: str, message: Message, evidence: Evidence) -> Resolved:
    assert_type(evidence.owner, str | None)
    assert_type(evidence.delivery_count, int)
    assert_type(evidence.fence, int | None)
    return Resolved(Resolution.NEW, reason=f"{trigger_name} {uuid} {message.body!r} {evidence.started_at}")


async def looked_up(uuid: str, trigger_name: str, message: Message) -> Resolution:
    return already_booked(uuid, trigger_name, message)


def resource_is_back() -> bool:
    return True


@trigger(
    "orders",
    name="book-order",
    history="redis://127.0.0.1:6379/0",
    resolver=already_booked,
    max_delivery_count=100,
    history_time_to_live=timedelta(days=7),
    lease=None,
    in_doubt="park",
    retry=Retry(max_attempts=3, interval=timedelta(seconds=1), backoff=2.0),
    on_retry_failure="throw",
    on_history_error="suspend",
    transient=(ConnectionError, TimeoutError),
    monitor=resource_is_back,
    monitor_interval=timedelta(seconds=60),
    transacted=False,
    concurrency=1,
    detect_duplicates=True,
    shadow=False,
    keep_result=Keep(limit=1000),
    fingerprint="body",
    journal=True,
    max_body_size=1024,
    on_duplicate=lambda _message, _outcome: None,
    uuid=lambda message: (
        message.properties["event_id"] if isinstance(message.properties["event_id"], str) else b""
    ),
    parking="postgresql://127.0.0.1/parked",
    local_parking_file=Path("parked.sqlite3"),
)
def book(order: Order, message: Message) -> None:
    if order.amount < 0:
        raise FatalError(f"no such amount in {message.uuid}")
    raise TransientError


@trigger("orders", history=None, resolver="shop.resolvers:booked")
def price(order: Order, *, delivery: Delivery) -> str:
    assert_type(delivery.uuid, str | None)
    assert_type(delivery.fence, int | None)
    assert_type(delivery.attempt, int)
    assert_type(delivery.trigger_name, str)
    return order.id


@trigger("orders", history=MemoryHistory(), resolver=looked_up, lease=timedelta(seconds=30))
async def ship(order: Order) -> int:
    return len(order.id)


@trigger("orders", resolver=told_more, in_doubt="execute", on_retry_failure="suspend")
def defaulted(body: dict[str, Any]) -> None:
    """Take what the consumer's history protects."""
    del body


def the_plain_function_still_works(order: Order, message: Message) -> None:
    assert_type(price(order, delivery=Delivery(uuid="u", fence=1, attempt=1, trigger_name="price")), str)
    book(order, message)
    book(order=order, message=message)


def misuse_is_seen_by_the_type_checker(order: Order) -> None:
    book(order)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    price(order, delivery=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    trigger("orders", in_doubt="guess")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    trigger("orders", lease=60)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    trigger("orders", retries=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    trigger("orders", retry=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def whole_messages_are_handled(message: Message) -> Outcome:
    assert_type(book.handle(message), Outcome)
    assert_type(book.handle_batch([message]), Sequence[Outcome])
    assert_type(book.name, str)
    assert_type(book.destination, str)
    book.use_default_history("sqlite:///history.db")
    book.close()
    return price.handle(message)


async def under_asyncio_as_well(message: Message) -> None:
    assert_type(await ship(Order(id="o", amount=1)), int)
    assert_type(await ship.ahandle(message), Outcome)
    assert_type(await ship.ahandle_batch([message]), Sequence[Outcome])
    assert_type(await book.ahandle(message), Outcome)
    assert_type(await book.ahandle(message, wait=timedelta(seconds=5)), Outcome)
    await ship.aclose()


def an_outcome_is_read(outcome: Outcome) -> str:
    assert_type(outcome.status, Status | None)
    assert_type(outcome.executed, bool)
    assert_type(outcome.acknowledge, bool)
    assert_type(outcome.rejected, bool)
    assert_type(outcome.suspend, bool)
    assert_type(outcome.reason, str)
    assert_type(outcome.error, BaseException | None)
    assert_type(outcome.event, RetrievalFailureEvent | None)
    match outcome.status:
        case Status.NEW:
            return str(outcome.result)
        case Status.DUPLICATE | Status.IN_DOUBT | None:
            return outcome.reason


def messages_are_made() -> Sequence[Message]:
    message = Message(
        body=b"{}",
        uuid="o-1",
        message_id="ID:1",
        delivery_count=1,
        redelivered=False,
        persistent=True,
        correlation_id=None,
        type=None,
        destination="orders",
        reply_to=None,
        priority=4,
        timestamp=None,
        expiration=None,
        group_id=None,
        group_sequence=None,
        properties={"shop": "rome", "express": True, "weight": 1.5, "note": None},
    )
    assert_type(message.uuid, str | None)
    assert_type(message.delivery_count, int)
    assert_type(Message.from_headers({"JMSMessageID": "ID:1", "JMSXDeliveryCount": "2"}, "text"), Message)
    assert_type(Message.from_json(message.to_json()), Message)
    message.priority = 5  # type: ignore[misc]
    return [
        message,
        Message(body={"id": "o-1", "amount": [1, 2.5]}),
        Message(body="text"),
        Message(body=None),
    ]


@on_failure(trigger="book-*")
def tell(event: RetrievalFailureEvent) -> None:
    assert_type(event.trigger_name, str)
    assert_type(event.destination, str)
    assert_type(event.destination_index, int)
    assert_type(event.delivery_count, int)
    assert_type(event.exception_class, str | None)
    assert_type(event.exception_message, str | None)
    assert_type(event.cause, Cause)
    assert_type(event.message, Message | None)
    assert_type(event.to_cloudevent(), dict[str, Any])


@on_failure()
async def tell_later(event: RetrievalFailureEvent) -> None:
    assert event.time.tzinfo is not None


def subscriptions_end() -> None:
    assert_type(tell, Subscription)
    tell.cancel()
    tell_later.cancel()


def histories_are_opened() -> Sequence[HistoryStore]:
    return [
        open_history("memory://"),
        RedisHistory.from_url("redis://127.0.0.1:6379/0"),
        RedisHistory(redis.Redis()),
        RedisHistory(redis.asyncio.Redis()),
        SqlHistory.from_url("postgresql://127.0.0.1/history"),
        SqlHistory(create_engine("sqlite:///history.db")),
        MemoryHistory(),
    ]


async def histories_are_asked(history: HistoryStore, settlements: Sequence[Settlement]) -> None:
    assert_type(await history.claim("book", ["o-1"], "owner", timedelta(seconds=30)), Sequence[Claim])
    assert_type(await history.claim("book", ["o-1"], BatchOwner("query/7")), Sequence[Claim])
    assert_type(await history.take_over("book", "o-1", "owner", None, 7), Claim | None)
    assert_type(await history.settle("book", settlements), Sequence[bool])
    assert_type(await history.complete("book", "o-1", 7), bool)
    assert_type(await history.release("book", "o-1", 7), bool)
    assert_type(await history.renew("book", "o-1", 7, timedelta(seconds=30)), bool)
    assert_type(await history.lookup("book", ["o-1"]), Sequence[Entry | None])
    assert_type(await history.purge("book"), int)
    assert_type((await history.purge_some("book", "a cursor")).cursor, str | None)
    assert_type(await history.forget("book", "o-1"), bool)


def resolvers_are_combined() -> Sequence[Resolver]:
    booked = sql_row_exists("sqlite:///shop.db", "SELECT 1 FROM bookings WHERE uuid = :uuid")
    loaded = load_resolver("shop.resolvers:booked")
    return [chain(already_booked, booked), told_more, looked_up, *([] if loaded is None else [loaded])]


@trigger("orders", transacted=True, on_rollback="suspend_and_recover", suspend_on_error=True)
def booked_atomically(order: Order, connection: Connection) -> None: ...


@trigger(
    "orders",
    transacted=True,
    forgotten="in_doubt",
    on_duplicate="orders.duplicates",
    resolved_duplicate="leave",
    redelivery_horizon=timedelta(days=30),
)
async def booked_later(order: Order, session: AsyncSession) -> None: ...


@trigger("orders", batch=50, acknowledge_mode="client", selector="JMSPriority > 4")
def booked_together(orders: list[Order], deliveries: list[Delivery]) -> None: ...


@trigger(["orders", "payments"], join="all", join_timeout=timedelta(hours=1))
def shipped(order: Order, payment: Order, delivery: Delivery) -> None:
    delivery.check()


@trigger("orders", ordered=True, concurrency=8, filter="body.amount > 100")
def booked_in_order(order: Order) -> None: ...


@booked_in_order.route("cancel", filter=lambda message: message.type == "cancel")
def cancelled(message: Message) -> str:
    return str(message.body)


def messages_are_sent() -> None:
    with Producer("redis://127.0.0.1:6379/0", queue=Path("queue.sqlite3")) as producer:
        assert_type(producer.send("orders", {"id": "1"}, priority=9, delay=timedelta(seconds=5)), SentMessage)
        assert_type(producer.request("prices", "N-1", timeout=timedelta(seconds=2)), Message | None)
    assert_type(cancelled(Message(body=1)), str)


def mistakes_are_told(error: ConfigurationError) -> Sequence[str]:
    return [error.setting, error.problem, error.remedy]


def triggers_are_values(triggers: Sequence[Trigger[..., Any]]) -> None:
    for one in triggers:
        one.close()


triggers_are_values([book, price, ship, defaulted])


def charge_once(order: Order) -> str:
    guard = protect("charge", history=None, keep_result=Keep(limit=1000), fingerprint="body")
    protect("charge", history=None, transient=lambda error: "busy" in str(error), resolved_duplicate="leave")
    by_amount = protect("charge", history=None, fingerprint=lambda message: message.properties["amount"])
    assert_type(by_amount.name, str)
    outcome = guard.handle(order.id, lambda: order.amount, body={"amount": order.amount})
    return outcome.error.error_class if isinstance(outcome.error, FailedBeforeError) else outcome.reason


def as_configured() -> None:
    configuration = read_configuration(Path("/etc/orders.toml"))
    assert_type(configuration, Configuration)
    for configured in override([book, ship], configuration, complete=False):
        assert_type(configured.name, str)
