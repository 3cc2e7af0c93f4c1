"""The header of a message is written, read and interpreted."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from history.store.watermark import MAX_OFFSET, Offset
from triggers.providers.sqlremote.protocol.header import MAX_COUNT, Header, HeaderError, PacketKind

offsets = some.integers(0, MAX_OFFSET).map(Offset)
counts = some.integers(0, MAX_COUNT)


@some.composite
def headers(draw: some.DrawFn) -> Header:
    previous, last = sorted((draw(offsets), draw(offsets)))
    return Header(draw(counts), previous, last, draw(counts))


@given(header=headers())
def test_what_is_written_is_read_back(header: Header) -> None:
    assert Header.parse(str(header)) == header


SEED_HEADERS = [
    *("(1-0000942712-0001119170-0)", "(0-0000923357-0000942712-0)", "(0-0000942712-0001119170-0)"),
    *("(0-0000942712-0000942712-0)", "(0-0000942712-0000942712-1)", "(0-0000942712-0000942712-2)"),
    *("(0-0000942712-0001119170-3)", "(0-0000923200-0000923357-0)"),
]


def test_seed_the_fields_stand_in_their_order() -> None:
    assert Header.parse("(1-0000942712-0001119170-3)") == Header(1, Offset(942712), Offset(1119170), 3)


KINDS = {
    "(0-0000923200-0000923357-0)": PacketKind.SINGLE,
    "(0-0000923357-0000942712-0)": PacketKind.SINGLE,
    "(0-0000942712-0000942712-0)": PacketKind.FIRST,
    "(0-0000942712-0000942712-1)": PacketKind.MIDDLE,
    "(0-0000942712-0000942712-2)": PacketKind.MIDDLE,
    "(0-0000942712-0001119170-3)": PacketKind.LAST,
}


@pytest.mark.parametrize("text", KINDS)
def test_seed_a_header_tells_what_its_message_holds(text: str) -> None:
    assert Header.parse(text).kind is KINDS[text]


def test_offsets_of_other_releases_may_be_padded_to_twenty_digits() -> None:
    assert Header.parse("(0-00000000000000923200-00000000000000923357-0)") == Header(
        0, Offset(923200), Offset(923357), 0
    )


MALFORMED = {
    "nothing": "",
    "no brackets": "0-0000923200-0000923357-0",
    "three fields": "(0-0000923200-0)",
    "five fields": "(0-0000923200-0000923357-0-0)",
    "nine digits": "(0-000923200-0000923357-0)",
    "21 digits": "(0-000000000000000923200-0000923357-0)",
    "an offset beyond the columns": f"(0-0000000000-{MAX_OFFSET + 1}-0)",
    "a count beyond the columns": f"({MAX_COUNT + 1}-0000923200-0000923357-0)",
    "a count with zeros before": "(01-0000923200-0000923357-0)",
    "a sequence with zeros before": "(0-0000923200-0000923357-00)",
    "a sign": "(-1-0000923200-0000923357-0)",
    "a plus": "(+1-0000923200-0000923357-0)",
    "other digits": "(0-٠٠٠٠٩٢٣٢٠٠-0000923357-0)",
    "a space before": " (0-0000923200-0000923357-0)",
    "a line's end behind": "(0-0000923200-0000923357-0)\n",
    "letters": "(a-0000923200-0000923357-0)",
    "offsets that run backwards": "(0-0000923357-0000923200-0)",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_header_is_refused(name: str) -> None:
    with pytest.raises(HeaderError):
        Header.parse(MALFORMED[name])


@given(text=some.text(alphabet="()-0123456789", max_size=60))
def test_what_is_read_is_a_header_written_with_more_zeros_at_most(text: str) -> None:
    try:
        header = Header.parse(text)
    except HeaderError:
        return

    assert Header.parse(str(header)) == header
    assert len(str(header)) <= len(text)


@pytest.mark.parametrize(
    "fields",
    [(-1, 1, 2, 0), (0, -1, 2, 0), (0, 2, 1, 0), (0, 1, 2, -1), (0, 1, MAX_OFFSET + 1, 0)],
    ids=["resend count", "previous offset", "backwards", "sequence", "last offset"],
)
def test_a_header_that_cannot_be_written_cannot_be_made(fields: tuple[int, int, int, int]) -> None:
    resend_count, previous, last, sequence = fields

    with pytest.raises(HeaderError):
        Header(resend_count, Offset(previous), Offset(last), sequence)


def test_headers_sort_in_the_order_of_sending() -> None:
    sent = [Header.parse(text) for text in SEED_HEADERS[3:7]]

    assert sorted((sent[2], sent[0], sent[3], sent[1])) == sent
