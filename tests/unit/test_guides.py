"""Each package says in its docstring what its modules and folders are for, so that nobody has to search."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT

#: Folders of many modules of one kind, each of which its name explains; their docstrings say that.
ONE_OF_A_KIND = {"history/contract", "triggers/dashboard/pages", "triggers/providers/contract"}


def packages() -> Iterator[Path]:
    for house in ("history", "resolvers", "triggers"):
        yield from (path.parent for path in (ROOT / house).rglob("__init__.py"))


def rooms_of(package: Path) -> list[str]:
    """Return the names of the modules and packages in a package."""
    modules = [path.stem for path in package.glob("*.py") if path.stem != "__init__"]
    return sorted([*modules, *(path.parent.name for path in package.glob("*/__init__.py"))])


@pytest.mark.parametrize("package", [str(path.relative_to(ROOT)) for path in packages()])
def test_a_package_names_all_that_is_in_it(package: str) -> None:
    guide = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())) or ""
    rooms = rooms_of(ROOT / package)

    unnamed = [room for room in rooms if not re.search(rf"\b{room}\b", guide)]

    assert not unnamed or package in ONE_OF_A_KIND or len(rooms) == 1
