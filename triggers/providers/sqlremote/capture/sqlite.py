"""The triggers of SQLite: each writes a change as JSON, with every value as the type that SQLite stores."""

import json
from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import blake2b

from history.sql.statements.dialects import quoted_name
from triggers.providers.sqlremote.capture.declared import Captured

# With the number that groups changes, and the link that they came from; a colon stands for "do not capture".
# An UPDATE that changes no value has no new values.
_INTO = """INSERT INTO doubtless_link_changes (publication, work, origin, operation{column})
    SELECT {publication}, {work}, {origin}, {operation}{subscriber}
    FROM (SELECT {parts}) AS part
    WHERE COALESCE((SELECT origin FROM doubtless_link_work WHERE id = 1), '') <> ':'
        AND part.{last} IS NOT NULL{condition}"""

_WORK = "COALESCE((SELECT number FROM doubtless_link_work WHERE id = 1), 0)"

# An INSERT OR REPLACE runs no trigger for the row that it replaces. If another subscriber has this row, the
# next trigger needs it. Nobody collects a change without a publication: an INSERT that replaces nothing may
# leave it there.
_REPLACED = """CREATE TRIGGER {name} BEFORE INSERT ON {table}
BEGIN
    DELETE FROM doubtless_link_changes WHERE id = {place};
    INSERT INTO doubtless_link_changes (id, publication, work, operation, subscriber)
        SELECT {place}, '', 0, {begin} || {old} || '}}', '>' || {subscriber}
        FROM {table} AS replaced WHERE {where};
END"""

_LEAVES = f"""INSERT INTO doubtless_link_changes (publication, work, operation, subscriber)
    SELECT {{publication}}, {_WORK}, operation, subscriber FROM doubtless_link_changes
    WHERE id = {{place}} AND subscriber <> '>' || {{subscriber}}
        AND substr(operation, 1, length({{begin}})) = {{begin}}
        AND COALESCE((SELECT origin FROM doubtless_link_work WHERE id = 1), '') <> ':'"""  # noqa: S608

_ORIGIN = "(SELECT origin FROM doubtless_link_work WHERE id = 1)"


def triggers_of(name: str, publication: str, table: Captured) -> Mapping[str, str]:
    """Return the statements that create a table's triggers, by the names of the triggers."""
    old, new = _pairs(table.columns, "OLD"), _pairs(table.columns, "NEW")
    change = f"{_pairs(table.columns, 'OLD', 'NEW')}) WHERE (column2 <> column3"
    old_key, new_key = (_object(_pairs(table.key, row)) for row in ("OLD", "NEW"))
    parts: Mapping[str, Mapping[str, str]] = {
        "INSERT": {"key": new_key, "new": _object(new)},
        "UPDATE": {"key": old_key, "old": _object(change), "new": _object(change, "column3")},
        "DELETE": {"key": old_key, "old": _object(old)},
    }
    statements = {event: [*_for_subscribers(publication, table, event, parts)] for event in parts}
    replaced: dict[str, str] = {}
    if table.by is not None:
        place = _place(name)
        leaves = _LEAVES.format(
            publication=_literal(publication),
            place=place,
            subscriber=_subscriber("NEW", table.by),
            begin=_leaving(table, "NEW"),
        )
        statements["INSERT"].insert(0, leaves)
        replaced = {f"{name}_replace": _replaced(f"{name}_replace", place, table, table.by)}
    return replaced | {
        f"{name}_{event.lower()}": f"CREATE TRIGGER {quoted_name(f'{name}_{event.lower()}')} "
        f"AFTER {event} ON {quoted_name(table.name)}\nBEGIN\n"
        + "".join(f"    {insert};\n" for insert in statements[event])
        + "END"
        for event in parts
    }


def _replaced(name: str, place: int, table: Captured, by: str) -> str:
    keys = map(quoted_name, table.key)
    return _REPLACED.format(
        name=quoted_name(name),
        table=quoted_name(table.name),
        place=place,
        begin=_leaving(table, "replaced"),
        old=_object(_pairs(table.columns, "replaced")),
        subscriber=_subscriber("replaced", by),
        where=" AND ".join(f"replaced.{key} = NEW.{key}" for key in keys),
    )


