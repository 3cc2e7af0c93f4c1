"""Administration of SQL-JMS on SQLite and PostgreSQL: list, move, copy, requeue, delete, release, reset."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from history import ConfigurationError, Message
from history.bridge import drive
from tests.fixtures.waiting import eventually
from triggers.providers import Arrival
from triggers.providers.sqljms.admin.admin import Admin, HeldError, NotFoundError
from triggers.providers.sqljms.limbo.admin import (
    drop_from_limbo,
    get_from_limbo,
    list_limbo,
    release_from_limbo,
)
from triggers.providers.sqljms.limbo.limbo import Again, Delayed, Limbo
from triggers.providers.sqljms.provider import SqlJms
from triggers.providers.sqljms.receiving.receiver import SqlReceiver


@pytest.fixture
def jms(sql_database: str) -> Iterator[SqlJms]:
    found = SqlJms.from_url(sql_database)
    yield found
    drive(found.close())


@pytest.fixture
def admin(sql_database: str) -> Iterator[Admin]:
    found = Admin.from_url(sql_database)
    yield found
    drive(found.close())


@contextmanager
def consumer(jms: SqlJms, destination: str, name: str = "one") -> Generator[SqlReceiver]:
    receiver = drive(jms.open_receiver(destination, subscription="booking", name=name))
    yield receiver
    drive(receiver.close())


def send(jms: SqlJms, destination: str, *uuids: str, **told: Any) -> None:
    messages = [Message(body=f"body of {uuid}", uuid=uuid, **told) for uuid in uuids]
    drive(jms.send(destination, messages))


def received(jms: SqlJms, destination: str) -> list[Message]:
    with consumer(jms, destination, "last") as receiver:
        found = [one for one in drive(receiver.receive(100, timedelta(0))) if isinstance(one, Arrival)]
        drive(receiver.acknowledge(found))
    return [one.message for one in found]


def numbers(admin: Admin, destination: str) -> list[int]:
    return [one.id for one in drive(admin.entries(destination))]


def test_queues_and_subscriptions_are_listed_with_backlog_and_oldest_age(jms: SqlJms, admin: Admin) -> None:
    with consumer(jms, "topic://prices"):
        send(jms, "topic://prices", "p1", "p2")
    send(jms, "queue://orders", "o1")
    send(jms, "queue://orders", "o2", delivery_time=datetime.now(UTC) + timedelta(hours=1))

    with consumer(jms, "queue://orders") as receiver:
        drive(receiver.receive(1, timedelta(0)))
        (queue,) = drive(admin.queues())
        (client,) = drive(admin.clients())
    (subscription,) = drive(admin.subscriptions())
    (topic,) = drive(admin.topics())

    assert (queue.name, queue.messages, queue.held, queue.later, queue.consumers) == ("orders", 2, 1, 1, 1)
    assert queue.oldest is not None
    assert timedelta(0) <= queue.oldest < timedelta(minutes=1)
    assert (client.alive, client.held) == (True, 1)
    told = (subscription.name, subscription.subscription, subscription.messages, subscription.active)
    assert told == ("prices", "booking", 2, False)
    assert (topic.name, topic.subscriptions, topic.messages) == ("prices", 1, 2)


def test_a_message_is_moved_whole_and_once(jms: SqlJms, admin: Admin) -> None:
    told = {"type": "order", "properties": {"colour": "red"}, "priority": 7, "correlation_id": "c"}
    send(jms, "queue://orders", "o1", "o2", **told)
    first, second = numbers(admin, "orders")
    (before, _) = drive(admin.entries("orders"))

    assert drive(admin.move("orders", "archive", [first])) == [first]

    assert numbers(admin, "orders") == [second]
    (message,) = received(jms, "queue://archive")
    assert (message.uuid, message.body, message.type, message.priority) == ("o1", "body of o1", "order", 7)
    assert (message.properties["colour"], message.correlation_id) == ("red", "c")
    assert message.message_id == f"ID:{before.id}"
    assert (message.delivery_count, message.destination) == (1, "archive")
    assert [one.uuid for one in received(jms, "queue://orders")] == ["o2"]


def test_a_move_to_a_topic_that_nobody_reads_yet_loses_nothing(jms: SqlJms, admin: Admin) -> None:
    send(jms, "queue://orders", "o1")

    drive(admin.move("orders", "topic://prices"))

    assert [one.uuid for one in received(jms, "prices")] == ["o1"]


def test_the_subscription_without_a_name_has_a_name_for_operators(jms: SqlJms, admin: Admin) -> None:
    send(jms, "prices", "o1")
    received(jms, "topic://prices")
    with pytest.raises(ConfigurationError, match="prices is a topic with: -, "):
        drive(admin.entries("prices"))

    (entry,) = drive(admin.entries("prices", "-"))
    drive(admin.unsubscribe("prices", "-"))

    assert entry.uuid == "o1"
    assert "" not in [view.subscription for view in drive(admin.subscriptions("prices"))]
    with pytest.raises(NotFoundError, match="subscription of prices '-'"):
        drive(admin.unsubscribe("prices", "-"))


def test_a_delayed_message_is_not_delivered_earlier_because_it_was_moved(jms: SqlJms, admin: Admin) -> None:
    due = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    send(jms, "queue://orders", "o1", delivery_time=due)

    drive(admin.move("orders", "queue://archive"))

    (entry,) = drive(admin.entries("archive"))
    assert entry.due == due
    assert received(jms, "queue://archive") == []


def test_a_copy_leaves_the_original(jms: SqlJms, admin: Admin) -> None:
    send(jms, "queue://orders", "o1")

    drive(admin.move("orders", "queue://audit", keep=True))

    assert [one.uuid for one in received(jms, "queue://audit")] == ["o1"]
    assert [one.uuid for one in received(jms, "queue://orders")] == ["o1"]


def test_what_a_living_consumer_handles_is_refused_unless_forced(jms: SqlJms, admin: Admin) -> None:
    send(jms, "queue://orders", "o1")

    with consumer(jms, "queue://orders") as receiver:
        held = drive(receiver.receive(1, timedelta(0)))
        for change in (
            admin.move("orders", "archive"),
            admin.delete("orders"),
            admin.drop("orders"),
            admin.reset("one (booking on queue://orders)"),
        ):
            with pytest.raises(HeldError) as refused:
                drive(change)
            assert refused.value.__cause__ is None
        assert drive(admin.entries("orders"))[0].alive
        assert len(drive(admin.delete("orders", force=True))) == 1
        drive(receiver.acknowledge(held))  # it meets nothing

    assert drive(admin.entries("orders")) == []


def test_dead_letters_and_failures_go_back_to_where_they_came_from(jms: SqlJms, admin: Admin) -> None:
    send(jms, "queue://orders", "o1")
    with consumer(jms, "queue://orders") as receiver:
        drive(receiver.dead_letter(drive(receiver.receive(1, timedelta(0))), "it was no order"))
    send(
        jms, "queue://failures", "o2", properties={"doubtless_destination": "orders", "doubtless_cause": "x"}
    )

    assert len(drive(admin.requeue("DLQ.orders"))) == 1
    assert len(drive(admin.requeue("failures"))) == 1

    found = received(jms, "queue://orders")
    assert sorted(one.uuid or "" for one in found) == ["o1", "o2"]
    assert all(set(one.properties) <= {"uuid"} for one in found)
    send(jms, "queue://failures", "o3")
    with pytest.raises(NotFoundError, match="origin"):
        drive(admin.requeue("failures"))
    drive(admin.requeue("failures", target="orders"))
    assert [one.uuid for one in received(jms, "queue://orders")] == ["o3"]


def test_a_delayed_entry_is_released_now(jms: SqlJms, admin: Admin) -> None:
    send(jms, "queue://orders", "o1", delivery_time=datetime.now(UTC) + timedelta(hours=1))

    assert len(drive(admin.release_now("orders"))) == 1
    assert drive(admin.release_now("orders")) == []

    assert [one.uuid for one in received(jms, "queue://orders")] == ["o1"]


def test_an_unsubscription_deletes_what_was_not_read(jms: SqlJms, admin: Admin) -> None:
    with consumer(jms, "topic://prices"):
        send(jms, "topic://prices", "p1")

    drive(admin.unsubscribe("topic://prices", "booking"))

    assert drive(admin.subscriptions()) == []
    with pytest.raises(NotFoundError):
        drive(admin.unsubscribe("prices", "booking"))
    drive(admin.drop("prices"))
    assert drive(admin.topics()) == []


@pytest.mark.parametrize("destination", ["queue://orders", "orders"], ids=["queue", "topic"])
def test_a_consumer_finds_its_destination_again_after_it_was_dropped(
    sql_database: str, admin: Admin, destination: str
) -> None:
    jms = SqlJms.from_url(f"{sql_database}{'&' if '?' in sql_database else '?'}lease=0.3")
    with consumer(jms, destination) as receiver:
        drive(admin.drop(destination))
        send(jms, destination, "o1")

        found = eventually(lambda: drive(receiver.receive(1, timedelta(0))))

    assert [one.message.uuid for one in found if isinstance(one, Arrival)] == ["o1"]
    drive(jms.close())


def test_a_message_is_shown_whole_and_where_it_waits(jms: SqlJms, admin: Admin) -> None:
    send(jms, "queue://orders", "o1")
    (number,) = numbers(admin, "orders")

    found = drive(admin.message(number))

    assert (found.message.uuid, found.message.body) == ("o1", "body of o1")
    assert [(one.kind, one.name) for one in found.places] == [("queue", "orders")]
    with pytest.raises(NotFoundError):
        drive(admin.message(number + 1))


def test_a_topic_with_several_subscriptions_wants_the_name_of_one(jms: SqlJms, admin: Admin) -> None:
    for name in ("a", "b"):
        drive(drive(jms.open_receiver("topic://prices", subscription=name, name="c")).close())
    send(jms, "topic://prices", "p1")

    with pytest.raises(ConfigurationError, match="a, b"):
        drive(admin.entries("prices"))

    assert len(drive(admin.delete("prices", subscription="a"))) == 1
    assert [len(drive(admin.entries("prices", name))) for name in ("a", "b")] == [0, 1]


def test_limbo_is_listed_shown_released_and_dropped(sql_database: str) -> None:
    limbo = Limbo.from_url(sql_database)
    again = Again(
        input="booking", attempts=1, delay=timedelta(hours=1), max_attempts=3, failure_port="F", error="no"
    )
    message = Message(body="hello", uuid="m1")
    drive(
        limbo.put(
            [
                Delayed(component="a", port="P", message=message, due=datetime.now(UTC) + timedelta(days=1)),
                Delayed(component="b", port="Q", message=message, again=again),
            ]
        )
    )

    (second, first), total = drive(list_limbo(limbo))
    assert (total, first.component, second.again) == (2, "a", again)
    assert drive(list_limbo(limbo, input_name="booking"))[1] == 1
    assert drive(get_from_limbo(limbo, first.id)).message.body == "hello"
    assert drive(release_from_limbo(limbo, [second.id])) == [second.id]
    assert drive(release_from_limbo(limbo, [second.id])) == []
    drive(limbo.take("booking"))
    with pytest.raises(HeldError):
        drive(drop_from_limbo(limbo, [second.id]))
    assert sorted(drive(drop_from_limbo(limbo, [first.id, second.id], force=True))) == [first.id, second.id]
    assert drive(list_limbo(limbo)) == ([], 0)
    with pytest.raises(NotFoundError):
        drive(get_from_limbo(limbo, first.id))
    drive(limbo.close())
