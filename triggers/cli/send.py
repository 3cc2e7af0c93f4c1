"""``doubtless send``: messages from a JSON Lines file to a destination."""

import os
import stat
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import typer

from history.bridge import drive
from history.errors import ConfigurationError, UnavailableError
from triggers.cli.shared.arguments import reading
from triggers.cli.shared.embedded import provider_or_file
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.options import PROVIDER_OPTION, connected
from triggers.cli.shared.output import CliState
from triggers.producer.lines import MessageLine, read_lines, refuse_problems, rewindable
from triggers.producer.producer import Producer
from triggers.producer.settings import DEFAULT_QUEUE_LIMIT
from triggers.providers.outgoing import SendOptions
from triggers.providers.provider import Provider

if TYPE_CHECKING:
    from rich.progress import Progress

#: How many messages, and about how many bytes of them, go out in one call.
SEND_BATCH, SEND_BYTES = 200, 8 * 1024 * 1024

#: The owner of the queue that ``--queue`` names, unless ``--alias`` names another.
DEFAULT_ALIAS = "doubtless-send"

#: How many lines that are not messages are named at the end.
_NAMED = 10

#: A line that is a message, for a user who sent another.
_FORM = '{"headers": {"uuid": "order-1"}, "body": {"id": "N-1"}}'


@dataclass(slots=True)
class _Report:
    """The progress of sending, and the first line with an unknown result.

    ``queued`` messages were put into the queue. ``waiting`` messages are in it at the end, the oldest of them
    from earlier calls.
    """

    destination: str
    taken: int = 0
    queued: int = 0
    sent_as_they_are: int = 0
    named: list[MessageLine] = field(default_factory=list[MessageLine])
    last: int = 0
    waiting: int | None = None

    @property
    def sent(self) -> int:
        """How many messages of this call are at the provider."""
        return self.taken - (self.queued if self.waiting is None else min(self.queued, self.waiting))

    def add(self, lines: list[MessageLine], *, queued: int) -> None:
        unreadable = [line for line in lines if line.problem is not None]
        self.taken += len(lines)
        self.queued += queued
        self.sent_as_they_are += len(unreadable)
        self.named += unreadable[: _NAMED - len(self.named)]
        self.last = lines[-1].number


@with_general_options
def send(
    context: typer.Context,
    destination: str = typer.Argument(help="The queue, topic or stream."),
    file: Path = typer.Argument(help="A JSON Lines file. - reads standard input."),
    provider: str | None = PROVIDER_OPTION,
    strict: bool = typer.Option(False, "--strict", help="Send nothing if a line is not a message."),
    from_line: int = typer.Option(1, min=1, help="Begin with this line, after a call that was interrupted."),
    priority: int | None = typer.Option(None, min=0, max=9, help="The priority of every message."),
    time_to_live: float | None = typer.Option(None, min=0.001, help="Seconds until each message expires."),
    delay: float | None = typer.Option(
        None, min=0.001, help="Seconds to wait before each message is delivered."
    ),
    queue: Path | None = typer.Option(None, help="The file that stores messages while the provider is away."),
    encrypt: str | None = typer.Option(
        None, metavar="KEY", help="Encrypt that file with this key: file:/path or env:NAME."
    ),
    queue_limit: int = typer.Option(
        DEFAULT_QUEUE_LIMIT, min=-1, help="How many messages the queue may hold. -1: any number."
    ),
    alias: str = typer.Option(DEFAULT_ALIAS, help="The name of the producer that owns the queue."),
) -> None:
    """Send each line of a file as one message.

    A line is a JSON object with a "body" and optional "headers" (JMS names, "uuid" and properties). Any other
    line is sent unchanged, as a body of bytes. If the receiving trigger cannot read such a message, it parks
    it. Blank lines are skipped. The command sends while it reads, so the file may be larger than the memory.

    With --queue, messages that cannot be sent wait in that file, and later messages wait behind them. The
    next call with the same file, or a Producer with the same alias, sends them.
    """
    if not destination:
        raise ConfigurationError("DESTINATION", "is empty", "name the queue, topic or stream")
    state = CliState.of(context)
    report = _Report(destination)
    options = _options(priority, time_to_live, delay)
    with (
        _opened(_read_from(file, destination), strict=strict) as source,
        connected(provider_or_file(provider, state)) as link,
        Producer(link, alias=alias, queue=queue, encrypt=encrypt, queue_limit=queue_limit) as producer,
    ):
        plain = not options and queue is None
        emit = partial(_send_as_they_are, link) if plain else partial(_send_with, producer, options)
        try:
            with _progress(source, quiet=state.as_json) as lines:
                _send(emit, lines(read_lines(source, first=from_line)), report)
            if producer.queue is not None:
                report.waiting = producer.drain().left
        except (UnavailableError, ConfigurationError, KeyboardInterrupt):
            if report.taken:
                queued = f" and queued {report.queued}" if report.queued else ""
                state.note(
                    f"sent {_messages(report.sent)}{queued}, up to line {report.last}; go on with "
                    f"--from-line {report.last + 1}: what arrived beyond it is a duplicate then, "
                    "if it has a uuid"
                )
            raise
    _tell(state, report)


