"""If a user's file has the name of a package of doubtless, the error names it and asks to rename it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

APP = """
from triggers import trigger

@trigger("orders", name="t", history=None)
def work(body): ...
"""


def run(folder: Path, *arguments: str) -> str:
    """Run Python in a folder. It must fail; return the last line of its standard error."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("name", ["history", "resolvers"])
def test_a_script_beside_one_is_told_what_to_rename(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "app.py").write_text(APP)

    said = run(tmp_path, "app.py")

    assert f"{name}.py has the name of a package of doubtless" in said
    assert f"rename it, such as to my_{name}.py" in said


@pytest.mark.parametrize("module", ["triggers", "app"])
def test_run_blames_it_for_what_it_cannot_import(tmp_path: Path, module: str) -> None:
    (tmp_path / "triggers.py").write_text(APP)
    (tmp_path / "app.py").write_text("from triggers import work")

    # -P as in the console script: Python does not search the current folder at its start.
    said = run(tmp_path, "-P", "-m", "triggers.cli", "run", module)

    assert said.startswith("error: MODULE: ")
    assert "triggers.py has the name of a package of doubtless" in said
    assert "rename it, such as to my_triggers.py" in said


def test_a_file_that_nobody_misses_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "history.py").write_text("")
    (tmp_path / "app.py").write_text(APP + "raise ValueError('mine')")

    assert "importing app raised ValueError: mine" in run(tmp_path, "-P", "-m", "triggers.cli", "run", "app")
