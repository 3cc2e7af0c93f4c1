"""``doubtless`` in the process of the test: without a start, and with the same answers."""

import importlib
import io
import logging
import os
import signal
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from tests import ROOT
from tests.acceptance.command_line import Answer, CommandLine, checked
from triggers.cli import main

#: The folder with the module ``shop``, which the commands import.
SERVICES = Path(__file__).parent


class InProcess(CommandLine):
    """Runs commands in ``folder``: in this process, or in a new process.

    A command gets its own streams, environment, current folder, log handlers and signal handlers. It imports
    the modules of users again. Afterwards everything is as before. Tests that act on the process itself need
    :meth:`process` or :meth:`start`: signals, pipes, terminals, encodings, a service that kills the process.
    """

    def __call__(self, *words: str, stdin: str = "", **settings: str) -> Answer:
        """Run a command here, to its end."""
        streams = Streams(stdin)
        with (
            self._environment(settings),
            streams.instead_of_ours(),
            own_logging(),
            own_modules(self.folder, SERVICES),
            own_signal_handlers(),
        ):
            code = _exit_code(*words)
        return checked(Answer(code, *streams.written()))

    def process(self, *words: str, stdin: str = "", **settings: str) -> Answer:
        """Run a command in a new process, to its end."""
        return super().__call__(*words, stdin=stdin, **settings)

    @contextmanager
    def _environment(self, settings: Mapping[str, str]) -> Generator[None]:
        here = Path.cwd()
        os.chdir(self.folder)
        try:
            with patch.dict(os.environ, {**self.environment, **settings}, clear=True):
                yield
        finally:
            os.chdir(here)


def _exit_code(*words: str) -> int:
    """Return the exit code that the process would have. A service may also end it."""
    try:
        main(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    raise AssertionError("main returns only by SystemExit")


class Streams:
    """Standard input, output and error of a command, as pipes would have them."""

    def __init__(self, stdin: str) -> None:
        self._stdin = stdin
        self._out, self._err = _stream(), _stream()

    @contextmanager
    def instead_of_ours(self) -> Generator[None]:
        """Use these streams in the process, inside the block."""
        with (
            _pipe(self._stdin.encode()) as stdin,
            patch.multiple(sys, stdin=stdin, stdout=self._out, stderr=self._err),
        ):
            yield

    def written(self) -> tuple[str, str]:
        """Return what was written to standard output and to standard error."""
        return _text(self._out), _text(self._err)


def _pipe(content: bytes) -> io.TextIOWrapper:
    """Return the reading end of a pipe with ``content``. The content must fit into the pipe."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    assert os.write(theirs, content) == len(content), "too much for a pipe; start a process"
    os.close(theirs)
    return os.fdopen(ours, encoding="utf-8")


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8")


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode()


@contextmanager
def own_logging() -> Generator[None]:
    """Remove the test's log handlers and levels, and at the end those of the command."""
    root, others = logging.getLogger(), _levels()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        for name in _levels():
            logging.getLogger(name).setLevel(others.get(name, logging.NOTSET))


def _levels() -> dict[str, int]:
    known = logging.root.manager.loggerDict.items()
    return {name: one.level for name, one in known if isinstance(one, logging.Logger) and one.level}


@contextmanager
def own_modules(*folders: Path) -> Generator[None]:
    """Inside the block, imports also find the services. Afterwards, forget the modules from ``folders``."""
    path = sys.path[:]
    sys.path[:] = [str(SERVICES), str(ROOT), *path]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = path
        for name in [name for name, module in sys.modules.items() if _is_from(module, folders)]:
            del sys.modules[name]


def _is_from(module: ModuleType, folders: tuple[Path, ...]) -> bool:
    file: Any = getattr(module, "__file__", None)
    return file is not None and "." not in module.__name__ and Path(file).parent in folders


@contextmanager
def own_signal_handlers() -> Generator[None]:
    """Restore the test's signal handlers at the end of the block."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
