"""README and docs: their code runs, their commands print what they show, their links lead somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests import ROOT
from tests.acceptance.docs.pages import (
    ENOUGH,
    READERS_REDIS,
    Block,
    blocks,
    follow,
    in_path,
    pages,
    program,
    typed,
)
from tests.fixtures.servers.spark import LONGEST, SPARK_PROCESSES, need_spark

PAGES = pages()


def pages_with(kind: str) -> list[Path]:
    return [page for page in PAGES if any(block.kind == kind for block in blocks(page))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def proved(page: Path) -> ParameterSet:
    """Test a page only in ``make prove``, because each page starts one or more processes."""
    marks = [pytest.mark.prove]
    if is_about_spark(page):
        marks += [SPARK_PROCESSES, pytest.mark.timeout(LONGEST)]
    return pytest.param(page, id=name_of(page), marks=marks)


def is_about_spark(page: Path) -> bool:
    return page.name.startswith("spark-")


def proved_but_readme(page: Path) -> ParameterSet:
    """Test README in each run, and all other pages only in ``make prove``."""
    return pytest.param(page, id=name_of(page)) if page.name == "README.md" else proved(page)


@pytest.mark.parametrize("page", [proved_but_readme(page) for page in pages_with("python")])
def test_the_python_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path, redis_url: str) -> None:
    source = program(page, "python").replace(READERS_REDIS, redis_url)
    script = tmp_path / "blocks_of_a_page.py"
    script.write_text(source, encoding="utf-8")

    ended = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=ENOUGH,
    )

    assert ended.returncode == 0, ended.stderr
    assert "Warning" not in ended.stderr


@pytest.mark.parametrize("page", pages_with("python no-run"), ids=name_of)
def test_the_python_blocks_that_are_not_run_compile(page: Path) -> None:
    for block in blocks(page):
        if block.kind == "python no-run":
            compile("\n".join(block.lines), name_of(page), "exec")


@pytest.mark.parametrize("page", pages_with("python no-run"), ids=name_of)
def test_readers_are_told_why_no_test_runs_a_block(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    of_the_page = _says_why(" ".join(text.partition("\n## ")[0].split()), "blocks", "examples of this page")

    silent = [
        block.line
        for block in blocks(page)
        if block.kind == "python no-run"
        and not of_the_page
        and not _says_why(_paragraph_before(text, block), "block", "example")
    ]

    assert silent == []


def _says_why(text: str, block: str, example: str) -> bool:
    phrases = rf"No test runs (this|the) {block}\b|own tests do not run (this|the) {example}\b"
    return re.search(phrases, text) is not None


def _paragraph_before(text: str, block: Block) -> str:
    before = "\n".join(text.splitlines()[: block.line - 2]).rstrip()
    return " ".join(before.rpartition("\n\n")[2].split())


@pytest.mark.parametrize("page", pages_with("python file"), ids=name_of)
def test_a_file_of_a_page_is_used_by_its_commands(page: Path) -> None:
    files = {block.file: block for block in blocks(page) if block.kind == "python file"}
    commands = " ".join(
        shown for block in blocks(page) if block.kind == "console" for shown, _ in typed(block)
    )
    texts = {file: " ".join(block.lines) for file, block in files.items()}

    unused = [
        file
        for file in files
        if file is None
        or not any(
            Path(file).stem in text
            for text in (commands, *(text for name, text in texts.items() if name != file))
        )
    ]

    assert unused == []


def test_every_block_of_a_page_about_guards_runs() -> None:
    guards = {ROOT / "docs" / "how-to" / "protect-your-own-code.md", *ROOT.glob("docs/how-to/guard-*.md")}

    assert guards <= set(pages_with("python"))
    assert not guards & set(pages_with("python no-run"))


@pytest.mark.parametrize("page", [proved(page) for page in pages_with("console")])
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path, redis_url: str) -> None:
    if is_about_spark(page):
        need_spark()
    environment = {**os.environ, "PATH": in_path(Path(sys.executable).parent)}

    follow(page, tmp_path, redis_url, {**environment, "XDG_STATE_HOME": str(tmp_path / "state")})


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("examples/*/README.md")], ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]

    missing = [link for link in links if not _leads_somewhere(page, link)]

    assert missing == []


def _leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = page if not name else (page.parent / name).resolve()
    if not target.exists():
        return False
    return not anchor or anchor in _anchors(target)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_reached_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"

    linked = {(index.parent / link).resolve() for link in re.findall(r"\]\(([^)#]+)", index.read_text())}

    assert {page for page in PAGES if page.is_relative_to(ROOT / "docs")} - linked == {index}
