"""The trigger function of PostgreSQL: it writes a change as JSON, with values as PostgreSQL's own text."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from history.sql.statements.dialects import quoted_name
from triggers.providers.sqlremote.capture.declared import Captured

#: JSON has equal values for columns of these types.
_SAME: Final = ("boolean", "smallint", "integer", "bigint")

#: How values become text: PostgreSQL reads it back without a change, whatever the settings of a session are.
_SETTINGS: Final = (
    "search_path = pg_catalog",
    "datestyle = 'ISO, YMD'",
    "intervalstyle = 'postgres'",
    "timezone = 'UTC'",
    "extra_float_digits = 1",
    "lc_monetary = 'C'",
)

#: Its author may write into the table of changes, so everybody who may change the application's table can.
CREATE_FUNCTION: Final = """CREATE OR REPLACE FUNCTION {name}() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER {settings} AS $doubtless${body}$doubtless$"""

_BODY: Final = """
DECLARE
    origin CONSTANT text := NULLIF(current_setting('doubtless.origin', TRUE), '');
    names CONSTANT text[] := {names};
    keys CONSTANT text[] := {keys};
    change jsonb := {change} || jsonb_build_object('operation', TG_OP);
    was jsonb[];
    becomes jsonb[];
{variables}BEGIN
    IF origin = ':' THEN
        RETURN NULL;
    END IF;
    IF TG_OP IN ('UPDATE', 'DELETE') THEN
        was := ARRAY[{old}]::jsonb[];
    END IF;
    IF TG_OP IN ('INSERT', 'UPDATE') THEN
        becomes := ARRAY[{new}]::jsonb[];
    END IF;
    IF TG_OP = 'UPDATE' AND was = becomes THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'TRUNCATE' THEN
        change := change || jsonb_build_object('key', (
            SELECT jsonb_object_agg(name, value)
            FROM unnest(names, COALESCE(was, becomes)) AS r (name, value) WHERE name = ANY (keys)
        ));
    END IF;
    IF TG_OP IN ('UPDATE', 'DELETE') THEN
        change := change || jsonb_build_object('old', (
            SELECT jsonb_object_agg(name, o) FROM unnest(names, was, becomes) AS r (name, o, n)
            WHERE TG_OP = 'DELETE' OR o IS DISTINCT FROM n
        ));
    END IF;
    IF TG_OP IN ('INSERT', 'UPDATE') THEN
        change := change || jsonb_build_object('new', (
            SELECT jsonb_object_agg(name, n) FROM unnest(names, was, becomes) AS r (name, o, n)
            WHERE TG_OP = 'INSERT' OR o IS DISTINCT FROM n
        ));
    END IF;
{insert}    RETURN NULL;
END
"""

# The whole row as it becomes, as an INSERT.
_WHOLE: Final = """(change || jsonb_build_object('operation', 'INSERT',
            'key', (
                SELECT jsonb_object_agg(name, n) FROM unnest(names, becomes) AS r (name, n)
                WHERE name = ANY (keys)
            ),
            'new', (SELECT jsonb_object_agg(name, n) FROM unnest(names, becomes) AS r (name, n))
        ) - 'old')::text"""

# After an UPDATE of the key, the whole row follows: the other end may lack the row with the old key.
_KEY_CHANGES: Final = """TG_OP = 'UPDATE' AND EXISTS (
        SELECT FROM unnest(names, was, becomes) AS r (name, o, n)
        WHERE name = ANY (keys) AND o IS DISTINCT FROM n
    )"""

_INSERT: Final = """    INSERT INTO {into} (publication, work, origin, operation)
    VALUES ({publication}, txid_current(), origin, change::text);
    IF {key_changes} THEN
        INSERT INTO {into} (publication, work, origin, operation)
        VALUES ({publication}, txid_current(), origin, {whole});
    END IF;
