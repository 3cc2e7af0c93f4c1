"""The difference of two bodies, line by line: JSON with sorted names and all digits, or text."""

import json
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import Any, NamedTuple, cast

from history.beside.parking import Parking
from history.bridge import drive
from history.json_text import NotJsonError, read_json
from history.message import Message
from history.store.parking import Parked, ParkedLabel

#: The largest bodies that are compared: in characters, and in lines. The time grows with the square.
LARGEST, MOST_LINES = 65_536, 1_000

#: With how many other copies a message is compared.
MOST_COPIES = 3


class Compared(NamedTuple):
    """Another parked copy of a message.

    ``lines`` begin with ``-`` if only the copy that was parked first has them, and with ``+`` if only the
    later one has them. They are empty if the bodies are the same, and None if a body is too large.
    """

    label: ParkedLabel
    lines: Sequence[str] | None


class Comparison(NamedTuple):
    """A message beside other parked copies of its uuid; ``more`` copies are not compared."""

    copies: Sequence[Compared] = ()
    more: int = 0


class _Number(str):
    """A number as it arrived, with all digits."""

    __slots__ = ()


class _Names(list[tuple[str, Any]]):
    """A JSON object: its names, sorted, with their values."""


def compared(lot: Parking, parked: Parked) -> Comparison:
    """Compare a message with the other parked copies of its uuid that can be read."""
    if parked.uuid is None or parked.message is None:
        return Comparison()
    labels = drive(lot.of_uuid(parked.uuid, trigger=parked.trigger_name))
    others = [label for label in labels if label.id != parked.id]
    copies: list[Compared] = []
    for label in others[:MOST_COPIES]:
        other = drive(lot.get(label.id, trigger=label.trigger_name))
        if other is not None and other.message is not None:
            both = [parked.message, other.message]
            if (other.parked_at, other.id) < (parked.parked_at, parked.id):
                both.reverse()
            copies.append(Compared(label, difference(*both)))
    return Comparison(copies, max(0, len(others) - MOST_COPIES))


def difference(first: Message, later: Message) -> Sequence[str] | None:
    """Return the lines of a unified diff of two bodies: none if they are equal, None if one is too large."""
    texts = [_text(first), _text(later)]
    if max(map(len, texts)) > LARGEST:
        return None
    before, after = ([*_lines_of(text)] for text in texts)
    if max(len(before), len(after)) > MOST_LINES:
        return None
    return [*unified_diff(before, after, lineterm="")][2:]


def _text(message: Message) -> str:
    body, received = message.body, message.received
    if isinstance(body, str):
        return body
    raw = body if isinstance(body, bytes) else received
    return json.dumps(body) if raw is None else raw.decode("utf-8", "backslashreplace")


def _lines_of(text: str) -> Iterator[str]:
    text = text.removeprefix("\ufeff")
    try:
        read_json(text)  # it also refuses JSON that is nested too deeply
    except NotJsonError:
        yield from text.split("\n")
    else:
        yield from _written(
            json.loads(text, parse_float=_Number, parse_int=_Number, object_pairs_hook=_sorted)
        )


def _sorted(pairs: list[tuple[str, Any]]) -> _Names:
    return _Names(sorted(pairs, key=lambda pair: pair[0]))


def _written(value: object, name: str = "", margin: str = "") -> Iterator[str]:
    """Yield the lines of a JSON value. Commas are left out: with them, a new line would change two lines."""
    before, inner = f"{margin}{name}", f"{margin}  "
    match value:
        case _Number():
            yield f"{before}{value}"
        case _Names():
            yield f"{before}{{"
            for key, item in value:
                yield from _written(item, f"{json.dumps(key, ensure_ascii=False)}: ", inner)
            yield f"{margin}}}"
        case list():
            yield f"{before}["
            for item in cast("list[object]", value):
                yield from _written(item, "", inner)
            yield f"{margin}]"
        case _:
            yield f"{before}{json.dumps(value, ensure_ascii=False)}"
