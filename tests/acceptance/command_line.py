"""``doubtless`` as a user starts it: a real process, in a folder of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.fixtures.waiting import patiently


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON document that it must be."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """Standard error as the one line that an error must be."""
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == 1
        return self.err.strip()


class CommandLine:
    """Runs commands in ``folder``; connections that they leave open are errors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        here = Path(__file__).parent
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DOUBTLESS_")}
        self.environment = {
            **kept,
            "XDG_STATE_HOME": str(folder / "state"),
            "PYTHONPATH": f"{here}{os.pathsep}{here.parent.parent}",
        }

    def start(
        self, *words: str, stdout: int = subprocess.PIPE, settings: Mapping[str, str] = MappingProxyType({})
    ) -> "subprocess.Popen[str]":
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-W", "error::ResourceWarning", "-m", "triggers.cli", *words],
            cwd=self.folder,
            env={**self.environment, **settings},
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
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


def finish(process: "subprocess.Popen[str]", stdin: str = "") -> Answer:
    """Wait for the end of a command; no traceback, and nothing left open, is ever right."""
    sending: list[str | None] = [stdin]

    def communicate(seconds: float) -> tuple[str, str]:
        return process.communicate(sending.pop() if sending else None, seconds)

    out, err = patiently(communicate)
    assert "Traceback" not in err
    assert "ResourceWarning" not in err
    return Answer(process.returncode, out, err)
