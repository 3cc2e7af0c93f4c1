"""Messages from JSON Lines: read one at a time, for files of any size."""

import codecs
import json
import re
import shutil
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, NoReturn, cast

from pydantic import ValidationError

from history.errors import ConfigurationError
from history.json_text import read_json
from history.message import HEADER_FIELDS, Message

#: The longest line that is read, in bytes. A longer line is hardly a message, and need not fit in memory.
LONGEST_LINE = 64 * 1024 * 1024

_DECODER, _SPACE = json.JSONDecoder(), re.compile(r"[ \t\r\n]*")
_KEYS = {"headers", "body"}
_HEADER_OF = {field: header for header, field in HEADER_FIELDS.items()}


@dataclass(frozen=True, slots=True)
class MessageLine:
    """One line as a message. If it is not one, ``problem`` says why, and its bytes are the body as they are.

    ``number`` counts from 1, ``size`` is in bytes with the line's end.
    """

    number: int
    size: int
    message: Message
    problem: str | None


def read_lines(file: BinaryIO, *, first: int = 1) -> Iterator[MessageLine]:
    """Read the lines of a file, from the line ``first`` on; blank ones are skipped.

    A byte order mark is not part of the first line, and a line may end with CRLF.

    Raises:
        ConfigurationError: the file is in UTF-16, or a line is longer than :data:`LONGEST_LINE`.
    """
    for number, raw in enumerate(_raw_lines(file), 1):
        text = raw.strip()
        if number < first or not text:
            continue
        message, problem = _read(text)
        yield MessageLine(number, len(raw), message, problem)


def _raw_lines(file: BinaryIO) -> Iterator[bytes]:
    number = 0
    while raw := file.readline(LONGEST_LINE + 1):
        number += 1
        if number == 1:
            if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise ConfigurationError("FILE", "is UTF-16", "convert it: iconv -f UTF-16 -t UTF-8")
            raw = raw.removeprefix(codecs.BOM_UTF8)
        if len(raw) > LONGEST_LINE:
            raise ConfigurationError(
                f"line {number}", f"is longer than {LONGEST_LINE} bytes", "give one message a line"
            )
        yield raw


def _read(text: bytes) -> tuple[Message, str | None]:
    try:
        return _message(_parsed(text), text), None
    except (ValueError, OverflowError, RecursionError) as error:
        return Message(body=text), _problem(error)


def _problem(error: Exception) -> str:
    match error:
        case ValidationError():
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            header = [_HEADER_OF.get(str(step), str(step)) for step in first["loc"][:1]]
            # A JSON document has many alternatives, and pydantic names one of them.
            return "body: is nested too deeply" if header == ["body"] else ": ".join([*header, first["msg"]])
        case json.JSONDecodeError():
            return f"is not JSON: {error.msg} at character {error.pos + 1}"
        case UnicodeDecodeError():
            return f"is not UTF-8 at byte {error.start + 1}"
        case UnicodeEncodeError():
            return "holds half a surrogate pair, which is not text"
        case RecursionError():
            return "is nested too deeply"
        case _:
            return str(error)


def _parsed(text: bytes) -> Any:
    decoded = text.decode("utf-8")
    data = json.loads(decoded, parse_constant=_refuse_constant)
    if "\\ud" in decoded.lower():
        # Half a surrogate pair is JSON, but not text that can be sent.
        json.dumps(data, ensure_ascii=False).encode("utf-8")
    return data


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _message(data: Any, text: bytes) -> Message:
    if not isinstance(data, dict) or "body" not in data:
        raise ValueError('is not a JSON object with a "body"')
    line = cast("dict[str, Any]", data)
    if unknown := line.keys() - _KEYS:
        raise ValueError(f'unknown: "{min(unknown)}"; a message has "headers" and "body"')
    headers = line.get("headers", {})
    if not isinstance(headers, dict):
        raise ValueError('"headers" is not a JSON object')  # noqa: TRY004  (a wrong line, not a wrong call)
    body = line["body"]
    if isinstance(body, float | int | dict | list) and not isinstance(body, bool):
        body = read_json(_text_of_body(text.decode("utf-8")))  # with each digit
    return Message.from_headers(cast("dict[str, Any]", headers), body)


def _text_of_body(line: str) -> str:
    """Return the body of a line as it is written there; the line is a JSON object."""
    body, at = "", line.index("{") + 1
    while line[at := _after_space(line, at)] != "}":
        name, at = _DECODER.raw_decode(line, at)
        begun = _after_space(line, line.index(":", at) + 1)
        _, at = _DECODER.raw_decode(line, begun)
        if name == "body":
            body = line[begun:at]
        at = _after_space(line, at)
        at += line[at] == ","
    return body


def _after_space(line: str, at: int) -> int:
    space = _SPACE.match(line, at)
    return at if space is None else space.end()


@contextmanager
def rewindable(file: BinaryIO) -> Generator[BinaryIO]:
    """Return a file that can be read twice: itself, or a temporary copy of what comes through a pipe."""
    if file.seekable():
        yield file
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(file, copy)
        copy.seek(0)
        yield cast("BinaryIO", copy)


def refuse_problems(lines: Iterable[MessageLine]) -> None:
    """Read all lines, and refuse the first that is not a message.

    Raises:
        ConfigurationError: a line is not a message; the error names it.
    """
    for line in lines:
        if line.problem is not None:
            raise ConfigurationError(f"line {line.number}", line.problem, "correct it, or leave --strict out")
