"""A start loads only the modules of ours that it uses, and no driver."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer

from tests import ROOT
from tests.acceptance.test_public_face import DRIVERS
from triggers.cli import app
from triggers.cli.commands import COMMANDS

pytestmark = pytest.mark.slow

OURS = ("history", "resolvers", "triggers")

#: Loaded by more than one command; a start must not wait for any of these.
HEAVY = {*DRIVERS, "asyncio", "concurrent", "importlib.metadata", "multiprocessing", "tenacity"}

#: All of ours that the command line itself consists of.
COMMAND_LINE = {
    "triggers",
    "triggers.cli",
    "triggers.cli.commands",
    "triggers.cli.shared",
    "triggers.cli.shared.arguments",
    "triggers.cli.shared.configured",
    "triggers.cli.shared.general_options",
    "triggers.cli.shared.logs",
    "triggers.cli.shared.output",
    "triggers.configuration",
    "triggers.configuration.limits",
}


def loaded_by(program: str, *words: str) -> set[str]:
    """Return the modules that are loaded at the end of a program; its output does not matter."""
    listing = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))"
    ended = subprocess.run(
        [sys.executable, "-c", f"{listing}\n{program}", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return set(ended.stderr.splitlines()[-1].split())


def of_ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] in OURS}


@pytest.fixture(scope="module")
def of_history() -> set[str]:
    """The modules that ``history`` loads; every other package imports it."""
    return loaded_by("import history.errors, history.support.rendering")


def test_importing_triggers_loads_its_face_alone(of_history: set[str]) -> None:
    modules = loaded_by("import triggers")

    assert of_ours(modules - of_history) == {"triggers"}
    assert modules & HEAVY <= of_history


def test_a_name_loads_what_it_needs_and_nothing_else() -> None:
    modules = loaded_by("from triggers import SelectorError")

    assert "triggers.selectors.selector" in modules
    assert not any(name.startswith(("triggers.consumer", "triggers.pipeline")) for name in modules)


def test_the_protocol_of_providers_loads_no_driver() -> None:
    modules = loaded_by("from triggers.providers import Provider, read")

    assert "triggers.providers.provider" in modules
    assert modules & {"jpype", "pika", "proton", "psycopg", "redis", "sqlalchemy"} == set()


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_and_version_load_no_command_and_no_driver(word: str, of_history: set[str]) -> None:
    modules = loaded_by("from triggers.cli import main; main()", word)

    assert of_ours(modules - of_history) == COMMAND_LINE - of_history
    drawing = {"rich", "typer"} if word == "--help" else {"importlib.metadata", "typer"}
    assert modules & HEAVY - drawing <= of_history


@pytest.mark.parametrize(
    ("words", "unneeded"),
    [
        (("history", "stats"), ("triggers.patchbay", "triggers.pipeline", "triggers.consumer")),
        (("parked", "list"), ("triggers.patchbay", "triggers.pipeline", "triggers.declaration")),
        (("status",), ("triggers.patchbay", "triggers.pipeline", "triggers.declaration")),
        (("send", "q", "none.jsonl"), ("triggers.patchbay", "triggers.pipeline", "triggers.consumer")),
        (("sqljms", "queues"), ("triggers.patchbay", "triggers.pipeline", "triggers.consumer")),
        (("run", "none", "--provider", "redis://x"), ("triggers.patchbay", "triggers.cli.parked")),
    ],
    ids=lambda value: value[0],
)
def test_a_command_loads_neither_the_others_nor_what_draws_on_terminals(
    words: tuple[str, ...], unneeded: tuple[str, ...]
) -> None:
    modules = loaded_by("from triggers.cli import main; main()", *words)

    assert f"triggers.cli.{words[0]}" in modules or "triggers.cli.control" in modules
    assert [name for name in modules if name.startswith(unneeded)] == []
    assert "rich.console" not in modules


def summaries() -> Iterator[tuple[str, str]]:
    group = typer.main.get_group(app)
    for name, command in group.commands.items():
        yield name, str(command.help).partition("\n\n")[0].replace("\n", " ")


def test_the_help_says_of_each_command_what_it_says_itself() -> None:
    assert {name: command.summary for name, command in COMMANDS.items()} == dict(summaries())
