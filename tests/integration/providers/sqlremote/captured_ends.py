"""Both ends of a link with captured tables, and a program that does not know doubtless."""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import Connection

from history.bridge import drive
from tests.integration.providers.sqlremote.link_ends import Side, linked
from triggers.providers.sqlremote import Change, apply_changes

TABLES = ["customers", "orders"]

CUSTOMERS = "CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR(30))"
ORDERS = """CREATE TABLE orders (
    id INTEGER, line INTEGER, customer INTEGER REFERENCES customers (id) ON DELETE CASCADE,
    PRIMARY KEY (id, line)
)"""


def keep(operations: Sequence[Any], connection: Connection) -> None:
    changes = [Change.model_validate(operation) for operation in operations]
    apply_changes(connection, changes, tables=[*TABLES, "kinds"])


@contextmanager
def capturing(urls: Sequence[str]) -> Generator[tuple[Side, Side]]:
    """Two ends of a link with captured tables."""
    with linked(urls, tables=TABLES, capture=True) as sides:
        for side in sides:
            side.service = keep
            side.execute(CUSTOMERS)
            side.execute(ORDERS)
            drive(side.links.capture("orders"))
        yield sides


def is_sqlite(side: Side) -> bool:
    return side.engine.dialect.name == "sqlite"


def by_another_program(side: Side, *statements: str, undone: bool = False) -> None:
    """Run statements in one transaction of a program that does not know doubtless."""
    other: Any = (
        sqlite3.connect(side.url.removeprefix("sqlite:///")) if is_sqlite(side) else psycopg.connect(side.url)
    )
    if is_sqlite(side):
        other.execute("PRAGMA foreign_keys = ON")
    for statement in statements:
        other.execute(statement)
    if undone:
        other.rollback()
    other.commit()
    other.close()


def rows(side: Side, table: str = "customers") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in side.query(f"SELECT * FROM {table} ORDER BY 1, 2")]  # noqa: S608


def log(side: Side) -> list[tuple[int, int]]:
    return [
        (row.commit_offset, row.position)
        for row in side.query("SELECT * FROM doubtless_link_log ORDER BY commit_offset, position")
    ]


def recapture(side: Side, *tables: str) -> None:
    side.leave()
    side.restart(tables=tables)
    drive(side.links.capture("orders"))