"""

# A row that moves leaves one subscriber and is new for another one, even if one of them has moved it.
_INSERT_FOR: Final = """    IF TG_OP IN ('UPDATE', 'DELETE') THEN
        leaves := COALESCE(OLD.{by}::text, '');
    END IF;
    IF TG_OP IN ('INSERT', 'UPDATE') THEN
        joins := COALESCE(NEW.{by}::text, '');
    END IF;
    stays := CASE WHEN leaves <> joins THEN '*' ELSE '=' || COALESCE(joins, leaves) END;
    INSERT INTO {into} (publication, work, origin, operation, subscriber)
    VALUES ({publication}, txid_current(), origin, change::text, stays);
    IF {key_changes} THEN
        INSERT INTO {into} (publication, work, origin, operation, subscriber)
        VALUES ({publication}, txid_current(), origin, {whole}, stays);
    END IF;
    IF leaves <> joins THEN
        INSERT INTO {into} (publication, work, operation, subscriber)
        VALUES ({publication}, txid_current(), (change || jsonb_build_object('operation', 'DELETE',
            'old', (SELECT jsonb_object_agg(name, o) FROM unnest(names, was) AS r (name, o))
        ) - 'new')::text, '>' || leaves);
        INSERT INTO {into} (publication, work, operation, subscriber)
        VALUES ({publication}, txid_current(), {whole}, '>' || joins);
    END IF;
"""


def body_of(schema: str, publication: str, table: Captured) -> str:
    """Return the body of a table's trigger function. ``schema`` has the tables of the links."""
    into = f"{quoted_name(schema)}.doubtless_link_changes"
    subscribed = table.by is not None
    insert = (_INSERT_FOR if subscribed else _INSERT).format(
        into=into,
        publication=_literal(publication),
        by=quoted_name(table.by or ""),
        whole=_WHOLE,
        key_changes=_KEY_CHANGES,
    )
    return _BODY.format(
        names=_array(table.columns),
        keys=_array(table.key),
        change=_literal(json.dumps({"table": table.name})) + "::jsonb",
        old=_values("OLD", table),
        new=_values("NEW", table),
        insert=insert,
        variables="    leaves text;\n    joins text;\n    stays text;\n" if subscribed else "",
    )


def is_for_its_subscribers(table: Captured, body: str) -> bool:
    """Whether a trigger gives rows to those who subscribe to them by the table's column."""
    if table.by is None:
        return "operation, subscriber)" not in body
    return f"COALESCE(OLD.{quoted_name(table.by)}::text, '')" in body


def statements_of(schema: str, name: str, table: Captured, body: str) -> Sequence[str]:
    """Return the statements that create a table's triggers, and the function that they run."""
    function, on = f"{quoted_name(schema)}.{quoted_name(name)}", quoted_name(table.name)
    settings = " ".join(f"SET {setting}" for setting in _SETTINGS)
    events = {name: "INSERT OR UPDATE OR DELETE", truncating(name): "TRUNCATE"}
    each = {name: "ROW", truncating(name): "STATEMENT"}
    triggers = [
        f"CREATE TRIGGER {quoted_name(trigger)} AFTER {event} ON {on} FOR EACH {each[trigger]} "
        f"EXECUTE FUNCTION {function}()"
        for trigger, event in events.items()
    ]
    return [CREATE_FUNCTION.format(name=function, settings=settings, body=body), *triggers]


def truncating(name: str) -> str:
    """Return the name of the trigger for TRUNCATE."""
    return f"{name}_truncate"


def wanted(name: str, body: str) -> Mapping[str, str]:
    """Return the bodies of a table's triggers, by the names of the triggers."""
    return {name: body, truncating(name): body}


def _values(row: str, table: Captured) -> str:
    return ", ".join(_value(f"{row}.{quoted_name(name)}", table.types[name]) for name in table.columns)


def _value(value: str, type_: str) -> str:
    if type_ in _SAME:
        return f"to_jsonb({value})"
    if type_ == "bytea":
        return f"CASE WHEN {value} IS NOT NULL THEN jsonb_build_object('bytes', encode({value}, 'hex')) END"
    return f"to_jsonb({value}::text)"


def _array(names: Sequence[str]) -> str:
    return f"ARRAY[{', '.join(map(_literal, names))}]"


def _literal(value: str) -> str:
    # Also safe in a database where standard_conforming_strings is off.
    quoted = value.replace("'", "''")
    return f"E'{quoted.replace(chr(92), chr(92) * 2)}'" if "\\" in value else f"'{quoted}'"
