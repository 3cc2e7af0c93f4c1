"""Write a wiring as TOML: what ``doubtless patchbay convert`` prints."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

#: The tables within a component that are written as tables of their own; all others stand in one line.
_TABLES = frozenset({"source", "sink", "filter", "message", "input", "output", "redelivery_port"})


def to_toml(raw: Mapping[str, Any]) -> str:
    """Return a file's text; reading it again gives the same."""
    return "\n".join(_table(raw, "")).strip() + "\n"


def _table(table: Mapping[str, Any], path: str) -> Iterator[str]:
    later: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, Mapping) or (isinstance(value, list) and key in _TABLES):
            later.append((key, cast("Any", value)))
        else:
            yield from _line(key, value)
    for key, value in later:
        inner = f"{path}.{_key(key)}" if path else _key(key)
        if isinstance(value, Mapping):
            found = cast("Mapping[str, Any]", value)
            if key != "providers":
                yield f"\n[{inner}]"
            yield from _table(found, inner)
            continue
        for one in cast("list[Mapping[str, Any]]", value):
            yield f"\n[[{inner}]]"
            yield from _table(one, inner)


def _line(key: str, value: Any) -> Iterator[str]:
    found = _listed(value)
    if len(found) > 1:
        yield f"{_key(key)} = ["
        yield from (f"  {_value(one)}," for one in found)
        yield "]"
    else:
        yield f"{_key(key)} = {_value(value)}"


def _listed(value: Any) -> Sequence[Any]:
    """Return what is in a list; nothing of anything else."""
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()


def _key(key: str) -> str:
    plain = key.replace("-", "").replace("_", "")
    return key if plain.isascii() and plain.isalnum() else _text(key)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case Mapping():
            table = cast("Mapping[str, Any]", value)
            return "{ " + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in table.items()) + " }"
        case list():
            return "[" + ", ".join(map(_value, _listed(value))) + "]"
        case _:
            return str(value)


def _text(value: str) -> str:
    # A JSON string is a TOML string, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
