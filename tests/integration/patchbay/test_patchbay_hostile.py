"""Some rows in limbo are not valid messages. They are parked whole and once, and good rows go on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from history import Message, Parked, ParkedKind, SqlHistory
from history.bridge import drive
from tests.fixtures.histories import with_store
from tests.integration.patchbay.components import DOES, Patched, fails_until, forget, later, seen, wire
from triggers import on_retrieval_failure
from triggers.events import Cause, RetrievalFailureEvent
from triggers.patchbay.releaser import Releaser
from triggers.pipeline.parking.lot import ParkingLot

#: Ways to damage a message on both databases. SQLite allows more, because its columns have no types.
ANYWHERE = [
    "UPDATE dms_limbo_msg SET msg_class = 'MapMessage', msg_class_type = 2 WHERE msg_id = :id",
    "UPDATE dms_limbo_state SET priority = 99 WHERE msg_id = :id",
    "UPDATE dms_limbo_state SET timestamp = 4611686018427387904 WHERE msg_id = :id",
    "UPDATE dms_limbo_props SET prop_value = 'no number' WHERE msg_id = :id AND prop_name = 'n'",
    "UPDATE dms_limbo_ptypes SET prop_type = 77 WHERE msg_id = :id AND prop_name = 'n'",
]
SQLITE = [
    "UPDATE dms_limbo_msg SET delivery_date = 'soon' WHERE msg_id = :id",
    "UPDATE dms_limbo_msg SET jms_type = CAST(x'c328' AS TEXT) WHERE msg_id = :id",
    "UPDATE dms_limbo_state SET uuid = x'00fffe' WHERE msg_id = :id",
    "UPDATE dms_limbo_state SET lease_until = 'never', priority = 'high' WHERE msg_id = :id",
]


def spoil(patched: Patched, name: str) -> list[int]:
    """Damage the messages with uuids that begin with ``name``, each in a different way. Return their ids."""
    engine = create_engine(patched.database.replace("postgresql:", "postgresql+psycopg:"))
    ways = [*ANYWHERE, *(SQLITE if engine.dialect.name == "sqlite" else ())]
    with engine.begin() as connection:
        found = connection.execute(
            text("SELECT msg_id FROM dms_limbo_state WHERE uuid LIKE :name ORDER BY msg_id"),
            {"name": f"{name}%"},
        )
        numbers = [int(number) for (number,) in found]
        assert len(numbers) >= len(ways)
        for number, way in zip(numbers, ways, strict=False):
            assert connection.execute(text(way), {"id": number}).rowcount == 1
    engine.dispose()
    return numbers[: len(ways)]


def parked_in(patched: Patched) -> Sequence[Parked]:
    return with_store(patched.database, lambda store: store.parking.list(limit=100))


@pytest.fixture
def patched(tmp_path: Path, sql_database: str) -> Patched:
    forget()
    return wire(tmp_path, sql_database)


def test_odd_rows_among_delayed_messages_are_parked_and_the_others_are_sent(patched: Patched) -> None:
    patched.prepare()
    for number in range(10):
        patched.send(later(1000, uuid=f"odd-{number}", properties={"n": number}))
        patched.send(later(1000, uuid=f"good-{number}", properties={"n": number}))
    odd = spoil(patched, "odd")
    events = list[RetrievalFailureEvent]()
    heard = on_retrieval_failure("limbo")(events.append)

    patched.now = 1000
    store = SqlHistory.from_url(patched.database)
    with patched.bay() as bay:
        releaser = Releaser(outputs=bay.outputs, lot=ParkingLot(store.parking))
        counts = [drive(releaser.release_due()) for _ in range(2)]
    drive(store.close())
    heard.close()
    patched.run_at(1000)

    assert counts == [20, 0], "none is taken again"
    assert patched.is_empty()
    assert len([1 for _, message in seen("service") if (message.uuid or "").startswith("good")]) == 10
    assert len(seen("service")) == 20 - len(odd)
    parked = parked_in(patched)
    assert {entry.kind for entry in parked} == {ParkedKind.UNREADABLE}
    assert sorted(int((entry.raw or {})["msg_id"]) for entry in parked) == sorted(odd)
    assert all("dms_limbo_body.msg_body" in (entry.raw or {}) for entry in parked), "whole"
    assert [event.cause for event in events] == [Cause.UNREADABLE] * len(odd)


def test_odd_rows_among_messages_to_be_redelivered_are_parked_and_the_others_are_tried(
    patched: Patched,
) -> None:
    patched.prepare()
    DOES.append(fails_until(2))
    for number in range(10):
        message: dict[str, Any] = {"body": {"n": number}, "properties": {"n": number}}
        patched.send(Message(uuid=f"odd-{number}", **message))
        patched.send(Message(uuid=f"good-{number}", **message))
    patched.run_at(0)
    assert len(patched.waiting()) == 20
    odd = spoil(patched, "odd")

    patched.run_at(60_000)

    assert patched.is_empty()
    again = [message.uuid for _, message in seen("service") if message.delivery_count == 2]
    assert len([uuid for uuid in again if (uuid or "").startswith("good")]) == 10
    assert len(again) == len(set(again)) == 20 - len(odd)
    parked = parked_in(patched)
    assert {entry.kind for entry in parked} == {ParkedKind.UNREADABLE}
    assert sorted(int((entry.raw or {})["msg_id"]) for entry in parked) == sorted(odd)
