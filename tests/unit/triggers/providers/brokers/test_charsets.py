"""The charsets that we accept for texts from brokers, and the ones that we refuse."""

import pytest

from triggers.providers.brokers.codec import decode_body
from triggers.providers.brokers.delivery import UndecodableError


@pytest.mark.parametrize(
    ("charset", "codec"),
    [
        *(("utf-8", "utf-8"), ("UTF8", "utf-8"), ('"utf-8"', "utf-8"), ("us-ascii", "ascii"), ("", "utf-8")),
        *(("ISO-8859-1", "latin-1"), ("iso-8859-15", "iso8859-15"), ("latin1", "latin-1")),
        *(("utf-16", "utf-16"), ("UTF-16LE", "utf-16-le"), ("utf-32be", "utf-32-be")),
        *(("windows-1252", "cp1252"), ("Windows-1251", "cp1251"), ("ibm850", "cp850"), ("koi8-r", "koi8-r")),
        *(("Shift_JIS", "shift-jis"), ("GB18030", "gb18030"), ("Big5", "big5"), ("euc-kr", "euc-kr")),
    ],
)
def test_a_text_is_read_in_the_charset_of_its_type(charset: str, codec: str) -> None:
    assert decode_body(f"Text/Plain; a=b; Charset={charset}", None, "amount".encode(codec)) == "amount"


@pytest.mark.parametrize(
    "charset",
    [
        *("undefined", "punycode", "idna", "rot13", "rot_13", "base64", "hex", "zip", "bz2", "uu", "utf-7"),
        *(
            *("unicode_escape", "raw_unicode_escape", "mbcs", "utf-99", "utf\x00-8", "utf-8\x00"),
            *("utf 8", "../utf_8"),
        ),
        *("x" * 100_000, "\N{SNOWMAN}", "utf\u00ad-8", "utf_8.sig", "__main__"),
    ],
)
def test_what_is_no_charset_of_texts_is_unreadable_and_nothing_is_decoded(charset: str) -> None:
    # 200 kB of punycode would take 10 s.
    body = b"-" * 100_000 + b"a" * 100_000

    with pytest.raises(UndecodableError, match=r"content_type: the charset .* is not supported"):
        decode_body(f"text/plain; charset={charset}", None, body)


def test_a_text_that_is_not_in_its_charset_is_unreadable() -> None:
    with pytest.raises(UndecodableError, match="is not text in us-ascii"):
        decode_body("text/plain; charset=us-ascii", None, b"\xff")
