"""If another program has tables with our names, doubtless names them and refuses, and changes nothing."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, inspect, text

from history import ConfigurationError, Message, SqlHistory
from history.bridge import drive
from history.sql.links.history import LinkHistory
from tests.unit.helpers.given_up import event
from triggers import Consumer, trigger
from triggers.providers.sqljms import SqlJms
from triggers.providers.sqljms.admin.admin import Admin
from triggers.providers.sqljms.limbo.limbo import Limbo
from triggers.sinks import SqlTableSink

#: The columns of the Dynamo Message System, as its vendor lists them, with their constraints.
ORIGINAL = """
CREATE TABLE dms_client (client_name VARCHAR(250) NOT NULL, client_id NUMERIC(19));
CREATE TABLE dms_queue (queue_name VARCHAR(250), queue_id NUMERIC(19) NOT NULL, temp_id NUMERIC(19));
CREATE TABLE dms_queue_recv
    (client_id NUMERIC(19), receiver_id NUMERIC(19) NOT NULL, queue_id NUMERIC(19));
CREATE TABLE dms_queue_entry (queue_id NUMERIC(19) NOT NULL, msg_id NUMERIC(19) NOT NULL,
    delivery_date NUMERIC(19), handling_client_id NUMERIC(19), read_state NUMERIC(19));
CREATE TABLE dms_topic (topic_name VARCHAR(250), topic_id NUMERIC(19) NOT NULL, temp_id NUMERIC(19));
CREATE TABLE dms_topic_sub (client_id NUMERIC(19), subscriber_name VARCHAR(250),
    subscriber_id NUMERIC(19) NOT NULL, topic_id NUMERIC(19), durable NUMERIC(1), active NUMERIC(1));
CREATE TABLE dms_topic_entry (subscriber_id NUMERIC(19) NOT NULL, msg_id NUMERIC(19) NOT NULL,
    delivery_date NUMERIC(19), read_state NUMERIC(19));
CREATE TABLE dms_msg (msg_class VARCHAR(250), has_properties NUMERIC(1), reference_count NUMERIC(10),
    msg_id NUMERIC(19) NOT NULL, timestamp NUMERIC(19), correlation_id VARCHAR(250), reply_to NUMERIC(19),
    destination NUMERIC(19), delivery_mode NUMERIC(1), redelivered NUMERIC(1), type VARCHAR(250),
    expiration NUMERIC(19), priority NUMERIC(1), small_body {bytes}, large_body {bytes});
CREATE TABLE dms_msg_properties (msg_id NUMERIC(19) NOT NULL, data_type NUMERIC(1),
    name VARCHAR(250) NOT NULL, value VARCHAR(250))
