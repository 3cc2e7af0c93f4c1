"""The command line knows all commands and options in README and docs that no test runs."""

import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests import ROOT
from tests.acceptance.docs.pages import blocks, pages
from triggers.cli import app

#: These words end a command in a line.
ENDS = {"|", "&&", ">", ";"}


def commands_of(page: Path) -> Iterator[str]:
    """Yield each ``doubtless`` command in the blocks of a page that show only input."""
    for block in blocks(page):
        if block.kind in {"", "sh"}:
            lines = "\n".join(block.lines).replace("\\\n", "").splitlines()
            yield from (line for line in lines if line.startswith("doubtless "))


SHOWN = [(page, command) for page in pages() for command in commands_of(page)]


@pytest.mark.parametrize(
    ("page", "command"), SHOWN, ids=[f"{page.stem}-{number}" for number, (page, _) in enumerate(SHOWN)]
)
def test_a_command_that_a_page_shows_is_known_with_its_options(page: Path, command: str) -> None:
    words = shlex.split(command, comments=True)[1:]
    ends = [place for place, word in enumerate(words) if word in ENDS]
    words = words[: ends[0]] if ends else words
    found: Any = typer.main.get_command(app)
    context = typer.Context(found, info_name="doubtless")
    while hasattr(found, "commands"):
        name = words.pop(0)
        found = found.commands[name]
        context = typer.Context(found, info_name=name, parent=context)

    found.make_context(found.name, words, parent=context.parent)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_toml_of_a_page_can_be_read(page: Path) -> None:
    for block in blocks(page):
        if block.kind == "toml":
            tomllib.loads("\n".join(block.lines))
