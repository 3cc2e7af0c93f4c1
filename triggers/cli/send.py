"""``doubtless send``: messages from a JSON Lines file to a destination."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import typer
from pydantic import ValidationError
from rich.progress import track

from history.bridge import drive
from history.errors import ConfigurationError
from history.message import Message
from triggers.cli.output import State
from triggers.providers.opening import PROVIDER_URLS, open_provider

#: How many messages go out in one call.
SEND_BATCH = 200


def send(
    context: typer.Context,
    destination: str = typer.Argument(help="The queue, topic or stream."),
    file: Path = typer.Argument(help="A JSON Lines file; - reads standard input."),
    provider: str = typer.Option(..., envvar="DOUBTLESS_PROVIDER", help=PROVIDER_URLS),
    strict: bool = typer.Option(False, help="Refuse the file when a line is no message; send nothing."),
) -> None:
    """Send each line of a file as one message.

    A line is a JSON object with a "body" and maybe "headers" (JMS names, "uuid" and properties). Any other
    line is sent as it is, as a body of bytes: the receiving trigger judges it, and parks what it cannot read.
    """
    state = State.of(context)
    with _opened(file) as lines:
        messages = list(read_messages(lines))
    unreadable = [number for number, (_, problem) in enumerate(messages, 1) if problem]
    if strict and unreadable:
        number = unreadable[0]
        raise ConfigurationError(
            f"line {number}", str(messages[number - 1][1]), "mend it, or leave --strict out"
        )
    sent = _send(provider, destination, [message for message, _ in messages], quiet=state.as_json)
    if state.as_json:
        state.document({"destination": destination, "sent": sent, "sent_as_they_are": unreadable})
        return
    state.say(f"sent {sent} messages to {destination}")
    if unreadable:
        shown = ", ".join(map(str, unreadable[:10])) + (" ..." if len(unreadable) > 10 else "")  # noqa: PLR2004
        state.say(f"{len(unreadable)} lines are no messages and were sent as they are: {shown}")


def _send(url: str, destination: str, messages: list[Message], *, quiet: bool) -> int:
    provider = open_provider(url)
    chunks = list(_chunks(messages))
    try:
        for chunk in track(chunks, description="sending", disable=quiet or not sys.stderr.isatty()):
            drive(provider.send(destination, chunk))
    finally:
        drive(provider.close())
    return len(messages)


def read_messages(lines: Iterable[bytes]) -> Iterator[tuple[Message, str | None]]:
    """Read each line as a message; where it is none, give the line as a body, and the problem."""
    for line in lines:
        text = line.rstrip(b"\r\n")
        if not text:
            continue
        try:
            yield _read(json.loads(text)), None
        except (ValueError, ValidationError) as error:
            yield Message(body=text), str(error).splitlines()[0]


def _read(data: Any) -> Message:
    if not isinstance(data, dict) or "body" not in data:
        raise ValueError('no JSON object with a "body"')
    headers = data.get("headers", {})
    if not isinstance(headers, dict):
        raise ValueError('"headers" is no JSON object')  # noqa: TRY004  (a wrong line, not a wrong call)
    return Message.from_headers(headers, data["body"])


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    try:
        with file.open("rb") as lines:
            yield lines
    except OSError as error:
        raise ConfigurationError(
            "FILE", f"{file}: {error.strerror}", "give a file that can be read"
        ) from error


def _chunks(messages: list[Message]) -> Iterator[list[Message]]:
    rest = iter(messages)
    while chunk := list(islice(rest, SEND_BATCH)):
        yield chunk
