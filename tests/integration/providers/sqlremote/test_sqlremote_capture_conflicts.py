"""Databases with captured tables change the same rows, and are equal in the end."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from history.bridge import drive
from tests.integration.providers.sqlremote.link_ends import Side, both, linked
from tests.integration.providers.sqlremote.three_ends import ROWS, Three
from triggers.providers.sqlremote import Change, apply_changes
from triggers.providers.sqlremote.comparison import Difference, compare, opened
from triggers.providers.sqlremote.extraction.extract import extract
from triggers.providers.sqlremote.extraction.load import load

#: Changes of all kinds. Some of them change nothing.
STATEMENTS = (
    "DELETE FROM stock WHERE id = :row",
    "UPDATE stock SET value = :value WHERE id >= :row",
    "INSERT INTO stock VALUES (:row, :value) ON CONFLICT (id) DO UPDATE SET value = excluded.value",
    "UPDATE stock SET id = :row WHERE id = 'r-3' AND NOT EXISTS (SELECT 1 FROM stock WHERE id = :row)",
)


def keep(
    operations: Sequence[Any],
    connection: Connection,
    *,
    tables: Sequence[str],
    to_sender: bool = False,
    subscription: str | None = None,
) -> None:
    changes = [Change.model_validate(operation) for operation in operations]
    apply_changes(connection, changes, tables=tables, to_sender=to_sender, subscription=subscription)


def compared(x: Side, y: Side, tables: Sequence[str]) -> list[Difference]:
    with opened(x.url, tables) as here, opened(y.url, tables) as there:
        return list(compare(here, there))


class Captured(Three):
    """Like :class:`Three`, but SQL triggers capture the changes, and no program appends."""

    services = partial(keep, tables=["stock"], to_sender=True), partial(keep, tables=["stock"])
    settings = {"tables": ["stock"], "capture": True}  # noqa: RUF012  (nobody changes it)

    def __init__(self, seed: int, urls: Sequence[str]) -> None:
        super().__init__(seed, urls)
        for side in self.sides:
            drive(side.links.capture("orders"))

    def update(self, side: Side) -> None:
        """Change one or two rows, or more."""
        with side.engine.begin() as connection:
            for row in self.random.sample(ROWS, self.random.choice([1, 2])):
                value = self.random.choice(["red", "blue", f"{side.name} {self.random.random()}"])
                statement = self.random.choice(STATEMENTS)
                connection.execute(text(statement), {"row": row, "value": value})

    def is_quiet(self) -> bool:
        count = "SELECT COUNT(*) FROM doubtless_link_changes WHERE publication <> ''"
        waiting = [side.query(count)[0][0] for side in self.sides]
        return not any(waiting) and super().is_quiet()


def test_a_database_that_does_not_get_its_own_results_differs(tmp_path: Path) -> None:
    three = Captured(0, [f"sqlite:///{tmp_path}/{name}.db" for name in "cab"])
    centre, a, b = three.sides
    centre.service = partial(keep, tables=["stock"])

    for side in (a, b):
        side.execute(f"INSERT INTO stock VALUES ('r-1', '{side.name}')")  # noqa: S608
    three.settle()

    (difference,) = compared(a, b, ["stock"])
    assert difference.different == ['["r-1"]']
    three.leave()


def test_sqlite_and_postgres_replicate_to_each_other(tmp_path: Path, postgres_url: str) -> None:
    tables = ["kinds"]
    columns = (
        "id BIGINT PRIMARY KEY, t TEXT, flag BOOLEAN, raw {}, n NUMERIC(9, 2), size DOUBLE PRECISION, "
        "day DATE, at {}"
    )
    with linked([f"sqlite:///{tmp_path}/x.db", postgres_url], tables=tables, capture=True) as (x, y):
        x.execute(f"CREATE TABLE kinds ({columns.format('BLOB', 'TEXT')})")
        y.execute(f"CREATE TABLE kinds ({columns.format('BYTEA', 'TIMESTAMPTZ')})")
        for side in (x, y):
            side.service = partial(keep, tables=tables)
            drive(side.links.capture("orders"))

        values = r"'Zoë', TRUE, {}, 1.25, 0.1, '2026-05-01', '2026-05-01 12\:00\:00.5+00'"
        for side, key, raw in ((x, 9007199254740993, "x'00ff'"), (y, 2, r"'\x00ff'")):
            side.execute(f"INSERT INTO kinds VALUES ({key}, {values.format(raw)})")  # noqa: S608
        y.execute("INSERT INTO kinds (id) VALUES (3)")
        both(x, y, rounds=3)

        (difference,) = compared(x, y, tables)
        assert difference.is_equal
        assert (difference.rows, difference.other_rows) == (3, 3)


#: The columns of SQLite that get the values of PostgreSQL.
TEXTS = (
    "n TEXT, m NUMERIC, id2 TEXT, at TEXT, local TIMESTAMP, day DATE, t TEXT, size REAL, raw BLOB, doc TEXT"
)


def test_an_extract_of_postgres_has_the_values_of_its_captured_changes(
    tmp_path: Path, postgres_url: str
) -> None:
    tables = ["kinds"]
    with linked([postgres_url, f"sqlite:///{tmp_path}/y.db"], tables=tables, capture=True) as (x, y):
        x.execute(
            "CREATE TABLE kinds (id BIGINT PRIMARY KEY, n NUMERIC, m NUMERIC, id2 UUID, at TIMESTAMPTZ, "
            "local TIMESTAMP, day DATE, t TIME, size DOUBLE PRECISION, raw BYTEA, doc JSONB, flag BOOLEAN)"
        )
        y.execute(f"CREATE TABLE kinds (id BIGINT PRIMARY KEY, {TEXTS}, flag BOOLEAN)")
        for side in (x, y):
            side.service = partial(keep, tables=tables)
            drive(side.links.capture("orders"))
        for key, at in enumerate(["2026-05-01 12:00:00.5-05:30", "0001-02-03 00:00:00+00", "infinity"]):
            instant = at.replace(":", "\\:")
            x.execute(
                f"INSERT INTO kinds VALUES ({key}, 12345678901234567890.1230, 1.50, "  # noqa: S608
                f"'00000000-0000-0000-0000-00000000000a', '{instant}', '2026-05-01 12\\:00\\:00.050', "
                f"'2026-05-01', '12\\:00\\:00', 0.1, '\\x00ff', '{{}}', TRUE)"
            )
        x.execute("INSERT INTO kinds (id) VALUES (7)")
        both(x, y, rounds=3)
        columns = ", ".join(f"typeof({name}), {name}" for name in ("n", "m", *TEXTS.split()[4::2], "flag"))
        captured = y.query(f"SELECT {columns} FROM kinds ORDER BY id")  # noqa: S608

        drive(extract(x.links, "orders", tmp_path / "extract"))
        drive(load(y.links, "orders", tmp_path / "extract"))

        assert y.query(f"SELECT {columns} FROM kinds ORDER BY id") == captured  # noqa: S608
        assert len(captured) == 4
