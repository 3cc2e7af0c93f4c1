"""The content of the field ``meta`` of a history's hash, examined after a script has failed on it.

It has the last fence, the first fence of these data, and the slices of time. Without the slices no entry is
found, and nobody may call their entries absent. So foreign content is not repaired silently: the error says
what was found, and how to repair it. See ``lua/shared/head.lua``.
"""

import re
import struct

from history.errors import HistoryUnavailableError

#: How a script fails on such a field: in its own words, or in Lua's.
FAILED = re.compile(r"\b(?:SPOILT|LOST)\b|\buser_script\b|data string too short|unfinished string")

#: From here on Lua cannot distinguish numbers, and fences would not grow.
_MOST = 2**53

_UNITS = 16384
_HEADER = struct.Struct(">QQ")

#: Bytes of a slice after its name: four times 6, twice 4, as in ``SLICE`` of head.lua.
_NUMBERS = (6, 6, 6, 4, 4, 6, 6)

#: How many bytes of the content are shown.
_SHOWN = 24


class HistorySpoiltError(HistoryUnavailableError):
    """The field ``meta`` of a history has foreign content; without it nothing can be looked up."""

    def __init__(self, doing: str, key: str, problem: str) -> None:
        super().__init__(doing)
        self.key = key
        self.problem = problem
        remedy = "put the field back from a backup, or accept the loss"
        page = "docs/how-to/run-on-redis.md, Spoilt field"
        self.args = (f"{self}: the field meta of the key {key} is spoilt: {problem}; {remedy} ({page})",)


def problem_of(meta: bytes) -> str | None:
    """Return the problem of a field ``meta``, and its content; None if there is none."""
    problem = _problem_of(meta)
    if problem is None:
        return None
    shown = f"{meta[:_SHOWN]!r}" + (" ..." if len(meta) > _SHOWN else "")
    return f"{problem} (there are {len(meta)} bytes, {shown})"


def _problem_of(meta: bytes) -> str | None:
    if len(meta) < _HEADER.size:
        return "it is too short for the last fence and the first"
    fence, epoch = _HEADER.unpack_from(meta)
    if not 0 < epoch <= fence < _MOST:
        return "it does not begin with the last fence and the first"
    at, number = _HEADER.size, 0
    while at < len(meta):
        number += 1
        name, end, rest = meta[at:].partition(b"\0")
        at += len(name) + len(end) + sum(_NUMBERS)
        if not end or at > len(meta) or not _is_slice(name, rest):
            return f"its slice {number} is none"
    return None


def _is_slice(name: bytes, rest: bytes) -> bool:
    numbers: list[int] = []
    for size in _NUMBERS:
        numbers.append(int.from_bytes(rest[:size], "big"))
        rest = rest[size:]
    begins, length, step, buckets, power, _, _ = numbers
    if not length or name != b"%d:%d" % (length, begins // length) or begins % length:
        return False
    return step == -(-length // (_UNITS - 1)) and power & (power - 1) == 0 < power <= buckets < 2 * power
