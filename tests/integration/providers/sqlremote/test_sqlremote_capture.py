"""SQL triggers capture changes of tables: each change of any program reaches the other end exactly once."""

import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from history.bridge import drive
from tests.fixtures.waiting import eventually
from tests.integration.providers.sqlremote.captured_ends import (
    ORDERS,
    TABLES,
    by_another_program,
    capturing,
    is_sqlite,
    log,
    recapture,
    rows,
)
from tests.integration.providers.sqlremote.link_ends import Side, both
from triggers import ConfigurationError, Status
from triggers.cli.sqlremote.running import applying_changes
from triggers.providers.sqlremote import RemoteSettings
from triggers.providers.sqlremote.extraction.extract import extract
from triggers.providers.sqlremote.extraction.load import load


@pytest.fixture
def pair(link_databases: Sequence[str]) -> Iterator[tuple[Side, Side]]:
    with capturing(link_databases) as sides:
        yield sides


def test_what_another_program_writes_reaches_the_other_end(pair: tuple[Side, Side]) -> None:
    x, y = pair

    by_another_program(x, "INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bob'), (3, 'Cy')")
    by_another_program(x, "UPDATE customers SET name = name || '!' WHERE id > 1")
    by_another_program(x, "UPDATE customers SET id = 9 WHERE id = 3", "DELETE FROM customers WHERE id = 1")
    both(x, y, rounds=2)

    assert rows(y) == rows(x) == [(2, "Bob!"), (9, "Cy!")]
    assert {outcome.status for outcome in y.outcomes} == {Status.NEW}


def test_both_ends_write_and_nothing_is_echoed(pair: tuple[Side, Side]) -> None:
    x, y = pair
    by_another_program(x, "INSERT INTO customers VALUES (1, 'Ann')")
    by_another_program(y, "INSERT INTO customers VALUES (2, 'Bob')")
    both(x, y, rounds=3)
    by_another_program(y, "UPDATE customers SET name = 'Ada' WHERE id = 1")
    both(x, y, rounds=3)

    assert rows(x) == rows(y) == [(1, "Ada"), (2, "Bob")]
    assert (len(x.outcomes), len(y.outcomes)) == (2, 1)


def test_a_change_right_after_applied_work_is_the_applications_own(pair: tuple[Side, Side]) -> None:
    x, y = pair
    by_another_program(x, "INSERT INTO customers VALUES (1, 'Ann')")
    x.run()
    y.run(deliveries=1)

    by_another_program(y, "UPDATE customers SET name = 'Ada'")
    both(x, y, rounds=3)

    assert rows(x) == [(1, "Ada")]


def test_a_transaction_arrives_whole_and_one_that_is_undone_leaves_nothing(pair: tuple[Side, Side]) -> None:
    x, y = pair
    by_another_program(x, "INSERT INTO customers VALUES (1, 'Ann')", undone=True)
    by_another_program(
        x, "INSERT INTO customers VALUES (2, 'Bob')", "INSERT INTO orders VALUES (1, 1, 2), (1, 2, 2)"
    )
    both(x, y)
    by_another_program(x, "DELETE FROM customers WHERE id = 2")
    x.run()

    assert log(x) == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
    both(x, y, rounds=2)
    assert rows(y) == rows(y, "orders") == []


@pytest.mark.parametrize("moves_between", [False, True])
def test_transactions_of_postgres_that_commit_out_of_order_are_all_sent_each_whole(
    pair: tuple[Side, Side], *, moves_between: bool
) -> None:
    x, y = pair
    if is_sqlite(x):
        pytest.skip("it has one writer")
    with psycopg.connect(x.url) as early, psycopg.connect(x.url) as late:
        early.execute("INSERT INTO customers VALUES (1, 'early')")
        late.execute("INSERT INTO customers VALUES (2, 'late')")
        late.commit()
        if moves_between:
            x.run()
        early.execute("UPDATE customers SET name = 'overwritten' WHERE id = 2")
        early.commit()
    by_another_program(x, "INSERT INTO customers VALUES (3, 'last')")
    both(x, y, rounds=3)

    assert rows(y) == rows(x) == [(1, "early"), (2, "overwritten"), (3, "last")]
    assert log(x) == [(1, 0), (2, 0), (2, 1), (3, 0)]


def test_what_changes_nothing_is_not_sent(pair: tuple[Side, Side]) -> None:
    x, _ = pair
    by_another_program(x, "INSERT INTO customers VALUES (1, 'Ann')")
    x.run()

    by_another_program(x, "UPDATE customers SET name = 'Ann'", "DELETE FROM customers WHERE id = 7")
    x.clock.pass_by()
    x.run()

    assert log(x) == [(1, 0)]


