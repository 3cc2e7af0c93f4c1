"""The vectors of the facts about SQL-JMS, D1 to D10 and D14 to D16, under a stopped clock."""

import os
import threading
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, text

from history import Message, SqlHistory
from history.bridge import drive
from tests.fixtures.sqljms import Database, opened, received, send
from tests.fixtures.threads import in_threads
from triggers import trigger
from triggers.pipeline.protocol import Pipeline
from triggers.providers.sqljms.properties import PropertyFormatError, PropertyType, Stored

QUEUE = "queue://q"

ENTRY = """SELECT delivery_date, handling_client_id, read_state, delivery_count FROM dms_queue_entry
    ORDER BY msg_id"""

NOTHING = {"dms_msg": 0, "dms_msg_properties": 0, "dms_queue_entry": 0, "dms_topic_entry": 0}

ONE = Message(body="x", properties={"colour": "red"})


def test_d1_a_message_is_claimed_by_one_client_and_gone_when_it_is_done(database: Database) -> None:
    provider, other = database.provider(), database.provider()
    seven, eight = opened(provider, QUEUE, name="seven"), opened(other, QUEUE, name="eight")
    send(provider, QUEUE, ONE)
    assert database.rows("SELECT reference_count FROM dms_msg") == [(1,)]
    assert database.rows(ENTRY) == [(1000, -1, 0, 0)]

    database.set_clock(1001)
    [arrival] = received(seven)
    ((_, client, token, count),) = database.rows(ENTRY)

    assert client == database.value("SELECT client_id FROM dms_client WHERE client_name LIKE 'seven%'")
    assert (token != 0, count) == (True, 1)
    assert received(eight) == []
    drive(seven.acknowledge([arrival]))
    assert database.counts() == NOTHING


def test_d2_a_rollback_frees_the_entry_and_marks_the_message(database: Database) -> None:
    receiver = opened(provider := database.provider(), QUEUE)
    send(provider, QUEUE, ONE)
    drive(receiver.recover(received(receiver)))

    assert database.rows(ENTRY) == [(1000, -1, 0, 1)]
    assert database.value("SELECT redelivered FROM dms_msg") == 1
    [again] = received(receiver)
    assert (again.message.redelivered, again.message.delivery_count) == (True, 2)


def test_d3_what_is_due_now_is_delivered_now(database: Database) -> None:
    receiver = opened(provider := database.provider(), QUEUE)
    later = datetime.fromtimestamp(5, UTC)
    send(provider, QUEUE, ONE.model_copy(update={"delivery_time": later}))

    database.set_clock(4999)
    assert received(receiver) == []
    database.set_clock(5000)
    assert len(received(receiver)) == 1


def test_d4_a_topic_is_for_durable_subscriptions_and_those_that_are_open(database: Database) -> None:
    provider = database.provider()
    drive(opened(provider, "topic://t", subscription="s1").close())
    s2 = opened(provider, "topic://t?durable=no", subscription="s2")
    drive(opened(provider, "topic://t?durable=no", subscription="s3").close())

    send(provider, "topic://t", ONE)

    readers = """SELECT subscriber_name, durable, active FROM dms_topic_entry
        JOIN dms_topic_sub USING (subscriber_id) ORDER BY subscriber_name"""
    assert database.rows(readers) == [("s1", 1, 0), ("s2", 0, 1)]
    assert database.value("SELECT reference_count FROM dms_msg") == 2
    drive(s2.acknowledge(received(s2)))
    assert database.value("SELECT reference_count FROM dms_msg") == 1
    s1 = opened(provider, "topic://t", subscription="s1")
    drive(s1.acknowledge(received(s1)))
    assert database.counts() == NOTHING


def test_d6_unsubscribing_counts_down_what_is_unread(database: Database) -> None:
    provider = database.provider()
    for name in ("s1", "s2"):
        drive(opened(provider, "topic://t", subscription=name).close())
    send(provider, "topic://t", *[ONE] * 5)

    assert drive(provider.unsubscribe("topic://t", "s1"))
    counts = [count for (count,) in database.rows("SELECT reference_count FROM dms_msg")]
    assert counts == [1] * 5
    assert database.counts()["dms_topic_entry"] == 5

    assert drive(provider.unsubscribe("topic://t", "s2"))
    assert not drive(provider.unsubscribe("topic://t", "s2"))
    assert database.counts() == NOTHING


