"""Create, compare and drop the triggers of a publication, in the caller's transaction."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final

from sqlalchemy import Connection, text

from history.bridge import drive
from history.errors import ConfigurationError
from history.sql.database.engine import execute
from history.sql.statements.dialects import Dialect, quoted_name
from triggers.providers.sqlremote.capture import postgres, sqlite
from triggers.providers.sqlremote.capture.declared import Captured, Declared, captured
from triggers.providers.sqlremote.publication.collecting import FORGET

# The triggers of a publication, with their texts and tables.
_FOUND: Final = {
    Dialect.SQLITE: text(
        "SELECT name, sql AS body, tbl_name AS relation FROM sqlite_master "
        "WHERE type = 'trigger' AND substr(name, 1, length(:prefix)) = :prefix"
    ),
    Dialect.POSTGRESQL: text(
        "SELECT t.tgname AS name, p.prosrc AS body, t.tgrelid\\:\\:regclass AS relation "
        "FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid "
        "WHERE starts_with(t.tgname, :prefix) AND t.tgparentid = 0 AND t.tgenabled IN ('O', 'A') "
        "AND pg_table_is_visible(t.tgrelid)"
    ),
}

_subscribers_of: Final = {
    Dialect.SQLITE: sqlite.is_for_its_subscribers,
    Dialect.POSTGRESQL: postgres.is_for_its_subscribers,
}

# The schema of the tables of the links.
_SCHEMA: Final = text(
    "SELECT nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE c.oid = to_regclass('doubtless_link_changes')"
)


def install(connection: Connection, publication: str, tables: Sequence[str]) -> Sequence[Captured]:
    """Let triggers capture the changes of these tables, and of no others, for a publication.

    Raises:
        ConfigurationError: a table, one of its columns or its primary key is missing.
    """
    shapes = [captured(connection, Declared.parse(table)) for table in tables]
    wanted, installed = _wanted(connection, publication, shapes), _found(connection, publication)
    for name, (body, relation) in installed.items():
        if wanted.get(name) != body:
            _run(connection, _dropping(connection, name, relation))
    for shape in shapes:
        name = _name(publication, shape.name)
        mine = {trigger: body for trigger, body in wanted.items() if trigger.startswith(name)}
        if any(installed.get(trigger, ("", ""))[0] != body for trigger, body in mine.items()):
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
    shapes = [captured(connection, Declared.parse(table)) for table in tables]
    wanted, installed = _wanted(connection, publication, shapes), _found(connection, publication)
    for shape in shapes:
        name = _name(publication, shape.name)
        if any(
            installed.get(trigger, ("",))[0] != body
            for trigger, body in wanted.items()
            if trigger.startswith(name)
        ):
            raise ConfigurationError(
                "capture",
                f"the triggers on {shape.name} are missing, disabled, or do not fit its columns",
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
            not by(shape, body)
            for name, (body, _) in installed.items()
            if name.startswith(_name(publication, shape.name))
        )
    ]


def _name(publication: str, table: str) -> str:
    return f"{_prefix(publication)}{_digest(table)}"


def _prefix(publication: str) -> str:
    return f"doubtless_{_digest(publication)}_"


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


def _found(connection: Connection, publication: str) -> Mapping[str, tuple[str, str]]:
    """Return the bodies and tables of the existing triggers, by their names."""
    rows = connection.execute(_FOUND[Dialect(connection.dialect.name)], {"prefix": _prefix(publication)})
    return {str(name): (str(body), str(relation)) for name, body, relation in rows}


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
