"""Tables of another program or version: recognized by their columns, and refused before anything is made.

An existing table keeps its columns, whoever made it. With another program's table under the same name, each
statement, and each retry, would fail with an error about a single column.
"""

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import Table

from history.errors import ConfigurationError
from history.sql.database.engine import AnyConnection, fetch
from history.sql.statements.dialects import Dialect, statement

# The columns of tables, or of views with these names; a ``needed`` column has no default and takes no NULL.
# SQLite ignores case in the names of tables and columns. Not to_regclass on PostgreSQL: its server process
# would remember that the table is missing, even after a transaction waited for another one to create it.
COLUMNS = statement(
    sqlite="""SELECT t.value AS "table", lower(c.name) AS name,
        c."notnull" = 1 AND c.dflt_value IS NULL
        AND NOT (c.pk = 1 AND lower(c.type) = 'integer') AS needed
    FROM json_each(:tables) AS t CROSS JOIN pragma_table_info(t.value) AS c""",
    postgresql="""SELECT CAST(t.relname AS TEXT) AS table, CAST(c.attname AS TEXT) AS name,
        c.attnotnull AND NOT c.atthasdef AND c.attidentity = '' AS needed
    FROM pg_class AS t JOIN pg_attribute AS c ON c.attrelid = t.oid
    WHERE t.relname = ANY (CAST(:tables AS NAME[])) AND pg_table_is_visible(t.oid)
        AND c.attnum > 0 AND NOT c.attisdropped""",
)

#: How many tables an error describes; the others probably have the same origin.
DESCRIBED = 4


async def refuse_foreign(
    connection: AnyConnection,
    tables: Sequence[Table],
    *,
    setting: str,
    added: Sequence[str] = (),
    remedy: str = "give it a database, or a schema of PostgreSQL, without tables of these names",
) -> None:
    """Return if each of the tables is missing or ours; nothing is written.

    ``setting`` is the setting that an error names. Columns in ``added`` may be missing: they are added later.

    Raises:
        ConfigurationError: a table has other columns; all missing columns are named.
    """
    names: object = [table.name for table in tables]
    if connection.dialect.name == Dialect.SQLITE:
        names = json.dumps(names)
    stored: dict[str, dict[str, bool]] = {}
    for table, name, needed in await fetch(connection, COLUMNS, tables=names):
        stored.setdefault(table, {})[name] = bool(needed)
    problems = [
        problem
        for table in tables
        if table.name in stored
        for problem in _problems(table, stored[table.name], set(added))
    ]
    if problems:
        more = len(problems) - DESCRIBED
        shown = "; ".join(problems[:DESCRIBED]) + (f"; and {more} more" if more > 0 else "")
        raise ConfigurationError(
            setting, f"tables of another program or version are in the way: {shown}", remedy
        )


def _problems(table: Table, stored: Mapping[str, bool], added: set[str]) -> Sequence[str]:
    wanted = [column.name for column in table.columns]
    missing = [name for name in wanted if name not in stored and name not in added]
    unknown = [name for name, needed in stored.items() if needed and name not in wanted]
    problems: list[str] = []
    if missing:
        problems.append(f"{table.name} has no column {', '.join(missing)}")
    if unknown:
        problems.append(f"{table.name} wants a value in {', '.join(unknown)}")
    return problems