def test_d7_a_client_that_comes_back_finds_its_id_and_what_it_held(database: Database) -> None:
    dead = opened(provider := database.provider(), QUEUE, name="seven")
    send(provider, QUEUE, ONE, ONE, ONE)
    drive(dead.acknowledge(received(dead)[:1]))
    client = database.value("SELECT client_id FROM dms_client")

    database.set_clock(60_000)  # its lease is over
    opened(database.provider(), QUEUE, name="seven")

    assert database.value("SELECT client_id FROM dms_client") == client
    assert database.rows(ENTRY) == [(1000, -1, 0, 1)] * 2
    assert database.rows("SELECT redelivered FROM dms_msg") == [(1,)] * 2


def test_d7_what_a_dead_client_held_waits_for_the_end_of_its_lease(database: Database) -> None:
    dead = opened(provider := database.provider(), QUEUE, name="seven")
    send(provider, QUEUE, ONE, ONE)
    received(dead)

    assert received(opened(database.provider(), QUEUE, name="eight")) == []
    assert database.value("SELECT COUNT(DISTINCT client_id) FROM dms_client") == 2

    database.set_clock(60_000)
    successor = opened(database.provider(), QUEUE, name="nine")
    assert [one.message.delivery_count for one in received(successor)] == [2, 2]


@pytest.mark.parametrize("order", ["seven eight", "eight seven"])
def test_d8_who_was_presumed_dead_cannot_commit_the_effect(database: Database, order: str) -> None:
    database.rows("CREATE TABLE effects (who TEXT)")
    provider, history = database.provider(), database.history()
    seven = opened(provider, QUEUE, name="seven")
    send(provider, QUEUE, ONE)
    stalled = received(seven)
    database.set_clock(60_000)
    eight = opened(provider, QUEUE, name="eight")
    held = {"seven": (seven, stalled), "eight": (eight, received(eight))}

    done: dict[str, bool] = {}
    for who in order.split():
        receiver, arrivals = held[who]
        [outcome] = drive(_noting(who, history).deliver(receiver, arrivals))
        done[who] = outcome.acknowledge

    assert done == {"seven": False, "eight": True}
    assert database.rows("SELECT who FROM effects") == [("eight",)]
    assert database.counts() == NOTHING


def _noting(who: str, history: SqlHistory) -> Pipeline:
    """Return the pipeline of a trigger that notes its name. It has its own namespace in the history."""

    # With one namespace the history alone would let only one of them run.
    @trigger(QUEUE, name=who, history=history, transacted=True)
    def work(message: Message, connection: Connection) -> None:
        connection.execute(text("INSERT INTO effects VALUES (:who)"), {"who": who})

    return work.pipeline()


@pytest.mark.parametrize("size", [0, 1, 250, 251, 100_000])
def test_d9_a_body_is_small_up_to_250_bytes(database: Database, size: int) -> None:
    receiver = opened(provider := database.provider(), QUEUE)
    body = os.urandom(size)
    send(provider, QUEUE, Message(body=body))

    small, large = database.rows("SELECT length(small_body), length(large_body) FROM dms_msg")[0]
    expected = (None, None) if size == 0 else (size, None) if size <= 250 else (None, size)
    assert (small, large) == expected
    assert [one.message.body for one in received(receiver)] == [body]


def test_d10_what_has_expired_is_deleted_on_sight(database: Database) -> None:
    receiver = opened(provider := database.provider(), QUEUE)
    mortal = ONE.model_copy(update={"expiration": datetime.fromtimestamp(5, UTC)})
    send(provider, QUEUE, mortal)

    database.set_clock(4999)
    [arrival] = received(receiver)
    assert arrival.message.expiration == datetime.fromtimestamp(5, UTC)
    drive(receiver.recover([arrival]))
    database.set_clock(5000)
    assert received(receiver) == []
    assert database.counts() == NOTHING


def test_d10_what_nobody_reads_is_swept(database: Database) -> None:
    provider = database.provider()
    for name in ("s1", "s2"):
        drive(opened(provider, "topic://t", subscription=name).close())
    mortal = ONE.model_copy(update={"expiration": datetime.fromtimestamp(5, UTC)})
    send(provider, "topic://t", mortal, ONE)

    database.set_clock(5000)
    received(opened(provider, QUEUE))

    assert database.rows("SELECT reference_count FROM dms_msg") == [(2,)]
    assert database.counts()["dms_topic_entry"] == 2


def test_d10_everything_that_nobody_reads_is_swept_however_much_it_is(database: Database) -> None:
    provider = database.provider()
    drive(opened(provider, "topic://t", subscription="s").close())
    mortal = ONE.model_copy(update={"expiration": datetime.fromtimestamp(5, UTC)})
    send(provider, "topic://t", *[mortal] * 1001)

    database.set_clock(5000)
    receiver = opened(provider, QUEUE)
    for _ in range(2):
        received(receiver)

    assert database.counts() == NOTHING


