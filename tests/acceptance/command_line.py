"""``doubtless`` as a user starts it: a real process in its own folder."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests import ROOT
from tests.fixtures.waiting import patiently


@dataclass(frozen=True, slots=True)
class Answer:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output. It must be one JSON document."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """Standard error. An error must be one line."""
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == 1
        return self.err.strip()


#: The command of this checkout. Each connection that it leaves open is an error.
OURS = (sys.executable, "-W", "error::ResourceWarning", "-m", "triggers.cli")


class CommandLine:
    """Runs commands in ``folder``: of this checkout, or ``program`` with the variables of ``environment``."""

    def __init__(
        self, folder: Path, *, program: Sequence[str] = OURS, environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self._program = program
        here = Path(__file__).parent
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DOUBTLESS_")}
        ours = {**kept, "PYTHONPATH": f"{here}{os.pathsep}{ROOT}"}
        self.environment = {
            **(ours if environment is None else environment),
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def start(
        self,
        *words: str,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*self._program, *words],
            cwd=self.folder,
            env={**self.environment, **settings},
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            text=True,
            encoding="utf-8",
        )

    def __call__(self, *words: str, stdin: str = "", **settings: str) -> Answer:
        """Run a command to its end."""
        with self.start(*words, settings=settings) as process:
            try:
                return finish(process, stdin)
            finally:
                process.kill()


#: A warning with the traceback of a service. After redaction the traceback is on the same line.
_TOLD = re.compile(
    r"^\S+ WARNING .* \(row \d+\)[ .].*(?:\n  Traceback \(.*(?:\n  .*)*|\\nTraceback \(.*)\n", re.MULTILINE
)


def finish(process: "subprocess.Popen[str]", stdin: str = "") -> Answer:
    """Wait for the end of a command."""
    unsent = iter([stdin])  # a second wait must not give the input again
    try:
        out, err = patiently(lambda seconds: process.communicate(next(unsent, None), seconds))
    except BaseException:
        process.kill()  # otherwise it would receive the messages of later tests
        raise
    return checked(Answer(process.returncode, out, err))


def checked(answer: Answer) -> Answer:
    """Return an answer, after a check of its log.

    The log may contain the traceback of a service that a warning reports, but no other, and no open resource.
    """
    assert "Traceback" not in _TOLD.sub("", answer.err)
    assert "ResourceWarning" not in answer.err
    return answer
