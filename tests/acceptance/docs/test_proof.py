"""docs/proof.md lists exactly the planted bugs and the retold tickets that exist."""

import ast
from collections import Counter

from tests import ROOT
from tests.acceptance.docs.test_reference import page, rows
from tests.mutants.mutants import MUTANTS

TICKETS = ROOT / "tests" / "scenarios" / "test_tickets_of_others.py"


def listed(heading: str) -> list[list[str]]:
    """Return the rows of the table below a heading, without its head."""
    section = page("docs/proof.md").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return list(rows(section))[2:]


def test_the_planted_bugs_are_counted_by_file() -> None:
    planted = Counter(mutant.file for mutant in MUTANTS)
    found_by = {
        file: sorted({f"`{one.killer.partition('::')[0]}`" for one in MUTANTS if one.file == file})
        for file in planted
    }

    assert listed("Planted bugs") == [
        [f"`{file}`", str(planted[file]), ", ".join(found_by[file])] for file in sorted(planted)
    ]


def test_each_ticket_is_listed_in_the_words_of_its_test() -> None:
    tests = [one for one in ast.parse(TICKETS.read_text(encoding="utf-8")).body if hasattr(one, "name")]
    told = {
        one.name.removeprefix("test_"): (ast.get_docstring(one) or "").partition("\n")[0].strip()
        for one in tests
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_")
    }

    assert {name.strip("`"): words for name, words in listed("Tickets of others")} == told
