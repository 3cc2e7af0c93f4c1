"""The charsets in which texts are read: the ones that people send, each in one pass over the bytes.

A sender may name any charset, and some that Python knows are not really charsets: ``punycode`` takes
quadratic time, ``undefined`` always fails, ``rot13`` and ``base64`` give no text. So there is a list.
"""

import re
from collections.abc import Iterator, Mapping
from encodings import normalize_encoding
from encodings.aliases import aliases

_UNICODE = (
    "ascii",
    "utf_8",
    "utf_8_sig",
    *(f"utf_{bits}{order}" for bits in (16, 32) for order in ("", "_be", "_le")),
)
_EUROPE = (
    "latin_1",
    *(f"iso8859_{part}" for part in (*range(1, 12), *range(13, 17))),
    "koi8_r",
    "koi8_u",
    "mac_roman",
)
_PCS = tuple(f"cp{page}" for page in (437, 850, 852, 855, 858, 866, 874, *range(1250, 1259)))
_ASIA = (
    *("shift_jis", "cp932", "euc_jp", "iso2022_jp"),
    *("gb2312", "gbk", "gb18030", "big5", "cp950"),
    *("euc_kr", "cp949", "tis_620"),
)
_MAINFRAMES = ("cp037", "cp273", "cp500", "cp1140")

_READ = frozenset((*_UNICODE, *_EUROPE, *_PCS, *_ASIA, *_MAINFRAMES))

#: The characters of a charset's name; no name is longer.
_NAME = re.compile(r"[A-Za-z0-9_.:+()-]{1,40}")


def _names() -> Iterator[tuple[str, str]]:
    for codec in _READ:
        yield codec, codec
    for alias, codec in aliases.items():
        if codec in _READ:
            yield alias, codec


_CODECS: Mapping[str, str] = dict(_names())


def codec_of(charset: str) -> str | None:
    """Return Python's name of a charset, or None if we do not read it."""
    if _NAME.fullmatch(charset) is None:
        return None
    return _CODECS.get(normalize_encoding(charset.lower()))
