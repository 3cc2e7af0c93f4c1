"""The code in README and docs: programs, and commands that a reader types."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT
from tests.fixtures.waiting import PATIENCE, patiently

#: The URL of the reader's Redis in the pages.
READERS_REDIS = "redis://127.0.0.1:6379/0"

#: How long a command of a page may take, in seconds. Some start Spark.
ENOUGH = 3 * PATIENCE

_FENCE = re.compile(r"^```(?P<kind>.*)$")
_FILE = re.compile(r"^<!-- file: (?P<name>\S+) -->$")


@dataclass(frozen=True, slots=True)
class Block:
    """One block of code. ``line`` is the number of its first line in the page, ``file`` its file, or None."""

    kind: str
    line: int
    lines: tuple[str, ...]
    file: str | None


def pages() -> list[Path]:
    folders = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]
    return [ROOT / "README.md", *sorted(folders)]


def blocks(page: Path) -> Iterator[Block]:
    kind: str | None = None
    held: list[str] = []
    before, file = "", None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if fence is None:
            held.append(line)
        elif kind is None:
            kind, held = fence["kind"], []
            named = _FILE.match(before)
            file = named["name"] if named else None
        else:
            yield Block(kind, number - len(held), tuple(held), file)
            kind = None
        before = line
    assert kind is None, f"{page}: a block is not closed"


def program(page: Path, kind: str) -> str:
    """Return all blocks of a kind as one program in which each line keeps its number."""
    lines = [""] * (len(page.read_text(encoding="utf-8").splitlines()) + 1)
    for block in blocks(page):
        if block.kind == kind:
            lines[block.line - 1 : block.line - 1 + len(block.lines)] = block.lines
    return "\n".join(lines) + "\n"


def typed(block: Block) -> Iterator[tuple[str, str]]:
    """Return each command of a console block, with its expected output."""
    command: str | None = None
    printed: list[str] = []
    for line in block.lines:
        if line.startswith("$ "):
            if command is not None:
                yield command, "\n".join(printed)
            command, printed = line[2:], []
        else:
            printed.append(line)
    if command is not None:
        yield command, "\n".join(printed)


def follow(page: Path, folder: Path, redis_url: str, environment: Mapping[str, str]) -> None:
    """Copy and type in a folder what a page tells to copy and to type, and compare the answers.

    The reader's Redis is replaced by ``redis_url``, for its port may be somebody else's here.
    """
    settings = dict(environment)
    for block in blocks(page):
        if block.file is not None:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text("\n".join(block.lines) + "\n", encoding="utf-8")
        if block.kind != "console":
            continue
        for shown, expected in typed(block):
            command = shown.replace(READERS_REDIS, redis_url)
            setting = re.fullmatch(r"export (\w+)='(.*)'", command)
            if setting is not None:
                settings[setting[1]] = setting[2]
                continue
            printed = run_in_bash(command, folder, settings)
            assert matches(expected, printed), f"{command}\nprinted:\n{printed}"


def run_in_bash(command: str, folder: Path, settings: Mapping[str, str], seconds: float = ENOUGH) -> str:
    """Return all output of a command, and its shell's message if the command is killed."""
    words = ["bash", "-c", f"exec 2>&1; {command}\n:"]
    with subprocess.Popen(words, cwd=folder, env=settings, stdout=subprocess.PIPE, text=True) as shell:
        try:
            return patiently(lambda longest: shell.communicate(timeout=longest)[0], seconds)
        finally:
            shell.kill()


def in_path(programs: Path) -> str:
    return f"{programs}{os.pathsep}{os.environ['PATH']}"


def matches(expected: str, printed: str) -> bool:
    """Whether ``printed`` is ``expected``, in which ``...`` stands for anything, and spaces for some."""
    pattern = ".*".join(map(re.escape, " ".join(expected.split()).split("...")))
    return re.fullmatch(pattern, " ".join(printed.split())) is not None
