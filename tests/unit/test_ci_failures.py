"""CI runs failed tests once more; it reads their names from pytest's output."""

import subprocess
import sys
from pathlib import Path

from tests import ROOT

PRINTED = """\
FAILED tests/unit/test_before.py::test_of_an_earlier_run
=========================== short test summary info ============================
FAILED tests/unit/test_x.py::test_one - AssertionError: assert 1 == 2
FAILED tests/unit/test_x.py::TestAll::test_a_case[a b-c@d]@spark-edges - Failed: DID NOT RAISE
  and what it says goes on - here
ERROR tests/unit/test_y.py::test_two
ERROR tests/unit/test_y.py::test_two - RuntimeError: in its teardown, too
============ 3 failed, 10072 passed, 24 skipped in 832.76s (0:13:52) ============
make: *** [Makefile:42: test] Error 1
"""


def failures(printed: str, folder: Path) -> list[str]:
    file = folder / "printed"
    file.write_text(printed, encoding="utf-8")
    words = [sys.executable, str(ROOT / ".ci" / "failures.py"), str(file)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()


def test_each_failure_is_named_once_without_its_group(tmp_path: Path) -> None:
    assert failures(PRINTED, tmp_path) == [
        "tests/unit/test_x.py::test_one",
        "tests/unit/test_x.py::TestAll::test_a_case[a b-c@d]",
        "tests/unit/test_y.py::test_two",
    ]


def test_where_nothing_is_listed_there_is_nothing_to_run_again(tmp_path: Path) -> None:
    assert failures("make: *** No rule to make target 'tests'.  Stop.\n", tmp_path) == []
