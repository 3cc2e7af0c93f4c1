"""The client-side queue with a key: the data on disk, its readers, and messages that wait for a key."""

import sqlite3
from pathlib import Path

import pytest

from history import ConfigurationError, Message, Uuid
from history.bridge import drive
from tests.fixtures.keys import CARD, a_key, write_keys, written_to
from tests.unit.triggers.producer.producers import Line, StillShell, arrived
from triggers import ClientQueue, Producer
from triggers.producer.queue.drain import Drained, Drainer
from triggers.producer.queue.rows import LockedRowError
from triggers.producer.sender import Sender
from triggers.producer.settings import DEFAULT_SEND_RETRY, ProducerSettings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "orders.queue"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "key"


def message(uuid: str) -> Message:
    return Message(body={"card": CARD}, uuid=Uuid(uuid), properties={"holder": CARD})


def on_disk(file: Path) -> bytes:
    return written_to(file.parent, f"{file.name}*")


def uuids_in(queue: ClientQueue) -> list[str | None]:
    return [queued.message.uuid for queued in queue.next_run(limit=100, size=10_000_000)]


def drain(queue: ClientQueue, line: Line) -> Drained:
    settings = ProducerSettings(
        alias=queue.alias,
        queue=queue.file,
        queue_limit=queue.limit,
        ordered=True,
        retry=DEFAULT_SEND_RETRY,
        max_redelivery_count=3,
    )
    sender = Sender(settings, line, StillShell(), queue=queue, owned=False)
    assert isinstance(sender.drainer, Drainer)
    return drive(sender.drainer.drain())


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_card_number_is_found_in_a_plain_file_and_in_no_encrypted_one(
    file: Path, keys: Path, *, is_encrypted: bool
) -> None:
    queue = ClientQueue(file, alias="shop", encrypt=write_keys(keys, a_key()) if is_encrypted else None)
    queue.put("orders", [message("u1"), message("u2"), message("u3")])
    first, *_ = queue.next_run(limit=1, size=10_000)
    queue.give_up(first, ConnectionError(f"refused {CARD}"), attempts=3)

    assert (CARD.encode() in on_disk(file)) is not is_encrypted
    assert uuids_in(queue) == ["u2", "u3"]
    assert [event.message for event in queue.failed()] == [first.message]
    assert queue.requeue() == 1
    assert uuids_in(queue) == ["u2", "u3", "u1"]
    assert (CARD.encode() in on_disk(file)) is not is_encrypted
    queue.close()


def test_what_was_queued_in_plain_or_with_an_older_key_is_sent(file: Path, keys: Path) -> None:
    old, new, line = a_key(), a_key(), Line()
    plain = ClientQueue(file, alias="shop")
    plain.put("orders", [message("u1")])
    plain.close()
    queue = ClientQueue(file, alias="shop", encrypt=write_keys(keys, old))
    queue.put("orders", [message("u2")])
    write_keys(keys, new, old)
    queue.put("orders", [message("u3")])

    drained = drain(queue, line)

    assert (drained.sent, drained.left) == (3, 0)
    assert [one.uuid for one in arrived(line.memory)] == ["u1", "u2", "u3"]
    queue.close()


@pytest.mark.parametrize("has_other_key", [False, True])
def test_a_message_without_its_key_waits_in_its_place_and_holds_up_its_destination_alone(
    file: Path, keys: Path, tmp_path: Path, *, has_other_key: bool
) -> None:
    line, reference = Line(), write_keys(keys, a_key())
    other = write_keys(tmp_path / "other", a_key()) if has_other_key else None
    queue = ClientQueue(file, alias="shop", encrypt=other)
    queue.put("orders", [message("u1")])
    with_key = ClientQueue(file, alias="shop", encrypt=reference)
    with_key.put("orders", [message("u2")])
    with_key.put("letters", [message("l1")])
    queue.put("orders", [message("u3")])
    queue.put("parcels", [message("p1")])

    drained = drain(queue, line)

    assert (drained.sent, drained.left, drained.blocked) == (2, 3, ["letters", "orders"])
    assert isinstance(drained.refused, LockedRowError)
    assert [one.uuid for one in arrived(line.memory)] == ["u1"]
    assert list(queue.unreadable()) == []
    if other is None:
        assert drain(with_key, line).left == 0
        assert [one.uuid for one in arrived(line.memory)] == ["u1", "u2", "u3"]
    queue.close()
    with_key.close()


def test_a_row_that_was_changed_or_moved_is_taken_aside_as_it_is(file: Path, keys: Path) -> None:
    queue = ClientQueue(file, alias="shop", encrypt=write_keys(keys, a_key()))
    queue.put("orders", [message("u1"), message("u2")])
    queue.put("letters", [message("l1")])
    with sqlite3.connect(file) as connection:
        rows = dict(connection.execute("SELECT number, message FROM queued").fetchall())
        connection.execute("UPDATE queued SET message = ? WHERE number = 1", (rows[3],))
        connection.execute("UPDATE queued SET message = ? WHERE number = 2", (rows[2][:-1] + b"x",))
    connection.close()

    assert uuids_in(queue) == ["l1"]
    assert [row.number for row in queue.unreadable()] == [1, 2]
    assert queue.unreadable()[0].text == rows[3]
    queue.close()


def test_a_failure_without_its_key_stays_and_hides_no_other(file: Path, keys: Path) -> None:
    with_key = ClientQueue(file, alias="shop", encrypt=write_keys(keys, a_key()))
    plain = ClientQueue(file, alias="shop")
    plain.put("orders", [message("u1")])
    with_key.put("orders", [message("u2")])
    for queued in with_key.next_run(limit=10, size=10_000):
        (plain if queued.number == 1 else with_key).give_up(queued, ConnectionError("away"), attempts=1)

    assert [event.number for event in plain.failed()] == [1]
    assert plain.requeue() == 1
    assert [event.number for event in with_key.failed()] == [2]
    plain.close()
    with_key.close()


def test_a_producer_takes_a_key_for_its_queue_and_for_nothing_else(file: Path, keys: Path) -> None:
    with Producer("memory://encrypted", queue=file, encrypt=write_keys(keys, a_key())) as producer:
        assert producer.queue is not None
    with pytest.raises(ConfigurationError, match=r"^encrypt: there is no queue"):
        Producer("memory://encrypted", encrypt=f"file:{keys}")
    with pytest.raises(ConfigurationError, match=r"^encrypt: "):
        Producer("memory://encrypted", queue=file, encrypt="env:NOT_SET_ANYWHERE")
