"""Tables of another program or version: found by their columns, and refused before anything is made.

A table that is there keeps its columns, whoever made it. One of another program under the same name would
fail each statement, and each retry of it, with an error that speaks of a single column.
"""

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import Table

from history.errors import ConfigurationError
from history.sql.database.engine import AnyConnection, fetch
from history.sql.statements.dialects import Dialect, statement

# The columns of tables, or of views of these names; ``needed`` has no default and takes no NULL. SQLite knows
# its tables and columns by any case. PostgreSQL is not asked by to_regclass: its server process would note
# that there is none, and go on to believe it in a transaction that has waited for another one's creating.
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

#: How many tables an error describes; the rest are of the same making.
DESCRIBED = 4


async def refuse_foreign(
    connection: AnyConnection,
    tables: Sequence[Table],
    *,
    setting: str,
    added: Sequence[str] = (),
    remedy: str = "give it a database, or a schema of PostgreSQL, without tables of these names",
) -> None:
    """Return where each of the tables is missing or ours; nothing is written.

    ``setting`` is what an error blames. Columns in ``added`` may be missing: they are added later.

    Raises:
        ConfigurationError: one has other columns; all that are missing are named.
    """
    names: object = [table.name for table in tables]
    if connection.dialect.name == Dialect.SQLITE:
        names = json.dumps(names)
    found: dict[str, dict[str, bool]] = {}
    for table, name, needed in await fetch(connection, COLUMNS, tables=names):
        found.setdefault(table, {})[name] = bool(needed)
    problems = [
        problem
        for table in tables
        if table.name in found
        for problem in _problems(table, found[table.name], set(added))
    ]
    if problems:
        more = len(problems) - DESCRIBED
        shown = "; ".join(problems[:DESCRIBED]) + (f"; and {more} more" if more > 0 else "")
        raise ConfigurationError(
            setting, f"tables of another program or version are in the way: {shown}", remedy
        )


def _problems(table: Table, found: Mapping[str, bool], added: set[str]) -> Sequence[str]:
    wanted = [column.name for column in table.columns]
    missing = [name for name in wanted if name not in found and name not in added]
    unknown = [name for name, needed in found.items() if needed and name not in wanted]
    problems: list[str] = []
    if missing:
        problems.append(f"{table.name} has no column {', '.join(missing)}")
    if unknown:
        problems.append(f"{table.name} wants a value in {', '.join(unknown)}")
    return problems