def test_d10_a_dead_letter_does_not_expire(database: Database) -> None:
    receiver = opened(provider := database.provider(), QUEUE)
    send(provider, QUEUE, ONE.model_copy(update={"expiration": datetime.fromtimestamp(5, UTC)}))
    drive(receiver.dead_letter(received(receiver), "no such customer"))

    database.set_clock(6000)
    [letter] = received(opened(provider, "DLQ.q"))

    assert letter.message.expiration is None
    assert letter.message.properties["doubtless_expiration"] == 5000


def test_d14_a_temporary_queue_ends_with_its_client(database: Database) -> None:
    provider = database.provider()
    destination, receiver = drive(provider.open_temporary("replies"))
    send(provider, destination, *[ONE] * 4)
    assert database.counts()["dms_queue_entry"] == 4
    owner = database.value("SELECT client_id FROM dms_client")
    assert database.value("SELECT temp_id FROM dms_queue") == owner

    database.set_clock(60_000)
    received(opened(database.provider(), QUEUE))

    assert database.rows("SELECT queue_name FROM dms_queue") == [("q",)]
    assert database.counts() == NOTHING
    send(provider, destination, ONE)
    assert database.counts() == NOTHING
    del receiver


def test_d15_properties_keep_their_types(database: Database) -> None:
    receiver = opened(provider := database.provider(), QUEUE)
    send(provider, QUEUE, Message(body="x"))
    typed = {
        "boolean": (PropertyType.BOOLEAN, "true", True),
        "byte": (PropertyType.BYTE, "-128", -128),
        "short": (PropertyType.SHORT, "32767", 32767),
        "int": (PropertyType.INT, "-2147483648", -(2**31)),
        "long": (PropertyType.LONG, str(2**63 - 1), 2**63 - 1),
        "float": (PropertyType.FLOAT, "0.5", 0.5),
        "double": (PropertyType.DOUBLE, "1e+300", 1e300),
        "str": (PropertyType.STRING, "grüße", "grüße"),
    }
    number = database.value("SELECT msg_id FROM dms_msg")
    for name, (kind, value, _) in typed.items():
        told = {"id": number, "kind": int(kind), "name": name, "value": value}
        database.rows("INSERT INTO dms_msg_properties VALUES (:id, :kind, :name, :value)", **told)
    database.rows("UPDATE dms_msg SET has_properties = 1")

    [arrival] = received(receiver)

    found = {name: (type(value), value) for name, value in arrival.message.properties.items()}
    assert found == {name: (type(value), value) for name, (_, _, value) in typed.items()}


def test_d15_what_was_sent_is_stored_with_its_type(database: Database) -> None:
    provider = database.provider()
    sent = {"yes": True, "whole": 2**40, "half": 0.5, "word": "x", "none": None, "odd": "a\0b"}
    send(provider, QUEUE, Message(body="x", properties=sent))

    rows = {
        name: (kind, value)
        for name, kind, value in database.rows("SELECT name, data_type, value FROM dms_msg_properties")
    }
    assert rows == {
        "yes": (1, "true"),
        "whole": (5, str(2**40)),
        "half": (7, "0.5"),
        "word": (8, "x"),
        "none": (8, None),
        "odd": (9, '"a\\u0000b"'),
    }
    [arrival] = received(opened(provider, QUEUE))
    assert dict(arrival.message.properties) == sent


def test_d15_a_property_is_read_as_a_wider_type_or_as_text() -> None:
    number, long, word = Stored(4, "7"), Stored(5, "7"), Stored(8, "7")

    assert number.read_as(PropertyType.LONG) == 7
    assert number.read_as(PropertyType.STRING) == "7"
    assert word.read_as(PropertyType.INT) == 7
    with pytest.raises(PropertyFormatError):
        long.read_as(PropertyType.INT)
    with pytest.raises(PropertyFormatError):
        Stored(8, "x").read_as(PropertyType.INT)


def test_d16_a_queue_is_made_once_however_many_start_at_once(database: Database) -> None:
    providers = [database.provider() for _ in range(4)]
    together = threading.Barrier(len(providers))

    def start(number: int) -> None:
        together.wait()
        opened(providers[number], "queue://fresh", name=f"c{number}")

    in_threads(start, range(len(providers)))

    assert database.value("SELECT COUNT(*) FROM dms_queue WHERE queue_name = 'fresh'") == 1
    assert database.value("SELECT COUNT(*) FROM dms_client") == 4
