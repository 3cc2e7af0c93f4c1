"""Each bug that is planted in production code fails the test that is named beside it."""

import subprocess
import sys

import pytest

from tests import ROOT
from tests.mutants.mutants import MUTANTS, Mutant


@pytest.mark.prove
@pytest.mark.parametrize("mutant", MUTANTS, ids=[f"{one.file}-{n}" for n, one in enumerate(MUTANTS, 1)])
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    command = [sys.executable, "-m", "tests.mutants.planting", *mutant]

    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ended.returncode == pytest.ExitCode.TESTS_FAILED, ended.stdout + ended.stderr


def test_each_test_that_finds_a_bug_can_be_collected() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-m", ""]
    command += {mutant.killer for mutant in MUTANTS}

    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ended.returncode == pytest.ExitCode.OK, ended.stdout + ended.stderr
