"""Words that the code must not use, because they could mean anything."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests import ROOT

#: Where our code is.
FOLDERS = ("doubtless", "history", "resolvers", "triggers", "benchmarks", "examples", "tests")

#: A variable with this name has been a text, a tally, options, a reason and a statement.
WORD = "told"

#: The files and folders that still use the word, one per line.
LEFTOVERS = (Path(__file__).parent / "leftover_words.txt").read_text(encoding="utf-8").split()


def bound_in(source: str) -> Iterator[str]:
    """Yield the names of variables and parameters that a module binds."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case _:
                pass


def is_left_over(file: str) -> bool:
    return any(file == known or file.startswith(f"{known.rstrip('/')}/") for known in LEFTOVERS)


def test_no_variable_is_called_told() -> None:
    files = {str(file.relative_to(ROOT)): file for name in FOLDERS for file in (ROOT / name).rglob("*.py")}

    found = [
        name
        for name, file in files.items()
        if not is_left_over(name) and WORD in bound_in(file.read_text(encoding="utf-8"))
    ]

    assert found == []


def test_assignments_loops_and_parameters_bind_a_name() -> None:
    source = "told = 1\nfor loop in (): ...\ndef service(parameter: int, *, keyword: str): ...\nprint(read)"

    assert sorted(bound_in(source)) == ["keyword", "loop", "parameter", "told"]
