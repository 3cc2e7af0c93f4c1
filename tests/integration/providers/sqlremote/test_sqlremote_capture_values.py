"""Captured values of all kinds, large rows and wide tables."""

from collections.abc import Iterator, Sequence

import pytest

from tests.integration.providers.sqlremote.captured_ends import (
    TABLES,
    by_another_program,
    capturing,
    is_sqlite,
    recapture,
)
from tests.integration.providers.sqlremote.link_ends import Side, both
from triggers.cli.sqlremote.running import applying_changes

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


@pytest.fixture
def pair(link_databases: Sequence[str]) -> Iterator[tuple[Side, Side]]:
    with capturing(link_databases) as sides:
        yield sides


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
