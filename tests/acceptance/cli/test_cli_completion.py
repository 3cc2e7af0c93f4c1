"""Completion by the Tab key, as each shell asks for it, which is given what ``--show-completion`` prints."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.needed import missing
from tests.fixtures.waiting import patiently

#: What each shell does when Tab is pressed after the words that it is given.
PRESSED = {
    "bash": """
        eval "$(doubtless --show-completion)"
        words=("$@") last=$(($# - 1))
        COMP_WORDS=("${words[@]}") COMP_CWORD=$last
        read -r -a bound <<<"$(complete -p doubtless)"
        "${bound[-2]}" doubtless "${words[last]}" "${words[last - 1]}"
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "zsh": """
        compdef() { bound=$1 }
        _arguments() { print -r -- ${(Q)${(z)${@#\\*: :\\(\\(}%\\)\\)}} }
        _files() { }
        eval "$(doubtless --show-completion)"
        words=("$@") CURRENT=$#
        $bound
    """,
    "fish": """
        doubtless --show-completion | source
        complete --do-complete "$argv"
    """,
}


def press_tab(shell: str, folder: Path, *words: str) -> list[str]:
    """Return what ``shell`` would offer after these words, of which the last is not finished."""
    if shutil.which(shell) is None:
        missing(shell, f"apt-get install {shell}")
    programs = Path(sys.executable).parent
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    program = [shell, "-c", PRESSED[shell], *([] if shell == "fish" else [shell]), *words]
    with subprocess.Popen(
        program,
        cwd=folder,
        env={**os.environ, "PATH": path, "HOME": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        out, _ = patiently(lambda seconds: process.communicate(timeout=seconds))
    return [word for line in out.splitlines() for word in line.split(":")[0].split()[:1]]


@pytest.mark.parametrize("shell", PRESSED)
def test_tab_completes_a_command_and_one_below_it(shell: str, tmp_path: Path) -> None:
    assert press_tab(shell, tmp_path, "doubtless", "par") == ["parked"]
    assert press_tab(shell, tmp_path, "doubtless", "parked", "li") == ["list"]


@pytest.mark.parametrize("shell", PRESSED)
def test_tab_completes_an_option_of_a_command(shell: str, tmp_path: Path) -> None:
    assert press_tab(shell, tmp_path, "doubtless", "parked", "list", "--hist") == ["--history"]
