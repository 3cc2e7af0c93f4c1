"""Create, compare and drop the triggers of a publication, in the caller's transaction.

They must run before other triggers of a table. Otherwise, a change that another trigger makes would be
captured before its cause. PostgreSQL runs triggers in the order of their names. SQLite promises no order,
and runs the newest trigger first.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from sqlalchemy import Connection, text

from history.bridge import drive
from history.errors import ConfigurationError
from history.sql.database.engine import execute
from history.sql.statements.dialects import Dialect, quoted_name
from triggers.providers.sqlremote.capture import postgres, sqlite
from triggers.providers.sqlremote.capture.declared import Captured, Declared, captured, refuse_deferrable
from triggers.providers.sqlremote.publication.collecting import FORGET

# The prefix of the names of all our triggers; no name that a person gives comes before it.
_OURS: Final = "!doubtless_"

# The triggers of a publication, with their texts and tables.
_FOUND: Final = {
    Dialect.SQLITE: text(
        "SELECT name, sql AS body, tbl_name AS relation, NOT EXISTS (SELECT 1 FROM sqlite_master AS newer "
        "WHERE newer.type = 'trigger' AND newer.tbl_name = mine.tbl_name COLLATE NOCASE "
        "AND newer.rowid > mine.rowid AND substr(newer.name, 1, length(:all)) <> :all) AS runs_first "
        "FROM sqlite_master AS mine WHERE type = 'trigger' AND substr(name, 1, length(:prefix)) = :prefix"
    ),
    Dialect.POSTGRESQL: text(
        "SELECT t.tgname AS name, p.prosrc AS body, t.tgrelid\\:\\:regclass AS relation, TRUE AS runs_first "
        "FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid "
        "WHERE starts_with(t.tgname, :prefix) AND t.tgparentid = 0 AND t.tgenabled IN ('O', 'A') "
        "AND pg_table_is_visible(t.tgrelid)"
    ),
}

_subscribers_of: Final = {
    Dialect.SQLITE: sqlite.is_for_its_subscribers,
    Dialect.POSTGRESQL: postgres.is_for_its_subscribers,
}


class _Found(NamedTuple):
    """A trigger of the database."""

    body: str
    relation: str
    runs_first: bool

    def fits(self, body: str | None) -> bool:
        return self.runs_first and self.body == body


# The schema of the tables of the links.
_SCHEMA: Final = text(
    "SELECT nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE c.oid = to_regclass('doubtless_link_changes')"
)


def install(connection: Connection, publication: str, tables: Sequence[str]) -> Sequence[Captured]:
    """Let triggers capture the changes of these tables, and of no others, for a publication.

    Raises:
        ConfigurationError: a table, one of its columns or its primary key is missing, or the key is
            DEFERRABLE.
    """
    shapes = _shapes(connection, tables)
    wanted, installed = _wanted(connection, publication, shapes), _found(connection, publication)
    for name, found in installed.items():
        if not found.fits(wanted.get(name)):
            _run(connection, _dropping(connection, name, found.relation))
    for shape in shapes:
        name = _name(publication, shape.name)
        mine = _of_table(wanted, name)
        if not _are_there(installed, mine):
            _create(connection, name, shape, mine)
    return shapes


def uninstall(connection: Connection, publication: str) -> None:
    """Drop the triggers of a publication, and what they have captured."""
    install(connection, publication, ())
    drive(execute(connection, FORGET, publication=publication))


def refuse_uncaptured(connection: Connection, publication: str, tables: Sequence[str]) -> None:
    """Return if triggers capture all columns of these tables.

    Raises:
        ConfigurationError: they do not: what was written would not be replicated.
    """
    shapes = _shapes(connection, tables)
    wanted, installed = _wanted(connection, publication, shapes), _found(connection, publication)
    for shape in shapes:
        if not _are_there(installed, _of_table(wanted, _name(publication, shape.name))):
            raise ConfigurationError(
                "capture",
                f"the triggers on {shape.name} are missing, disabled, older than another trigger of it, or "
                "do not fit its columns",
                "run: doubtless sqlremote setup",
            )


def resubscribed(connection: Connection, publication: str, tables: Sequence[str]) -> Sequence[str]:
    """Return the captured tables whose triggers name another column to subscribe by, or none.

    Raises:
        ConfigurationError: a table, one of its columns or its primary key is missing.
    """
    shapes = [captured(connection, Declared.parse(table)) for table in tables]
    installed, by = _found(connection, publication), _subscribers_of[Dialect(connection.dialect.name)]
    return [
        shape.name
        for shape in shapes
        if any(
            not by(shape, found.body)
            for name, found in installed.items()
            if name.startswith(_name(publication, shape.name))
        )
    ]


def _shapes(connection: Connection, tables: Sequence[str]) -> Sequence[Captured]:
    shapes = [captured(connection, Declared.parse(table)) for table in tables]
    for shape in shapes:
        refuse_deferrable(connection, shape.name)
    return shapes


def _name(publication: str, table: str) -> str:
    return f"{_prefix(publication)}{_digest(table)}"


def _prefix(publication: str) -> str:
    return f"{_OURS}{_digest(publication)}_"


def _of_table(wanted: Mapping[str, str], name: str) -> Mapping[str, str]:
    return {trigger: body for trigger, body in wanted.items() if trigger.startswith(name)}


def _are_there(installed: Mapping[str, _Found], wanted: Mapping[str, str]) -> bool:
    return all(name in installed and installed[name].fits(body) for name, body in wanted.items())


def _digest(name: str) -> str:
    # PostgreSQL cuts a name after 63 bytes.
    return blake2b(name.encode(), digest_size=6).hexdigest()


def _wanted(connection: Connection, publication: str, shapes: Sequence[Captured]) -> Mapping[str, str]:
    wanted: dict[str, str] = {}
    is_sqlite = connection.dialect.name == Dialect.SQLITE
    schema = "" if is_sqlite or not shapes else _schema(connection)
    for shape in shapes:
        name = _name(publication, shape.name)
        if is_sqlite:
            wanted |= sqlite.triggers_of(name, publication, shape)
        else:
            wanted |= postgres.wanted(name, postgres.body_of(schema, publication, shape))
    return wanted


def _found(connection: Connection, publication: str) -> Mapping[str, _Found]:
    """Return the existing triggers, by their names."""
    dialect = Dialect(connection.dialect.name)
    values = {"prefix": _prefix(publication)} | ({"all": _OURS} if dialect is Dialect.SQLITE else {})
    return {
        str(name): _Found(str(body), str(relation), bool(runs_first))
        for name, body, relation, runs_first in connection.execute(_FOUND[dialect], values)
    }


def _create(connection: Connection, name: str, shape: Captured, wanted: Mapping[str, str]) -> None:
    for trigger in wanted:
        on = f" ON {quoted_name(shape.name)}" if connection.dialect.name != Dialect.SQLITE else ""
        _run(connection, f"DROP TRIGGER IF EXISTS {quoted_name(trigger)}{on}")
    if connection.dialect.name == Dialect.SQLITE:
        statements: Sequence[str] = list(wanted.values())
    else:
        statements = postgres.statements_of(_schema(connection), name, shape, wanted[name])
    for statement in statements:
        _run(connection, statement)


def _dropping(connection: Connection, name: str, relation: str) -> str:
    on = "" if connection.dialect.name == Dialect.SQLITE else f" ON {relation}"
    return f"DROP TRIGGER {quoted_name(name)}{on}"


def _schema(connection: Connection) -> str:
    return str(connection.execute(_SCHEMA).scalar_one())


def _run(connection: Connection, sql: str) -> None:
    # Without parameters, so that the driver does not look for any in the names of columns.
    connection.exec_driver_sql(sql, execution_options={"no_parameters": True})
