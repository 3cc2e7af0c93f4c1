"""The triggers of SQLite: each writes a change as JSON, with every value as the type that SQLite stores."""

import json
from collections.abc import Iterable, Mapping

from history.sql.statements.dialects import quoted_name
from triggers.providers.sqlremote.capture.declared import Captured

# With the number that groups changes, and the link that they came from; a colon stands for "do not capture".
# An UPDATE that changes no value has no new values.
_INTO = """INSERT INTO doubtless_link_changes (publication, work, origin, operation)
    SELECT {publication}, COALESCE((SELECT number FROM doubtless_link_work WHERE id = 1), 0),
        (SELECT origin FROM doubtless_link_work WHERE id = 1), {operation}
    FROM (SELECT {parts}) AS part
    WHERE COALESCE((SELECT origin FROM doubtless_link_work WHERE id = 1), '') <> ':'
        AND part.{last} IS NOT NULL"""


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
        f"    {_into(publication, table, event, values)};\nEND"
        for event, values in parts.items()
    }


def _into(publication: str, table: Captured, operation: str, parts: Mapping[str, str]) -> str:
    begin = json.dumps({"table": table.name, "operation": operation}, ensure_ascii=False)[:-1]
    words = "".join(f" || ',\"{part}\":' || part.{part}" for part in parts)
    return _INTO.format(
        publication=_literal(publication),
        operation=f"{_literal(begin)}{words} || '}}'",
        parts=", ".join(f"{value} AS {part}" for part, value in parts.items()),
        last=list(parts)[-1],
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