def _leaving(table: Captured, row: str) -> str:
    """Return a DELETE of a row up to its old values."""
    return f"""{_begin(table, "DELETE")} || ',"key":' || {_object(_pairs(table.key, row))} || ',"old":'"""


def _place(name: str) -> int:
    """Return the id of a change that waits for the next trigger, far away from those of others."""
    return -int.from_bytes(blake2b(name.encode(), digest_size=6).digest())


def _begin(table: Captured, operation: str) -> str:
    """Return the beginning of a change, without the end of its JSON object."""
    return _literal(json.dumps({"table": table.name, "operation": operation}, ensure_ascii=False)[:-1])


def is_for_its_subscribers(table: Captured, body: str) -> bool:
    """Whether a trigger gives rows to those who subscribe to them by the table's column."""
    if table.by is None:
        return "operation, subscriber)" not in body
    return any(_subscriber(row, table.by) in body for row in ("OLD", "NEW", "replaced"))


def _subscriber(row: str, column: str) -> str:
    return f"COALESCE(CAST({row}.{quoted_name(column)} AS TEXT), '')"


def _for_subscribers(
    publication: str, table: Captured, event: str, parts: Mapping[str, Mapping[str, str]]
) -> Iterable[str]:
    """Yield the statements of a trigger.

    After an UPDATE of the key, the whole row follows. A row that moves leaves one subscriber, and is new for
    another.
    """
    leaves, joins = ("", "") if table.by is None else (_subscriber(row, table.by) for row in ("OLD", "NEW"))
    subscriber = {
        "INSERT": f"'=' || {joins}",
        "UPDATE": f"iif({leaves} <> {joins}, '*', '=' || {joins})",
        "DELETE": f"'=' || {leaves}",
    }[event]
    into = partial(_into, publication, table)
    to = "" if table.by is None else subscriber
    yield into(event, parts[event], to)
    if event != "UPDATE":
        return
    # The other end may lack the row with the old key.
    changes = " OR ".join(f"OLD.{name} IS NOT NEW.{name}" for name in map(quoted_name, table.key))
    yield into("INSERT", parts["INSERT"], to, f" AND ({changes})")
    if table.by is not None:
        for then, value in (("DELETE", leaves), ("INSERT", joins)):
            moves = f" AND {leaves} <> {joins}"
            yield into(then, parts[then], f"'>' || {value}", moves, origin="NULL")


def _into(
    publication: str,
    table: Captured,
    operation: str,
    parts: Mapping[str, str],
    subscriber: str = "",
    condition: str = "",
    *,
    origin: str = _ORIGIN,
) -> str:
    """Return the statement that writes a change."""
    members = "".join(f" || ',\"{part}\":' || part.{part}" for part in parts)
    return _INTO.format(
        publication=_literal(publication),
        work=_WORK,
        operation=f"{_begin(table, operation)}{members} || '}}'",
        parts=", ".join(f"{value} AS {part}" for part, value in parts.items()),
        last=list(parts)[-1],
        column=", subscriber" if subscriber else "",
        subscriber=f", {subscriber}" if subscriber else "",
        origin=origin,
        condition=condition,
    )


def _object(pairs: str, value: str = "column2") -> str:
    """Return names and values as one JSON object; NULL if there are none."""
    return f"(SELECT '{{' || group_concat(column1 || ':' || {value}, ',') || '}}' FROM ({pairs}))"  # noqa: S608


def _pairs(columns: Iterable[str], *rows: str) -> str:
    """Return a relation of names and values, as JSON: functions take too few arguments for many columns."""
    tuples = (
        f"({_literal(json.dumps(column, ensure_ascii=False))}, "
        + ", ".join(_value(f"{row}.{quoted_name(column)}") for row in rows)
        + ")"
        for column in columns
    )
    return f"VALUES {', '.join(tuples)}"


def _value(value: str) -> str:
    # json_quote() would cut digits of a REAL off; quote() does not.
    return (
        f"CASE typeof({value}) WHEN 'blob' THEN '{{\"bytes\":\"' || hex({value}) || '\"}}' "
        f"WHEN 'real' THEN iif(abs({value}) > 1.7976931348623157e308, "
        f"'{{\"real\":\"' || iif({value} > 0, '', '-') || 'inf\"}}', quote({value})) "
        f"ELSE json_quote({value}) END"
    )


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
