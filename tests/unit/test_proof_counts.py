"""`make prove` prints and writes counts by kind of proof."""

from pathlib import Path
from typing import Any, cast

import pytest

from tests import ROOT
from tests.fixtures.proof import BEGIN, END, KINDS, OTHERS, Proof, kind_of, with_table

PAGE = f"# Proof\n\n{BEGIN}\n\nold\n\n{END}\n\nmore\n"


def ended(nodeid: str, outcome: Any = "passed", **numbers: int) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid, ("", 0, ""), {}, outcome, None, "call", user_properties=list(numbers.items())
    )


class Terminal:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def section(self, title: str) -> None:
        self.lines.append(title)

    def line(self, text: str) -> None:
        self.lines.append(text)


def printed(proof: Proof) -> list[str]:
    terminal = Terminal()
    proof.pytest_terminal_summary(cast("Any", terminal))
    return terminal.lines


def test_what_tests_counted_is_added_up_by_kind(tmp_path: Path) -> None:
    page = tmp_path / "proof.md"
    page.write_text(PAGE)
    proof = Proof(page)
    for number in (1000, 500):
        proof.pytest_runtest_logreport(ended("tests/crash/test_soak.py::test_one", messages=number, kills=2))
    proof.pytest_runtest_logreport(ended("tests/mutants/test_mutants.py::test_bug"))

    lines = printed(proof)

    assert "| killed processes and soaks | 2 | 0 | 4 kills, 1,500 messages |" in lines
    assert "| planted bugs | 1 | 0 |  |" in lines
    assert page.read_text() == with_table(PAGE, lines[1:-1])


def test_the_page_stays_as_it_is_after_a_failure(tmp_path: Path) -> None:
    page = tmp_path / "proof.md"
    page.write_text(PAGE)
    proof = Proof(page)
    proof.pytest_runtest_logreport(ended("tests/crash/test_soak.py::test_one", "failed"))

    assert "| killed processes and soaks | 1 | 1 |  |" in printed(proof)
    assert page.read_text() == PAGE


def test_a_table_is_put_between_the_marks_and_nowhere_else() -> None:
    once = with_table(PAGE, ["| new |"])

    assert once == f"# Proof\n\n{BEGIN}\n\n| new |\n\n{END}\n\nmore\n"
    assert with_table(once, ["| new |"]) == once
    with pytest.raises(ValueError, match="must have the lines"):
        with_table("# Proof", [])


def test_each_place_of_a_kind_is_there() -> None:
    for places in KINDS.values():
        for place in places:
            folder, _, beginning = place.rpartition("/")
            assert list((ROOT / folder).glob(f"{beginning}*")), place


def test_a_test_belongs_to_the_first_kind_that_names_its_place() -> None:
    assert kind_of("tests/crash/test_chaos.py::test_it[x]") == "bad days of servers"
    assert kind_of("tests/crash/test_matrix.py::test_it") == "killed processes and soaks"
    assert kind_of("tests/acceptance/test_demo.py::test_it") == OTHERS
