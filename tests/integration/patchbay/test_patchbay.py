"""The Patch Bay over memory, Redis Streams and SQL-JMS: wiring, redelivery, delays, transactions."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import Connection, create_engine, text

from history import ConfigurationError, Message, open_history
from history.bridge import drive
from history.store import HistoryStore, instant
from tests.fixtures.beside import EntriesOnly
from tests.integration.patchbay.components import (
    DOES,
    Patched,
    counts,
    fails,
    fails_for_good,
    fails_until,
    later,
    seen,
    wire,
)
from triggers.patchbay import PatchBay, read_patchbay
from triggers.patchbay.releaser import Releaser
from triggers.pipeline.parking.lot import ParkingLot
from triggers.providers.sqljms.provider import SqlJms

pytestmark = pytest.mark.usefixtures("fresh_components")

Wire = Callable[..., Patched]


@pytest.fixture(params=["memory", "redis", "sqljms"])
def over(request: pytest.FixtureRequest, tmp_path: Path) -> Wire:
    """Wire over each kind of provider; limbo and history are in a SQLite file."""
    database = f"sqlite:///{tmp_path}/shop.sqlite3"
    kind = cast("str", request.param)
    provider = {"memory": "memory://", "sqljms": database}.get(kind) or request.getfixturevalue("redis_url")

    def wired(**told: str) -> Patched:
        patched = wire(tmp_path, database, provider=provider, **told)
        patched.prepare()
        return patched

    return wired


@pytest.fixture
def local(tmp_path: Path) -> Wire:
    """Wire over SQL-JMS in a SQLite file."""

    def wired(**told: str) -> Patched:
        patched = wire(tmp_path, f"sqlite:///{tmp_path}/shop.sqlite3", **told)
        patched.prepare()
        return patched

    return wired


def uuids(name: str) -> list[str | None]:
    return [message.uuid for _, message in seen(name)]


def test_a_failed_message_is_tried_again_later_and_given_up_by_the_failure_port(over: Wire) -> None:
    patched = over(terms='max_attempts = 2, delay = "1s"')
    DOES.append(fails)
    patched.send(Message(body="hello", uuid="m1", properties={"colour": "red"}))

    patched.run_at(0)
    assert patched.waiting() == [(1, 1000)]
    patched.run_at(1000)

    assert counts("service") == [1, 2]
    assert uuids("other") == uuids("errors") == uuids("dead") == ["m1"]
    ((_, copy),) = seen("errors")
    assert (copy.body, copy.properties["colour"], copy.properties["doubtless_delivery_count"]) == (
        "hello",
        "red",
        2,
    )
    assert patched.is_empty()


def test_a_delayed_message_waits_in_limbo_and_is_sent_once(over: Wire) -> None:
    patched = over()
    patched.send(later(1000, uuid="m1"))

    patched.run_at(999)
    assert seen("service") == []
    patched.run_at(1000)

    assert uuids("service") == uuids("other") == ["m1"]
    assert patched.is_empty()


def test_a_fatal_failure_leaves_by_the_failure_port_at_once(over: Wire) -> None:
    patched = over()
    DOES.append(fails_for_good)
    patched.send(Message(body="hello", uuid="m1"))

    patched.run_at(0)

    assert counts("service") == [1]
    assert uuids("errors") == uuids("dead") == ["m1"]
    assert patched.is_empty()


def test_an_untold_exception_is_given_up_at_once_and_may_be_sent_again(local: Wire) -> None:
    patched = local()

    def slips(message: Message) -> None:
        raise KeyError(message.uuid)

    DOES.append(slips)
    patched.send(Message(body="hello", uuid="m1"))
    patched.run_at(0)
    assert uuids("errors") == ["m1"]

    DOES.clear()  # somebody fixes the service, and sends the message again
    patched.send(Message(body="hello", uuid="m1"))
    patched.run_at(0)

    assert uuids("service") == ["m1", "m1"]
    assert uuids("other") == ["m1"]


def test_fail_fast_is_one_attempt(local: Wire) -> None:
    patched = local(terms='on_failure = "fail_fast"')
    DOES.append(fails)
    patched.send(Message(body="hello", uuid="m1"))

    patched.run_at(0)

    assert counts("service") == [1]
    assert uuids("errors") == uuids("dead") == ["m1"]


def test_a_blocked_input_keeps_the_order(over: Wire) -> None:
    patched = over(terms='on_failure = "block", max_attempts = 3, delay = "20ms"')

    def only_first(message: Message) -> None:
        if message.uuid == "m1":
            fails_until(3)(message)

    DOES.append(only_first)
    with patched.bay() as bay:
        for uuid in ("m1", "m2", "m3"):
            bay.context("shop").send("DEFAULT", "hello", uuid=uuid)

    patched.run_at(0)

    assert uuids("service") == ["m1", "m1", "m1", "m2", "m3"]
    assert counts("service")[:3] == [1, 2, 3]
    assert seen("errors") == []


@pytest.mark.parametrize("component", ["aservice", "decorated", "looping"])
def test_components_of_other_kinds_work_as_well(local: Wire, component: str) -> None:
    patched = local(component=component, terms='max_attempts = 2, delay = "1s"')
    DOES.append(fails_until(2))
    patched.send(Message(body="hello", uuid="m1"))

    patched.run_at(0)
    patched.run_at(1000)

    assert counts("service") == [1, 2]
    ((_, sent),) = seen("booked")
    assert sent.body == {"of": "m1"}
    assert patched.is_empty()


@pytest.mark.parametrize("component", ["atomic", "aatomic"])
def test_an_atomic_sink_has_its_effect_and_what_it_sends_once_and_together(
    sql_database: str, tmp_path: Path, component: str
) -> None:
    patched = wire(tmp_path, sql_database, component=component, terms='max_attempts = 3, delay = "1s"')
    patched.rows("CREATE TABLE effects (uuid TEXT)")
    patched.prepare()
    DOES.append(fails_until(2))  # after the service has written and sent
    patched.send(Message(body="hello", uuid="m1"))

    patched.run_at(0)
    assert patched.rows("SELECT uuid FROM effects") == []
    assert seen("booked") == []
    patched.run_at(1000)

    assert patched.rows("SELECT uuid FROM effects") == [("m1",)]
    ((_, sent),) = seen("booked")
    assert sent.body == {"of": "m1"}
    assert patched.is_empty()


def test_what_is_sent_in_a_transaction_is_sent_when_it_commits(sql_database: str, tmp_path: Path) -> None:
    patched = wire(tmp_path, sql_database)
    patched.prepare()
    engine = create_engine(sql_database.replace("postgresql:", "postgresql+psycopg:"))

    def send(connection: Connection, uuid: str) -> None:
        with patched.bay() as bay:
            context = bay.context("shop")
            context.send("DEFAULT", "hello", uuid=f"{uuid}-now", connection=connection)
            context.send("DEFAULT", later(1000, uuid=f"{uuid}-later"), connection=connection)

    with engine.connect() as connection:
        send(connection, "undone")
        connection.rollback()
        send(connection, "done")
        connection.commit()
    engine.dispose()
    patched.run_at(1000)

    assert sorted(map(str, uuids("service"))) == ["done-later", "done-now"]


def test_a_transaction_that_has_written_may_be_the_first_that_a_process_sends_in(
    sql_database: str, tmp_path: Path
) -> None:
    patched = wire(tmp_path, sql_database)
    patched.prepare()
    patched.rows("CREATE TABLE effects (uuid TEXT)")
    with patched.bay() as bay:
        bay.context("shop").send("DEFAULT", "hello", uuid="before")
    engine = create_engine(sql_database.replace("postgresql:", "postgresql+psycopg:"))

    with patched.bay() as bay, engine.begin() as connection:
        connection.execute(text("INSERT INTO effects (uuid) VALUES ('done')"))
        bay.context("shop").send("DEFAULT", "hello", uuid="done", connection=connection)
    engine.dispose()
    patched.run_at(0)

    assert sorted(map(str, uuids("service"))) == ["before", "done"]


def test_what_an_atomic_sink_sends_to_another_system_goes_by_the_outbox(
    tmp_path: Path, redis_url: str
) -> None:
    database = f"sqlite:///{tmp_path}/shop.sqlite3"
    patched = wire(tmp_path, database, provider=redis_url, component="atomic", terms="max_attempts = 2")
    patched.rows("CREATE TABLE effects (uuid TEXT)")
    patched.prepare()
    DOES.append(fails_until(2))
    patched.send(Message(body="hello", uuid="m1"))

    patched.run_at(0)
    assert seen("booked") == []
    patched.run_at(60_000)

    assert patched.rows("SELECT uuid FROM effects") == [("m1",)]
    assert [message.body for _, message in seen("booked")] == [{"of": "m1"}]
    assert patched.is_empty()


def test_a_port_that_is_gone_parks_its_messages_after_some_attempts(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/shop.sqlite3"
    patched = wire(tmp_path, database, options="release_attempts = 2")
    patched.prepare()
    patched.send(later(1000, uuid="m1"))
    text_of = patched.file.read_text()
    patched.file.write_text(text_of.replace('name = "shop"', 'name = "store"'))
    history = open_history(database)

    with PatchBay(read_patchbay(patched.file), clock=lambda: patched.now) as bay:
        releaser = Releaser(outputs=bay.outputs, lot=ParkingLot(history.parking))
        for patched.now in (1000, 2000):
            assert drive(releaser.release_due()) == 1

    (parked,) = drive(history.parking.list())
    assert (parked.trigger_name, parked.uuid) == ("shop.DEFAULT", "m1")
    assert "is not in the file" in (parked.error_message or "")
    assert patched.is_empty()
    drive(history.close())


def test_a_history_without_records_is_enough(local: Wire) -> None:
    patched = local()
    patched.send(Message(body="hello", uuid="m1"))

    with PatchBay(read_patchbay(patched.file), history=cast("HistoryStore", EntriesOnly())) as bay:
        bay.run(until_idle=patched.idle)

    assert uuids("service") == ["m1"]


@pytest.mark.parametrize("error", [ConfigurationError("limbo", "is locked out", "let it in"), OSError("odd")])
def test_the_release_loop_goes_on_after_an_error_and_says_so_once(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    patched = wire(tmp_path, f"sqlite:///{tmp_path}/shop.sqlite3")
    patched.prepare()
    fates: list[Exception | None] = [error, error, None]

    class Failing(Releaser):
        async def release_due(self) -> int:
            if (fate := fates.pop(0)) is not None:
                raise fate
            return 0

    with patched.bay() as bay:
        releaser = Failing(outputs=bay.outputs, lot=ParkingLot(None))
        drive(releaser.run(over=lambda: not fates, pause=lambda _: None))

    assert fates == []
    assert caplog.text.count("delayed messages are not released") == 1
    assert caplog.text.count("delayed messages are released again") == 1


def test_a_message_that_expires_in_limbo_is_dropped(local: Wire) -> None:
    patched = local()
    patched.send(later(1000, uuid="m1", expiration=datetime.now(UTC) - timedelta(seconds=1)))

    patched.run_at(1000)

    assert seen("service") == seen("other") == []
    assert patched.is_empty()


def test_what_kills_its_process_is_given_up_after_so_many_attempts(local: Wire) -> None:
    patched = local(terms='max_attempts = 2, delay = "1s"')
    DOES.append(fails)
    patched.send(Message(body="hello", uuid="m1"))
    patched.run_at(0)
    patched.now = 1000
    with patched.bay() as bay:
        limbo = bay.outputs.limbo
        assert limbo is not None
        assert len(drive(limbo.take("booking.orders.orders"))) == 1  # and the process dies

    patched.run_at(1000 + 60_000)

    assert counts("service") == [1]
    ((_, copy),) = seen("errors")
    assert copy.properties["doubtless_exception_message"] == "the process ended during attempt 2"
    assert patched.is_empty()


def test_what_was_fetched_beside_a_killer_has_an_attempt_of_its_own(local: Wire) -> None:
    patched = local(terms='max_attempts = 2, delay = "1s"')
    patched.send(Message(body="hello", uuid="m1"))
    jms = SqlJms.from_url(patched.database)
    for _ in range(2):  # fetched, and the process dies
        receiver = drive(jms.open_receiver("topic://orders", subscription="booking.orders.orders", name="x"))
        assert len(drive(receiver.receive(1))) == 1
        drive(receiver.close())
    drive(jms.close())

    patched.run_at(0)

    assert counts("service") == [2]
    assert seen("errors") == []
    assert patched.is_empty()


def test_a_delivery_date_says_when(local: Wire) -> None:
    patched = local()
    with patched.bay() as bay:
        bay.context("shop").send("DEFAULT", "hello", properties={"DELIVERY_DATE": 5000})
        with pytest.raises(ConfigurationError, match="must be milliseconds since 1970, not 1700000000000000"):
            bay.context("shop").send("DEFAULT", "late", properties={"DELIVERY_DATE": 1_700_000_000_000_000})

    assert patched.waiting() == [(0, 5000)]


def test_sources_start_when_every_input_can_receive(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/shop.sqlite3"
    patched = wire(tmp_path, database)
    text_of = patched.file.read_text()
    patched.file.write_text(text_of.replace("components:silent", "components:telling"))

    patched.run_at(0)  # a topic keeps no messages for later subscribers

    assert [message.body for _, message in seen("service")] == ["from the source"]


def test_waiting_messages_survive_a_change_of_the_wiring(local: Wire) -> None:
    patched = local()
    patched.send(later(1000, uuid="m1"))
    text_of = patched.file.read_text()
    head, tail = text_of.split("[[source.output]]", 1)
    changed = tail.replace('to = [{ destination = "orders", type = "topic" }]', 'to = ["dead"]', 1)
    patched.file.write_text(f"{head}[[source.output]]{changed}")

    patched.run_at(1000)

    assert uuids("dead") == ["m1"]
    assert seen("service") == []


def test_limbo_counts_in_milliseconds_since_1970(local: Wire) -> None:
    patched = local()
    patched.send(Message(body="x", uuid="m1", delivery_time=instant(2) - timedelta(microseconds=500)))

    assert patched.waiting() == [(0, 2)]


def test_rows_are_read_by_anybody(local: Wire) -> None:
    patched = local()
    patched.send(later(1000, uuid="m1", reply_to="answers", properties={"n": 3}))

    assert patched.rows("SELECT msg_src_name, port_name, msg_class FROM dms_limbo_msg") == [
        ("shop", "DEFAULT", "ObjectMessage")
    ]
    assert patched.rows("SELECT prop_name, prop_value FROM dms_limbo_props") == [("n", "3")]
    assert patched.rows("SELECT prop_type FROM dms_limbo_ptypes") == [(5,)]
    assert patched.rows("SELECT jms_replyto FROM dms_limbo_replyto") == [(b"answers",)]
    assert patched.rows("SELECT COUNT(*) FROM dms_limbo") == [(1,)]