def test_a_truncated_table_is_empty_at_the_other_end_too(pair: tuple[Side, Side]) -> None:
    x, y = pair
    by_another_program(x, "INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bob')")
    both(x, y)

    by_another_program(x, "DELETE FROM customers" if is_sqlite(x) else "TRUNCATE customers CASCADE")
    both(x, y, rounds=2)

    assert rows(y) == []


def test_parents_and_children_are_truncated_together(pair: tuple[Side, Side]) -> None:
    x, y = pair
    if is_sqlite(x):
        pytest.skip("it has no TRUNCATE")
    for side in pair:
        side.execute("CREATE TABLE kinds (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customers)")
        recapture(side, "customers", "kinds")
    by_another_program(x, "INSERT INTO customers VALUES (1, 'Ann')", "INSERT INTO kinds VALUES (1, 1)")
    both(x, y, rounds=2)

    by_another_program(x, "TRUNCATE customers CASCADE", "INSERT INTO customers VALUES (2, 'Bob')")
    both(x, y, rounds=2)

    assert rows(y) == rows(x) == [(2, "Bob")]
    assert rows(y, "kinds") == []


def test_only_the_named_columns_are_sent(pair: tuple[Side, Side]) -> None:
    x, y = pair
    recapture(x, "customers(id)")

    by_another_program(x, "INSERT INTO customers VALUES (1, 'Ann')")
    by_another_program(x, "UPDATE customers SET name = 'Ada'")
    both(x, y, rounds=2)

    assert rows(y) == [(1, None)]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("got2", "got2 has no primary key"),
        ("nowhere", "there is no table nowhere"),
        ("Customers", "there is no table Customers"),
        ("customers(id, nothing)", "customers has no column nothing"),
        ("customers(name)", "customers needs its primary key, with id"),
        ("customers(", "names no table"),
    ],
)
def test_a_table_that_cannot_be_captured_is_refused(
    pair: tuple[Side, Side], table: str, problem: str
) -> None:
    x, _ = pair
    x.execute("CREATE TABLE got2 (operation TEXT)")

    with pytest.raises(ConfigurationError, match=problem.replace("(", r"\(")):
        recapture(x, table)


def test_an_end_that_only_receives_captures_nothing(pair: tuple[Side, Side]) -> None:
    x, _ = pair
    x.leave()
    x.restart(direction="receive")
    drive(x.links.capture("orders"))

    by_another_program(x, "INSERT INTO customers VALUES (1, 'Ann')")

    assert rows(x, "doubtless_link_changes") == []


