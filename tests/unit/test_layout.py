"""The folders of the packages: each has few enough entries to read at a glance, and says its purpose."""

import ast
import re
from pathlib import Path

import pytest

from tests import ROOT

#: The number of modules and folders that a reader sees at a glance.
MOST = 16

#: Folders that may have more: rooms, types and helpers that every store needs, pages, many subjects.
FULLER = {
    "history": 17,
    "triggers": 21,
    "triggers/pipeline": 19,
    "triggers/dashboard": 19,
    "triggers/dashboard/pages": 18,
    "history/store": 21,
    "history/support": 17,
    "history/redis/lua/entries": 18,
    "history/redis/lua/shared": 17,
}

#: Folders with many modules of one kind: the name of each module explains it, as the folder's docstring says.
ONE_OF_A_KIND = {"history/contract", "triggers/dashboard/pages", "triggers/providers/contract"}

#: Entries of a folder that do not count.
COUNTED_NOT = {"__init__.py", "__main__.py", "__pycache__", "py.typed"}

PACKAGES = ("doubtless", "history", "resolvers", "triggers")


def folders_of(package: str) -> list[Path]:
    top = ROOT / package
    return [top, *(one for one in sorted(top.rglob("*")) if one.is_dir() and one.name != "__pycache__")]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_folder_has_more_entries_than_one_takes_in_at_a_glance(package: str) -> None:
    counts = {
        str(folder.relative_to(ROOT)): len({one.name for one in folder.iterdir()} - COUNTED_NOT)
        for folder in folders_of(package)
    }

    assert {name: count for name, count in counts.items() if count > FULLER.get(name, MOST)} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_what_it_is_for(package: str) -> None:
    made_of_modules = [folder for folder in folders_of(package) if any(folder.glob("*.py"))]

    silent = [
        str(folder.relative_to(ROOT))
        for folder in made_of_modules
        if not (folder / "__init__.py").exists()
        or ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) is None
    ]

    assert silent == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_names_the_modules_and_packages_in_it(package: str) -> None:
    unnamed: list[str] = []
    for folder in folders_of(package):
        rooms = rooms_of(folder)
        if len(rooms) > 1 and str(folder.relative_to(ROOT)) not in ONE_OF_A_KIND:
            guide = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
            unnamed += [str(room) for room in rooms if not re.search(rf"\b{room.stem}\b", guide)]

    assert unnamed == []


def rooms_of(folder: Path) -> list[Path]:
    modules = [one for one in folder.glob("*.py") if one.name not in COUNTED_NOT]
    return [*modules, *(one.parent for one in folder.glob("*/__init__.py"))]