"""

ORIGINAL_LIMBO = """
CREATE TABLE dms_limbo (limbo_name VARCHAR(250) NOT NULL, limbo_id NUMERIC(19) NOT NULL);
CREATE TABLE dms_limbo_msg (msg_id NUMERIC(19) NOT NULL, message_body VARCHAR(250) NOT NULL)
"""

#: A version of doubtless without this check would have added these tables.
ADDED = """;
CREATE TABLE dms_schema (name VARCHAR(9) PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO dms_schema VALUES ('version', 1), ('identity', 7)
"""


@pytest.fixture
def url(sql_database: str) -> str:
    return sql_database


def make(url: str, script: str) -> Engine:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    kind = "BYTEA" if engine.dialect.name == "postgresql" else "BLOB"
    with engine.begin() as connection:
        for statement in script.replace("{bytes}", kind).split(";"):
            connection.execute(text(statement))
    return engine


def names(engine: Engine) -> Sequence[str]:
    """Return the tables, and the journal mode of a SQLite file."""
    found = sorted(inspect(engine).get_table_names())
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            found.append(connection.execute(text("PRAGMA journal_mode")).scalar_one())
    return found


def refusal(engine: Engine, use: Callable[[], Any]) -> str:
    """Return why a call is refused. The call must not change the database."""
    before = names(engine)
    with pytest.raises(ConfigurationError) as caught:
        use()
    after = names(engine)
    engine.dispose()
    assert after == before
    return str(caught.value)


def opened(url: str) -> None:
    provider = SqlJms.from_url(url)
    try:
        drive(provider.open_receiver("queue://orders", subscription="s", name="a"))
    finally:
        drive(provider.close())


def sent(url: str) -> None:
    provider = SqlJms.from_url(url)
    try:
        drive(provider.send("queue://orders", [Message(body="x")]))
    finally:
        drive(provider.close())


def listed(url: str) -> None:
    admin = Admin.from_url(url)
    try:
        drive(admin.queues())
    finally:
        drive(admin.close())


def put_in_limbo(url: str) -> None:
    limbo = Limbo.from_url(url)
    try:
        drive(limbo.prepare())
    finally:
        drive(limbo.close())


def consumed(url: str) -> None:
    @trigger("queue://orders", name="book", history=None)
    def book(message: Message) -> None: ...

    provider = SqlJms.from_url(url)
    try:
        Consumer([book], provider).run(until_idle=0.1)
    finally:
        drive(provider.close())


@pytest.mark.parametrize("use", [opened, sent, listed, put_in_limbo, consumed])
def test_tables_of_the_original_are_refused_and_left_alone(url: str, use: Callable[[str], None]) -> None:
    engine = make(url, ORIGINAL)

    problem = refusal(engine, lambda: use(url))

    assert "dms_client has no column incarnation, lease_until" in problem
    assert "dms_msg has no column uuid, message_id" in problem
    assert "its own" in problem


def test_tables_of_ours_added_to_those_of_the_original_do_not_hide_them(url: str) -> None:
    engine = make(url, ORIGINAL + ADDED)

    assert "dms_queue has no column exclusive_client_id" in refusal(engine, lambda: opened(url))


def test_a_limbo_of_another_program_is_refused(url: str) -> None:
    engine = make(url, ORIGINAL_LIMBO)

    problem = refusal(engine, lambda: put_in_limbo(url))

    assert "dms_limbo_msg has no column limbo_id, delivery_date" in problem
    assert "dms_limbo_msg wants a value in message_body" in problem


def test_a_history_of_another_program_is_refused(url: str) -> None:
    engine = make(url, "CREATE TABLE doubtless_log (id INTEGER, reason VARCHAR(99))")
    history = SqlHistory.from_url(url)

    problem = refusal(engine, lambda: drive(history.stats("book")))

    drive(history.close())
    assert "doubtless_log has no column trigger_name, kind, about, written_at, line" in problem


def test_links_of_another_program_are_refused_before_a_history_is_made(url: str) -> None:
    engine = make(url, "CREATE TABLE sysremoteuser (user_id INTEGER, consolidate CHAR(1), log_send BIGINT)")
    history = LinkHistory.from_url(url)

    problem = refusal(engine, lambda: drive(history.watermarks.read_all()))

    drive(history.close())
    assert "sysremoteuser has no column" in problem
    assert "address, frequency" in problem
    assert "doubtless_link" in problem


def test_an_event_table_of_another_program_is_refused(url: str) -> None:
    engine = make(url, "CREATE TABLE events (id VARCHAR(99) PRIMARY KEY, severity INTEGER NOT NULL)")
    sink = SqlTableSink(url, table="events")

    problem = refusal(engine, lambda: sink(event()))

    sink.close()
    assert "events has no column trigger_name, destination_index" in problem
    assert "events wants a value in severity" in problem


def test_our_own_tables_are_taken_again(url: str) -> None:
    for _ in range(2):
        sent(url)
        put_in_limbo(url)
        history = LinkHistory.from_url(url)
        assert drive(history.watermarks.read_all()) == []
        drive(history.close())
