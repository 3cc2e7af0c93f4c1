"""The Lua scripts as Redis gets them: each compiles, and none makes a global variable."""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

import pytest

from history.errors import ConfigurationError
from history.redis.assembly import assembled, main, script_names
from tests.fixtures.needed import missing

PACKAGES = ("history.redis", "triggers.providers.redis_streams")

SCRIPTS = [(package, name) for package in PACKAGES for name in script_names(package)]

#: luac lists an instruction with this name if it writes a global variable; Redis refuses that at run time.
GLOBAL = re.compile(r"SETGLOBAL\s.*; (\w+)")


@dataclass(frozen=True, slots=True)
class Compiler:
    path: str

    def complaint(self, script: str) -> str:
        """Return what is wrong with a script; an empty text if it is right."""
        ended = subprocess.run(
            [self.path, "-l", "-p", "-"], input=script, capture_output=True, text=True, check=False
        )
        globals_made = GLOBAL.findall(ended.stdout)
        return ended.stderr or (f"it writes the globals {', '.join(globals_made)}" if globals_made else "")


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    path = shutil.which("luac5.1")
    return Compiler(path or missing("luac5.1", "apt-get install lua5.1, or make servers"))


@pytest.mark.parametrize(("package", "name"), SCRIPTS)
def test_a_script_compiles(compiler: Compiler, package: str, name: str) -> None:
    script = assembled(package, name)

    assert compiler.complaint(script) == ""
    assert "--include" not in script


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ("local a = = 1", "near '='"),
        ("found = 1", "the globals found"),
        ("for i = 1, 2 do", "'end' expected"),
    ],
)
def test_a_script_that_is_wrong_is_found(compiler: Compiler, wrong: str, complaint: str) -> None:
    assert complaint in compiler.complaint(wrong)


def test_what_others_include_is_no_script() -> None:
    assert "entries/claim" in script_names("history.redis")
    assert "shared/head" not in script_names("history.redis")
    assert "shared/common" not in script_names("triggers.providers.redis_streams")


def test_the_names_of_all_scripts_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main([])

    assert capsys.readouterr().out.split() == script_names("history.redis")


def test_an_assembled_script_is_printed() -> None:
    command = [sys.executable, "-m", "history.redis.assembly"]
    options = ["--package", "triggers.providers.redis_streams", "reclaim"]

    printed = subprocess.run([*command, *options], check=True, capture_output=True, text=True).stdout

    assert printed == assembled("triggers.providers.redis_streams", "reclaim")
    assert "deliver_later_ones" in printed


def test_a_script_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"history.redis has no lua/entries/clam.lua; list them"):
        assembled("history.redis", "entries/clam")
