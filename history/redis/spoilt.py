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
#: The layout that this version reads: ``LAYOUT`` of head.lua. Data of the first versions have none, a zero.
LAYOUT = 1

#: Layout and last fence in one number, and the first fence.
_HEADER = struct.Struct(">QQ")

#: The layout is the first byte.
_BITS_OF_FENCE = 56

#: Bytes of the numbers of a slice, which come after its name: as in ``SLICE`` of head.lua.
_NUMBERS = (6, 6, 6, 4, 4, 4, 6, 6)

#: How many bytes of the content are shown.
_SHOWN = 24


class _DamagedHistoryError(HistoryUnavailableError):
    """Redis has a key of a history that cannot be read; ``key`` is its name."""

    def __init__(self, doing: str, key: str, problem: str, remedy: str, section: str) -> None:
        super().__init__(doing)
        self.key = key
        self.args = (f"{self}: {problem}; {remedy} (docs/how-to/run-on-redis.md, {section})",)


class HistorySpoiltError(_DamagedHistoryError):
    """The field ``meta`` of a history has foreign content; without it nothing can be looked up."""

    def __init__(self, doing: str, key: str, problem: str) -> None:
        self.problem = problem
        remedy = "put the field back from a backup, or accept the loss"
        super().__init__(
            doing, key, f"the field meta of the key {key} is spoilt: {problem}", remedy, "Spoilt field"
        )


class HistoryLayoutError(_DamagedHistoryError):
    """Another version of doubtless wrote the history, in a layout that this version cannot read."""

    def __init__(self, doing: str, key: str, layout: int) -> None:
        self.layout = layout
        remedy = "run the version that wrote it, or accept the loss"
        problem = f"the key {key} has the layout {layout}, and this version reads only {LAYOUT}"
        super().__init__(doing, key, problem, remedy, "Another layout")


class HistoryBrokenError(_DamagedHistoryError):
    """A bucket of completed entries is not as the history wrote it: none of its entries counts as absent."""

    def __init__(self, doing: str, key: str) -> None:
        problem = f"the key {key} is not as the history wrote it"
        super().__init__(doing, key, problem, "restore it, or accept the loss", "Lost keys")


def layout_of(meta: bytes) -> int | None:
    """Return the layout in a field ``meta``, if it is another layout and the field is valid otherwise."""
    if len(meta) < _HEADER.size:
        return None
    last, epoch = _HEADER.unpack_from(meta)
    layout, fence = last >> _BITS_OF_FENCE, last % (1 << _BITS_OF_FENCE)
    return layout if layout != LAYOUT and 0 < epoch <= fence < _MOST else None


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
    last, epoch = _HEADER.unpack_from(meta)
    fence = last - (LAYOUT << _BITS_OF_FENCE)
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
    begins, length, step, buckets, power, packed, _, _ = numbers
    if packed > buckets or not length or name != b"%d:%d" % (length, begins // length) or begins % length:
        return False
    return step == -(-length // (_UNITS - 1)) and power & (power - 1) == 0 < power <= buckets < 2 * power
