"""Clones of a process meet one message. They are forks of one parent, and each is process 1."""

import subprocess
import sys
from pathlib import Path

from tests.fixtures.waiting import PATIENCE


def test_a_message_that_two_clones_get_runs_once(history_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "effects"
    folder.mkdir()
    clones = [sys.executable, "-m", "tests.integration.processes.clones", history_url, str(folder)]

    told = subprocess.run(clones, check=True, capture_output=True, text=True, timeout=PATIENCE)

    assert sorted(told.stdout.split("\n")) == ["", "IN_DOUBT False", "NEW True"], told.stderr
    assert len(list(folder.glob("effect *"))) == 1
