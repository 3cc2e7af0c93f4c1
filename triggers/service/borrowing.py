"""Whether a validated value may hold parts of the JSON value that it was made of.

pydantic makes new objects of most values. In other cases (``Any``, a plain ``dict``, a user's validator that
sees the input), a service that changes its argument would change the message, so it receives a copy. Schemas
that are unknown here are assumed to hold parts of their input.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from pydantic import TypeAdapter

#: Schemas of values that nobody can change, or that never contain a part of a JSON value unchanged.
_MADE_ANEW = frozenset(
    {
        *("none", "bool", "int", "float", "decimal", "complex", "str", "bytes"),
        *("date", "time", "datetime", "timedelta", "uuid", "url", "multi-host-url"),
        *("literal", "enum", "definition-ref"),
    }
)

#: Schemas that make a value of other values: the keys of the inner schemas.
_INNER: Mapping[str, tuple[str, ...]] = {
    "list": ("items_schema",),
    "set": ("items_schema",),
    "frozenset": ("items_schema",),
    "tuple": ("items_schema",),
    "dict": ("keys_schema", "values_schema"),
    "nullable": ("schema",),
    "default": ("schema",),
    "model": ("schema",),
    "model-fields": ("fields",),
    "model-field": ("schema",),
    "dataclass": ("schema",),
    "dataclass-args": ("fields",),
    "dataclass-field": ("schema",),
    "typed-dict": ("fields",),
    "typed-dict-field": ("schema",),
    "union": ("choices",),
    "tagged-union": ("choices",),
    "function-after": ("schema",),
    "lax-or-strict": ("lax_schema", "strict_schema"),
    "json-or-python": ("json_schema", "python_schema"),
    "definitions": ("schema", "definitions"),
}

#: Schemas that may pass on fields that they do not know.
_OPEN = frozenset({"model", "model-fields", "dataclass", "dataclass-args", "typed-dict"})


def borrows(adapter: TypeAdapter[Any]) -> bool:
    """Whether a validated value may share a dict or a list with its input."""
    return not _made_anew(adapter.core_schema)


def takes_decimals(adapter: TypeAdapter[Any]) -> bool:
    """Whether a validated value may hold a Decimal, which keeps each digit of a number."""
    return "'type': 'decimal'" in repr(adapter.core_schema)


def _made_anew(schema: Any) -> bool:
    json_type = schema.get("type")
    if json_type in _MADE_ANEW:
        return True
    if json_type not in _INNER or schema.get("custom_init") or (json_type in _OPEN and _keeps_extras(schema)):
        return False
    # Without a schema for its items, a list accepts any.
    return all(name in schema and all(map(_made_anew, _schemas(schema[name]))) for name in _INNER[json_type])


def _keeps_extras(schema: Mapping[str, Any]) -> bool:
    config: Mapping[str, object] = schema.get("config") or {}
    return "allow" in {schema.get("extra_behavior"), config.get("extra_fields_behavior")}


def _schemas(within: Any) -> Iterator[Any]:
    """Yield the schemas in a schema, a list or a mapping of them; a choice of a union may have a label."""
    if isinstance(within, Mapping):
        named = cast("Mapping[str, Any]", within)
        if isinstance(named.get("type"), str):
            yield named
        else:
            yield from named.values()
        return
    for schema in within:
        yield schema[0] if isinstance(schema, tuple) else schema
