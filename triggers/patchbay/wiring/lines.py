"""Find a key's line in a TOML file: the parser of the standard library does not report it.

It reads headers and keys as they are usually written; for other spellings the result is less precise, the
header above.
"""

import re
from collections.abc import Sequence

#: A step into a file: a key, or a place in an array of tables.
Step = str | int

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")

_KEY = re.compile(r"""\s*(?:"([^"]+)"|'([^']+)'|([A-Za-z0-9_-]+))\s*=""")


def line_of(text: str, path: Sequence[Step]) -> int | None:
    """Return the number, from 1, of the line that matches ``path`` best; None if no line does."""
    best, found = 0, None
    table: list[Step] = []
    counts: dict[tuple[Step, ...], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header:
            table = _entered(counts, header[2], repeated=header[1] == "[[")
            reached = table
        elif key := _KEY.match(line):
            reached = [*table, next(filter(None, key.groups()))]
        else:
            continue
        common = _common(reached, path)
        if common == len(reached) and common > best:
            best, found = common, number
    return found


def _entered(counts: dict[tuple[Step, ...], int], name: str, *, repeated: bool) -> list[Step]:
    """Return the path of the table that a header begins; repeated tables around it are the last ones."""
    path: list[Step] = []
    parts = [part.strip().strip("\"'") for part in name.split(".")]
    for index, part in enumerate(parts):
        path.append(part)
        key = tuple(path)
        if repeated and index == len(parts) - 1:
            counts[key] = counts.get(key, -1) + 1
            for other in [path for path in counts if len(path) > len(key) and path[: len(key)] == key]:
                del counts[other]
        if key in counts:
            path.append(counts[key])
    return path


def _common(one: Sequence[Step], other: Sequence[Step]) -> int:
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length
