"""The XML in which Integration Server stores values: ``<Values>`` with records, arrays and values by name."""

import re
from collections.abc import Sequence
from typing import Any, Final, cast

from triggers.patchbay.wiring.xml_elements import Element, parse

Record = dict[str, Any]

_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")


def read_values(text: str, file: str) -> Record:
    """Return the values of a file such as ``node.ndf``, with records as dictionaries and arrays as lists.

    Raises:
        ConfigurationError: it is not well-formed XML, or declares entities; naming the file.
    """
    return _record(parse(text, file))


def _record(element: Element) -> Record:
    named = ((child.attributes.get("name"), child) for child in element.children)
    return {name: _value(child) for name, child in named if name is not None}


def _value(element: Element) -> Any:
    match element.name:
        case "record" | "Values":
            return _record(element)
        case "array" | "list":
            return [_value(child) for child in element.children]
        case "null":
            return None
        case _:  # value, number, Boolean, Date: text says it
            return element.text.strip()


def number_in(values: Record, key: str, default: int = 0) -> int:
    """Return a value as a whole number of up to 18 digits; the default if it is anything else."""
    text = str(values.get(key))
    return int(text) if _WHOLE.fullmatch(text) else default


def walk(value: Any) -> list[Record]:
    """Return all records in a value, itself first."""
    match value:
        case list():
            return [record for part in cast("Sequence[Any]", value) for record in walk(part)]
        case dict():
            record = cast("Record", value)
            return [record, *(inner for part in record.values() for inner in walk(part))]
        case _:
            return []