def _options(priority: int | None, time_to_live: float | None, delay: float | None) -> SendOptions:
    options: SendOptions = {}
    if priority is not None:
        options["priority"] = priority
    if time_to_live is not None:
        options["time_to_live"] = timedelta(seconds=time_to_live)
    if delay is not None:
        options["delay"] = timedelta(seconds=delay)
    return options


def _send_as_they_are(link: Provider, destination: str, lines: list[MessageLine]) -> int:
    drive(link.send(destination, [line.message for line in lines]))
    return 0


def _send_with(producer: Producer, options: SendOptions, destination: str, lines: list[MessageLine]) -> int:
    sent = producer.send_batch(destination, [line.message for line in lines], **options)
    return sum(message.queued for message in sent)


def _send(
    emit: Callable[[str, list[MessageLine]], int], lines: Iterable[MessageLine], report: _Report
) -> None:
    """Send the lines. ``emit`` returns how many messages it has put into the queue."""
    for chunk in _chunks(lines):
        report.add(chunk, queued=emit(report.destination, chunk))


def _chunks(lines: Iterable[MessageLine]) -> Iterator[list[MessageLine]]:
    chunk: list[MessageLine] = []
    size = 0
    for line in lines:
        chunk.append(line)
        size += line.size
        if len(chunk) == SEND_BATCH or size >= SEND_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _tell(state: CliState, report: _Report) -> None:
    if state.as_json:
        state.document(
            {
                "destination": report.destination,
                "sent": report.sent,
                "sent_as_they_are": report.sent_as_they_are,
                "first_of_these": [{"line": line.number, "problem": line.problem} for line in report.named],
                **({} if report.waiting is None else {"waiting": report.waiting}),
            }
        )
        return
    state.say(f"sent {_messages(report.sent)} to {report.destination}")
    if report.waiting:
        wait = "waits" if report.waiting == 1 else "wait"
        state.note(f"{_messages(report.waiting)} {wait} in the queue, and the next call sends them")
    if report.sent_as_they_are:
        more = ", and so on" if report.sent_as_they_are > len(report.named) else ""
        lines = "; ".join(f"line {line.number}: {line.problem}" for line in report.named)
        count = report.sent_as_they_are
        reason = (
            "is not a message and was sent unchanged, as bytes"
            if count == 1
            else "are not messages and were sent unchanged, as bytes"
        )
        state.note(f"{count} of them {reason}: {lines}{more}. Write a message as {_FORM}")


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"


def _read_from(file: Path, destination: str) -> Path:
    """Return the file.

    Raises:
        ConfigurationError: it does not exist, and the destination is a file: the two were swapped.
    """
    # os.path, because Path raises for a name that is too long.
    if str(file) != "-" and os.path.isfile(destination) and not os.path.exists(file):  # noqa: PTH110, PTH113
        raise ConfigurationError(
            "FILE", f"there is no file {file}", f"write the destination first: {file} {destination}"
        )
    return file


@contextmanager
def _opened(file: Path, *, strict: bool) -> Generator[BinaryIO]:
    """Open the file at its first line; with ``strict`` it was read once, and holds only messages."""
    with reading(file) as source:
        if not strict:
            yield source
            return
        with rewindable(source) as twice:
            begin = twice.tell()
            refuse_problems(read_lines(twice))
            twice.seek(begin)
            yield twice


class _Counting:
    """Advances the progress bar as lines pass."""

    def __init__(self, progress: "Progress", size: int | None) -> None:
        self._progress = progress
        self._task = progress.add_task("sending", total=size)

    def __call__(self, lines: Iterable[MessageLine]) -> Iterator[MessageLine]:
        for line in lines:
            yield line
            self._progress.advance(self._task, line.size)


@contextmanager
def _progress(
    source: BinaryIO, *, quiet: bool
) -> Generator[Callable[[Iterable[MessageLine]], Iterable[MessageLine]]]:
    """Show a bar on standard error, if it is a terminal, while lines pass through the yielded function."""
    if quiet or not sys.stderr.isatty():
        yield iter
        return
    from rich.console import Console  # noqa: PLC0415  (loaded for the bar alone)
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415  (as above)

    about = os.fstat(source.fileno())
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _Counting(progress, about.st_size if stat.S_ISREG(about.st_mode) else None)