def test_settings_that_cannot_capture_are_refused() -> None:
    end = {"carrier": "file:///nowhere", "inbox": "x", "outbox": "y", "capture": True}

    for links, problem in (
        ({"orders": end}, "no table is named"),
        (
            {
                "one": {**end, "tables": ["orders"], "publication": "both"},
                "two": {**end, "tables": ["customers"], "publication": "both"},
            },
            "they differ from those of one",
        ),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            RemoteSettings.model_validate({"database": "sqlite://", "links": links}).beside(Path())


def test_an_agent_does_not_start_while_the_triggers_do_not_fit_the_table(pair: tuple[Side, Side]) -> None:
    x, y = pair
    for side in pair:
        side.execute("ALTER TABLE customers ADD COLUMN city TEXT")

    with pytest.raises(ConfigurationError, match="the triggers on customers are missing"):
        x.run()

    for side in pair:
        drive(side.links.capture("orders"))
    by_another_program(x, "INSERT INTO customers VALUES (1, 'Ann', 'Bonn')")
    both(x, y, rounds=2)
    assert rows(y) == [(1, "Ann", "Bonn")]


def test_a_running_agent_stops_if_a_table_was_made_again_without_its_triggers(
    pair: tuple[Side, Side],
) -> None:
    x, y = pair
    by_another_program(x, "INSERT INTO customers VALUES (1, 'Ann')")
    both(x, y, rounds=2)

    by_another_program(
        x,
        "CREATE TABLE wider (id INTEGER PRIMARY KEY, name VARCHAR(40))",
        "INSERT INTO wider SELECT * FROM customers",
        f"DROP TABLE {'orders' if is_sqlite(x) else 'orders, customers'}",
        *(["DROP TABLE customers"] if is_sqlite(x) else []),
        "ALTER TABLE wider RENAME TO customers",
        ORDERS,
    )
    for _ in range(10):
        x.clock.pass_by()
    with pytest.raises(ConfigurationError, match="the triggers on customers are missing"):
        both(x, y, rounds=2)

    drive(x.links.capture("orders"))
    by_another_program(x, "INSERT INTO customers VALUES (2, 'Bob')")
    both(x, y, rounds=2)
    assert rows(y) == rows(x) == [(1, "Ann"), (2, "Bob")]


ADD_ONE = "UPDATE customers SET name = CAST(name AS INTEGER) + 1 WHERE id = NEW.customer"


def test_a_counter_that_another_trigger_increases_is_equal_at_both_ends(pair: tuple[Side, Side]) -> None:
    x, y = pair
    by_another_program(x, "INSERT INTO customers VALUES (1, '0')")
    both(x, y, rounds=2)
    for side in pair:
        on = "TRIGGER a_counter AFTER INSERT ON orders FOR EACH ROW"
        if is_sqlite(side):
            by_another_program(side, f"CREATE {on} BEGIN {ADD_ONE}; END")
            side.leave()
            side.restart()
            with pytest.raises(ConfigurationError, match="older than another trigger"):
                side.run()
        else:
            body = f"LANGUAGE plpgsql AS 'BEGIN {ADD_ONE}; RETURN NULL; END'"
            by_another_program(
                side,
                f"CREATE FUNCTION count_orders() RETURNS trigger {body}",
                f"CREATE {on} EXECUTE FUNCTION count_orders()",
            )
        recapture(side, *TABLES)

    by_another_program(
        x, "INSERT INTO orders VALUES (1, 1, 1), (1, 2, 1)", "INSERT INTO orders VALUES (2, 1, 1)"
    )
    both(x, y, rounds=2)

    assert rows(y) == rows(x) == [(1, "3")]
    assert rows(y, "orders") == rows(x, "orders")


def test_a_table_that_left_the_settings_is_not_captured_any_more(pair: tuple[Side, Side]) -> None:
    x, _ = pair
    recapture(x, "customers")
    by_another_program(x, "INSERT INTO customers VALUES (1, 'Ann')", "INSERT INTO orders VALUES (1, 1, 1)")
    x.run()

    assert log(x) == [(1, 0)]

    drive(x.links.release("orders"))
    by_another_program(x, "INSERT INTO customers VALUES (2, 'Bob')")
    assert rows(x, "doubtless_link_changes") == []


def test_a_peer_changes_no_table_but_those_of_the_link(pair: tuple[Side, Side]) -> None:
    x, y = pair

    for table, column in (("sysremoteuser", "address"), ("customers", "nothing")):
        x.commit({"table": table, "operation": "UPDATE", "key": {"id": 1}, "new": {column: "x"}})
    both(x, y, rounds=3)

    assert [outcome.status for outcome in y.outcomes if outcome.error is not None] != []
    assert y.row().address == "x"


def test_an_extract_has_what_was_captured_before_and_load_captures_nothing(
    pair: tuple[Side, Side], tmp_path: Path
) -> None:
    x, y = pair
    by_another_program(x, "INSERT INTO customers VALUES (1, 'Ann')")
    by_another_program(y, "INSERT INTO customers VALUES (7, 'lost')")
    drive(extract(x.links, "orders", tmp_path / "extract"))

    with pytest.raises(ConfigurationError, match="1 transactions were published here"):
        drive(load(y.links, "orders", tmp_path / "extract"))
    drive(load(y.links, "orders", tmp_path / "extract", discard=True))
    by_another_program(x, "INSERT INTO customers VALUES (2, 'Bob')")
    both(x, y, rounds=3)

    assert rows(x) == rows(y) == [(1, "Ann"), (2, "Bob")]
    assert (len(x.outcomes), len(y.outcomes)) == (0, 1)


def test_an_extract_waits_for_transactions_that_change_captured_tables(
    pair: tuple[Side, Side], tmp_path: Path
) -> None:
    x, y = pair
    if is_sqlite(x):
        pytest.skip("it has one writer")
    with psycopg.connect(x.url) as writer, ThreadPoolExecutor() as threads:
        writer.execute("INSERT INTO customers VALUES (1, 'Ann')")
        extracting = threads.submit(lambda: drive(extract(x.links, "orders", tmp_path / "extract")))
        waits = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND mode = 'ShareRowExclusiveLock'"
        eventually(lambda: x.query(waits)[0][0] > 0)
        writer.commit()
        extracting.result()
    drive(load(y.links, "orders", tmp_path / "extract"))
    by_another_program(x, "INSERT INTO customers VALUES (2, 'Bob')")
    both(x, y, rounds=3)

    assert rows(x) == rows(y) == [(1, "Ann"), (2, "Bob")]
    assert len(y.outcomes) == 1


def test_a_database_of_an_older_version_gets_the_tables(pair: tuple[Side, Side]) -> None:
    x, y = pair
    for side in pair:
        drive(side.links.release("orders"))
        side.leave()
        side.execute("DROP TABLE doubtless_link_changes")
        side.execute("DROP TABLE doubtless_link_work")
        side.restart()
        drive(side.links.setup("orders"))
        drive(side.links.capture("orders"))

    by_another_program(x, "INSERT INTO customers VALUES (1, 'Ann')")
    both(x, y, rounds=2)

    assert rows(y) == [(1, "Ann")]


SQLITE_KINDS = (
    "('text'), (''), (NULL), (0), (9223372036854775807), (-9223372036854775808), (0.1), (1.0), "
    "(1.7976931348623157e308), (5e-324), (9e999), (-9e999), (1234567.123456789), (x'00ff'), (x''), "
    "('Zoë ''\"\\ ' || char(10) || char(0) || 'x'), ('{\"bytes\": \"00\"}')"
)


POSTGRES_KINDS = {
    "BYTEA": r"('\x00ff'), ('\x'), (NULL)",
    "BIGINT": "(9223372036854775807), (-9223372036854775808)",
    "NUMERIC": "('12345678901234567890.1234567890'), ('1.10'), ('NaN')",
    "DOUBLE PRECISION": "('0.1'), ('-0'), ('Infinity'), ('NaN'), ('5e-324'), ('1.7976931348623157e308')",
    "REAL": "('0.1'), ('16777217')",
    "BOOLEAN": "(TRUE), (FALSE), (NULL)",
    "TIMESTAMPTZ": "('2026-05-01 12:00:00.123456+02'), ('infinity'), ('0044-03-15 BC')",
    "INTERVAL": "('1 month'), ('1 year 2 days 03:04:05.6'), ('-00:00:01')",
    "DATE": "('2026-05-01'), ('10000-01-01'), ('-infinity')",
    "JSONB": """('null'), (NULL), ('{"n": 12345678901234567890.12345}')""",
    "JSON": """('null'), ('{"b": 1,  "a": 1.10}')""",
    "TEXT[]": """('{"x,y",NULL}'), ('{{a},{b}}'), ('{}')""",
    "CHAR(3)": "('a'), ('abc')",
    "TEXT": r"""(''), ('Zoë ''"\ % :x')""",
    "MONEY": "('1.25')",
    "INET": "('10.0.0.1/8')",
    "UUID": "('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')",
}


@pytest.mark.parametrize("kind", ["SQLite", *POSTGRES_KINDS])
def test_values_of_all_kinds_arrive_as_they_were(pair: tuple[Side, Side], kind: str) -> None:
    x, y = pair
    if is_sqlite(x) != (kind == "SQLite"):
        pytest.skip("its values")
    column, values = ("", SQLITE_KINDS) if is_sqlite(x) else (kind, POSTGRES_KINDS[kind])
    serial = "INTEGER PRIMARY KEY" if is_sqlite(x) else "INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    for side in pair:
        side.execute(f'CREATE TABLE kinds (id {serial}, "a ""% \\:b" {column}, more {column})')
        recapture(side, *TABLES, "kinds")

    by_another_program(x, f'INSERT INTO kinds ("a ""% :b") VALUES {values}')  # noqa: S608
    both(x, y, rounds=2)
    by_another_program(x, 'UPDATE kinds SET more = "a ""% :b"')
    both(x, y, rounds=2)

    typed = "typeof(more) || quote(more)" if is_sqlite(x) else "kinds\\:\\:text"
    shown = f"SELECT id, {typed} FROM kinds ORDER BY id"  # noqa: S608
    assert y.query(shown) == x.query(shown)
    assert y.query("SELECT COUNT(*) FROM kinds WHERE more IS NOT NULL") != [(0,)]


def test_a_database_with_another_encoding_sends_its_text(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as database:
        database.execute("PRAGMA encoding = 'UTF-16le'")
        database.execute("CREATE TABLE first (id INTEGER)")
    with capturing([f"sqlite:///{tmp_path}/{name}.db" for name in "xy"]) as (x, y):
        by_another_program(x, "INSERT INTO customers VALUES (1, 'Zoë'), (2, x'00ff')")
        both(x, y, rounds=2)

        assert rows(y) == rows(x) == [(1, "Zoë"), (2, b"\x00\xff")]


def test_large_rows_and_wide_tables_arrive(pair: tuple[Side, Side]) -> None:
    x, y = pair
    wide = ", ".join(f"c{number} TEXT" for number in range(300))
    for side in pair:
        side.execute(f"CREATE TABLE kinds (id INTEGER PRIMARY KEY, {wide})")
        recapture(side, *TABLES, "kinds")
    y.trigger = applying_changes("orders", y.links.link("orders"))
    y.trigger.use_default_history(y.links.history)
    filler = "hex(zeroblob(1000000))" if is_sqlite(x) else "repeat('0', 2000000)"

    by_another_program(x, f"INSERT INTO kinds (id, c7, c299) VALUES (1, {filler}, 'last')")  # noqa: S608
    by_another_program(x, "UPDATE kinds SET c298 = 'changed'")
    both(x, y, rounds=3)

    (row,) = y.query("SELECT length(c7) AS size, c298, c299 FROM kinds")
    assert tuple(row) == (2_000_000, "changed", "last")
