"""JSON Lines as messages: valid lines, invalid lines, and the errors of the invalid ones."""

import io

import pytest

from history.errors import ConfigurationError
from triggers.producer.lines import LONGEST_LINE, read_lines


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"\xff\xfe\x00binary", "is not UTF-8 at byte 1"),
        (
            b'{"headers": {"uuid": "u1"}, "body": {"id"',
            "is not JSON: Expecting ':' delimiter at character 42",
        ),
        (b'{"id": "N-1"}', 'is not a JSON object with a "body"'),
        (b"[1]", 'is not a JSON object with a "body"'),
        (b'{"header": {}, "body": 1}', 'unknown: "header"; a message has "headers" and "body"'),
        (b'{"headers": [], "body": 1}', '"headers" is not a JSON object'),
        (b'{"headers": {"JMSPriority": 10}, "body": 1}', "JMSPriority: Input should be less than"),
        (b'{"headers": {"uuid": ""}, "body": 1}', "uuid: an empty identity would make"),
        (b'{"headers": {"colour": {}}, "body": 1}', "properties: "),
        (b'{"headers": {"JMSTimestamp": 1e300}, "body": 1}', "JMSTimestamp: "),
        (b'{"headers": {"JMSTimestamp": 1%s}, "body": 1}' % (b"0" * 40), ""),
        (b'{"body": NaN}', "NaN is not JSON"),
        (b'{"body": "\\ud800"}', "holds half a surrogate pair"),
        (b"[" * 100_000, "is nested too deeply"),
        (b'{"body": %s}' % (b"[" * 300 + b"]" * 300), "is nested more than"),
        (b'{"body": %s}' % (b"9" * 5000), "4300 digits"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_message_is_a_body_of_bytes_with_its_problem(text: bytes, problem: str) -> None:
    (line,) = read_lines(io.BytesIO(b"\n" + text + b"\n"))

    assert line.problem is not None
    assert problem in line.problem
    assert line.message.body == text


def test_a_whole_surrogate_pair_is_text() -> None:
    (line,) = read_lines(io.BytesIO(b'{"body": "\\ud83d\\udce6"}'))

    assert (line.problem, line.message.body) == (None, "\U0001f4e6")


def test_numbers_count_all_lines_and_blank_ones_are_skipped() -> None:
    file = io.BytesIO(b'\xef\xbb\xbf{"body": 1}\r\n\r\n  \n{"body": 2}')

    lines = list(read_lines(file))

    assert [(line.number, line.message.body, line.problem) for line in lines] == [(1, 1, None), (4, 2, None)]


def test_reading_may_begin_at_a_later_line() -> None:
    file = io.BytesIO(b'{"body": 1}\n' * 5)

    assert [line.number for line in read_lines(file, first=4)] == [4, 5]


def test_a_line_without_an_end_is_not_read_to_its_end() -> None:
    file = io.BytesIO(b"x" * (LONGEST_LINE + 10))

    with pytest.raises(ConfigurationError, match="line 1: is longer than"):
        next(read_lines(file))

    assert file.tell() == LONGEST_LINE + 1
