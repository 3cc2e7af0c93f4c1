"""The manual page matches the help of the commands, and programs that read such pages find no errors."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

PAGE = ROOT / "deploy" / "doubtless.1"


def test_the_page_is_that_of_the_commands() -> None:
    words: list[str | Path] = [sys.executable, ROOT / ".ci" / "manual.py", "--check"]

    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff on this machine")
def test_it_can_be_read() -> None:
    words: list[str | Path] = ["groff", "-man", "-Tutf8", "-ww", "-P-cbou", PAGE]

    ended = subprocess.run(words, capture_output=True, text=True, check=True)

    assert ended.stderr == ""
    assert "doubtless backlog MODULE" in ended.stdout
