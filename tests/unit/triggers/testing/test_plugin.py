"""The pytest plugin, as a user's pytest loads it: in a separate process and folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

pytestmark = pytest.mark.slow

_TEST = """
from triggers import Message, trigger
from triggers.testing import exactly_once


def test_a_booking(simulator):
    ledger = simulator.effects()

    @trigger("orders", name="book", in_doubt="execute")
    def book(order: dict):
        ledger.record(order["id"])

    report = exactly_once(book, [Message(body={"id": "N-1"}, uuid="order-1")], effects=ledger)
    assert report.never_twice and report.none_lost
"""


def run_pytest(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "doubtless.pytest_plugin"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    ended = subprocess.run(
        [*command, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return ended.stdout + ended.stderr


def test_a_failure_shows_the_script_and_the_seed(tmp_path: Path) -> None:
    (tmp_path / "test_book.py").write_text(_TEST)

    shown = run_pytest(tmp_path, "--doubtless-seed=41")

    assert "1 failed" in shown
    assert "DOUBLED: N-1: 2 times instead of 1" in shown
    assert "--doubtless-seed=41" in shown
    assert "row 10: an earlier run did not finish" in shown


def test_a_finding_that_the_test_does_not_check_fails_it(tmp_path: Path) -> None:
    checked = "    assert report.never_twice and report.none_lost\n"
    assert checked in _TEST
    (tmp_path / "test_book.py").write_text(_TEST.replace(checked, ""))
    (tmp_path / "test_looks.py").write_text(_TEST.replace(checked, "    assert not report.never_twice\n"))
    (tmp_path / "test_fine.py").write_text(_TEST.replace(checked, "").replace(', in_doubt="execute"', ""))

    shown = run_pytest(tmp_path)

    assert "1 failed, 2 passed" in shown
    assert "FAILED test_book.py" in shown
    assert "DOUBLED: N-1: 2 times instead of 1" in shown


def test_a_finding_before_a_subtest_that_passes_still_fails_its_test(tmp_path: Path) -> None:
    checked = "    assert report.never_twice and report.none_lost\n"
    # This is how pytest reports a subtest; its own fixture for subtests is not in all versions.
    subtest = "    reported(item=node, call=pytest.CallInfo.from_call(lambda: None, 'call'))\n"
    assert checked in _TEST
    (tmp_path / "test_book.py").write_text(
        "import pytest\n"
        + _TEST.replace("(simulator):", "(simulator, request):").replace(
            checked,
            f"    node, reported = request.node, request.node.ihook.pytest_runtest_makereport\n{subtest}",
        )
    )

    shown = run_pytest(tmp_path)

    assert "1 failed" in shown
    assert "DOUBLED: N-1: 2 times instead of 1" in shown


def test_a_service_without_the_bug_passes(tmp_path: Path) -> None:
    (tmp_path / "test_book.py").write_text(_TEST.replace(', in_doubt="execute"', ""))

    assert "1 passed" in run_pytest(tmp_path)
