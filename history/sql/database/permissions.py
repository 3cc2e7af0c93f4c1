"""The privileges of a PostgreSQL role on tables and sequences, found without touching a row.

The needs of a statement are read from its text: the tables that it writes and reads.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import NamedTuple, cast

from history.sql.database.engine import AnyConnection, fetch
from history.sql.statements.dialects import Dialect, Sql, Statement, statement
from history.store.inspection import Refusal

#: The parts of a text that need privileges, and which ones; the group is the table or sequence. A statement
#: also reads a table that it writes under a condition, or returns.
_NEEDS: Sequence[tuple[re.Pattern[str], tuple[str, ...]]] = tuple(
    (re.compile(pattern, re.DOTALL), privileges)
    for pattern, privileges in (
        (r"\bINSERT INTO (\w+)", ("INSERT",)),
        (r"\bINSERT INTO (\w+)(?:(?!INSERT INTO).)*?\bON CONFLICT\b", ("SELECT",)),
        (r"\bINSERT INTO (\w+)(?:(?!INSERT INTO).)*?\bRETURNING\b", ("SELECT",)),
        (r"\bINSERT INTO (\w+)(?:(?!INSERT INTO).)*?\bDO UPDATE\b", ("SELECT", "UPDATE")),
        (r"(?<!DO )(?<!FOR )\bUPDATE (?!SET\b|OF\b|SKIP\b)(\w+)", ("SELECT", "UPDATE")),
        (r"\bDELETE FROM (\w+)", ("SELECT", "DELETE")),
        (r"\b(?:FROM|JOIN) (\w+)", ("SELECT",)),
        (r"\bFROM (\w+)(?:(?!\bFROM\b).)*?\bFOR (?:UPDATE|SHARE)\b", ("SELECT", "UPDATE")),
        (r"\bFROM (\w+) AS (\w+)\b.*?\bFOR UPDATE OF \2\b", ("SELECT", "UPDATE")),
        (r"\bLOCK TABLE (\w+)", ("UPDATE",)),
        (r"\bnextval\('(\w+)'\)", ("USAGE",)),
        (r"\bsetval\('(\w+)'", ("UPDATE",)),
    )
)

# The missing tables and sequences, and refused privileges on the others; with new rows' sequences.
ASK = statement(
    postgresql="""
    WITH wanted AS MATERIALIZED (
        SELECT p.name, p.privilege, to_regclass(quote_ident(p.name)) AS oid
        FROM json_to_recordset(CAST(:wanted AS json)) AS p (name TEXT, privilege TEXT)
    ), drawn AS MATERIALIZED (
        SELECT DISTINCT s.oid, s.relname AS name FROM wanted AS w
        JOIN pg_depend AS d ON d.refobjid = w.oid AND d.deptype = 'a' AND d.classid = 'pg_class'::regclass
        JOIN pg_class AS s ON s.oid = d.objid AND s.relkind = 'S'
        WHERE w.privilege = 'INSERT'
    )
    SELECT w.name, w.privilege, COALESCE(c.relkind = 'S', FALSE) AS sequence, w.oid IS NULL AS missing
    FROM wanted AS w LEFT JOIN pg_class AS c ON c.oid = w.oid
    WHERE w.oid IS NULL OR NOT CASE WHEN c.relkind = 'S' THEN has_sequence_privilege(w.oid, w.privilege)
        ELSE has_table_privilege(w.oid, w.privilege) END
    UNION ALL
    SELECT d.name, 'USAGE', TRUE, FALSE FROM drawn AS d WHERE NOT has_sequence_privilege(d.oid, 'USAGE')
    ORDER BY name, privilege
"""
)

# The role, the schema of new tables, and whether the role may create them.
MAKING = statement(
    postgresql="""
    SELECT current_user, current_schema(),
        COALESCE(has_schema_privilege(current_schema(), 'CREATE'), FALSE)
"""
)


class Need(NamedTuple):
    """A privilege on a table or a sequence."""

    name: str
    privilege: str


def statements_of(module: ModuleType) -> Iterator[Statement]:
    """Yield the statements of a module, including those in dictionaries."""
    return _found(vars(module).values())


def _found(values: Iterable[object]) -> Iterator[Statement]:
    for value in values:
        if isinstance(value, dict):
            held = cast("dict[object, object]", value)
            if isinstance(held.get(Dialect.POSTGRESQL), Sql):
                yield cast("Statement", held)
            else:
                yield from _found(held.values())


def needs_of(statements: Iterable[Statement], prefix: str) -> frozenset[Need]:
    """Return the privileges that these statements need on PostgreSQL, for names with this ``prefix``."""
    return frozenset(
        Need(table[1], privilege)
        for statement in statements
        for pattern, privileges in _NEEDS
        for table in pattern.finditer(str(statement["postgresql"]))
        if table[1].startswith(prefix)
        for privilege in privileges
    )


async def refusals_of(connection: AnyConnection, needs: Mapping[str, Iterable[Need]]) -> Sequence[Refusal]:
    """Return the privileges that the role of a connection lacks, by their purpose."""
    ((role, schema, makes),) = await fetch(connection, MAKING)
    refusals: list[Refusal] = []
    for doing, wanted in needs.items():
        asked = json.dumps([need._asdict() for need in sorted(wanted)])
        rows = [
            (str(name), str(privilege), bool(sequence), bool(missing))
            for name, privilege, sequence, missing in await fetch(connection, ASK, wanted=asked)
        ]
        refusals += _refusals(doing, str(role), rows)
        gone = sorted({name for name, _, _, missing in rows if missing})
        if gone and not makes:
            refusals.append(
                Refusal(
                    doing,
                    f"PostgreSQL has no {', '.join(gone)} yet, and its role {role} may not make tables",
                    f"GRANT CREATE ON SCHEMA {schema} TO {role}, or run this once as the owner of the tables",
                )
            )
    return refusals


def _refusals(doing: str, role: str, rows: Sequence[tuple[str, str, bool, bool]]) -> Iterator[Refusal]:
    """Return one refusal for all existing tables, with one grant per table."""
    lacking: dict[tuple[str, bool], list[str]] = {}
    for name, privilege, sequence, missing in rows:
        if not missing:
            lacking.setdefault((name, sequence), []).append(privilege)
    if lacking:
        refused = "; ".join(f"{', '.join(what)} on {name}" for (name, _), what in lacking.items())
        grants = "; ".join(
            f"GRANT {', '.join(what)} ON {'SEQUENCE ' if sequence else ''}{name} TO {role}"
            for (name, sequence), what in lacking.items()
        )
        yield Refusal(doing, f"PostgreSQL refuses its role {role} {refused}", grants)
