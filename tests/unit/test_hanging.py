"""A test that hangs or dies fails by itself, in a real run of pytest with workers."""

import subprocess
import sys
from pathlib import Path

from tests import ROOT

_CONFTEST = """
import pytest

from tests.fixtures import hanging

pytest_plugins = ["tests.fixtures.hanging"]
hanging.ENDING = 0.0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.timeout(300), append="hangs" not in item.name)
        if "hangs" in item.name:
            item.add_marker(pytest.mark.timeout(0.1), append=False)
"""

_TESTS = """
import os
import signal
import time

import pytest


@pytest.mark.parametrize("number", range(20))
def test_it_passes(number):
    pass


def test_it_hangs():
    while True:
        try:
            time.sleep(0.1)
        except BaseException:
            pass


@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(4))
def test_it_dies_before_the_last(number):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_all_tests_run_once_although_one_hangs_and_one_dies(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_some.py").write_text(_TESTS)

    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(tmp_path), str(tmp_path)]
    run = subprocess.run(
        [*command, "-n1", "--dist=loadgroup", "-rfEp"],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.stdout.count("PASSED ") == 23, run.stdout
    assert run.stdout.count("FAILED ") == 2, run.stdout
    assert "in test_it_hangs" in run.stderr
