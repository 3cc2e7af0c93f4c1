"""The triggers of SQLite: each writes a change as JSON, with every value as the type that SQLite stores."""

import json
from collections.abc import Iterable, Mapping
from functools import partial

from history.sql.statements.dialects import quoted_name
from triggers.providers.sqlremote.capture.declared import Captured

# With the number that groups changes, and the link that they came from; a colon stands for "do not capture".
# An UPDATE that changes no value has no new values.
_INTO = """INSERT INTO doubtless_link_changes (publication, work, origin, operation{column})
    SELECT {publication}, COALESCE((SELECT number FROM doubtless_link_work WHERE id = 1), 0),
        {origin}, {operation}{subscriber}
    FROM (SELECT {parts}) AS part
    WHERE COALESCE((SELECT origin FROM doubtless_link_work WHERE id = 1), '') <> ':'
        AND part.{last} IS NOT NULL{condition}"""

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
    return {
        f"{name}_{event.lower()}": f"CREATE TRIGGER {quoted_name(f'{name}_{event.lower()}')} "
        f"AFTER {event} ON {quoted_name(table.name)}\nBEGIN\n"
        + "".join(f"    {insert};\n" for insert in _for_subscribers(publication, table, event, parts))
        + "END"
        for event in parts
    }


def is_for_its_subscribers(table: Captured, body: str) -> bool:
    """Whether a trigger gives rows to those who subscribe to them by the table's column."""
    if table.by is None:
        return "operation, subscriber)" not in body
    return any(_subscriber(row, table.by) in body for row in ("OLD", "NEW"))


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
    if event == "UPDATE":
        # The other end may lack the row with the old key.
        changes = " OR ".join(f"OLD.{name} IS NOT NEW.{name}" for name in map(quoted_name, table.key))
        yield into("INSERT", parts["INSERT"], to, f" AND ({changes})")
    if event == "UPDATE" and table.by is not None:
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
    begin = json.dumps({"table": table.name, "operation": operation}, ensure_ascii=False)[:-1]
    members = "".join(f" || ',\"{part}\":' || part.{part}" for part in parts)
    return _INTO.format(
        publication=_literal(publication),
        operation=f"{_literal(begin)}{members} || '}}'",
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
