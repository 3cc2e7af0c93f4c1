"""The documentation site contains every page, and its builder knows the languages of all code blocks."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from tests import ROOT


@pytest.fixture(scope="module")
def site() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / ".ci"))  # where it finds the other one
    spec = importlib.util.spec_from_file_location("site_of_docs", ROOT / ".ci" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(ROOT / ".ci"))


@pytest.fixture(scope="module")
def packages(site: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    pages = tmp_path_factory.mktemp("pages")
    return {name: (pages / page).read_text(encoding="utf-8") for name, page in site.reference.write(pages)}


def pages_of(navigation: list[dict[str, Any]]) -> list[str]:
    pages: list[str] = []
    for group in navigation:
        for listed in group.values():
            pages += pages_of(cast("list[dict[str, Any]]", listed)) if isinstance(listed, list) else [listed]
    return pages


def test_every_page_is_in_the_navigation_once(site: ModuleType) -> None:
    pages = pages_of(site.navigation([("triggers", Path("docs/reference/triggers.md"))]))

    assert {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")} <= set(pages)
    assert len(pages) == len(set(pages))


def test_each_reader_has_a_tab(site: ModuleType) -> None:
    tabs = [tab for group in site.navigation([("doubtless", Path("doubtless.md"))]) for tab in group]

    assert tabs == ["Start", "Frameworks", "Brokers", "Databases", "Spark", "Operate", "Reference"]


def test_blocks_of_code_are_named_by_their_language_alone(site: ModuleType, tmp_path: Path) -> None:
    site.copy_pages(tmp_path / "pages")

    copied = [page.read_text(encoding="utf-8") for page in (tmp_path / "pages").rglob("*.md")]
    assert len(copied) > len(list((ROOT / "docs").rglob("*.md")))
    assert [
        line for text in copied for line in re.findall(r"^ *```\w+ (?!title=).*$", text, re.MULTILINE)
    ] == []


def test_a_block_of_code_shows_the_name_of_its_file(site: ModuleType, tmp_path: Path) -> None:
    site.copy_pages(tmp_path / "pages")

    home = (tmp_path / "pages" / "README.md").read_text(encoding="utf-8")
    assert '```python title="first.py"\n' in home
    assert "<!-- file:" not in home


def test_each_public_name_is_on_the_page_of_its_package(packages: dict[str, str]) -> None:
    for package, page in packages.items():
        names = set(importlib.import_module(package).__all__)
        assert names == set(re.findall(r"^## (\w+)$", page, re.MULTILINE)), package


def test_the_face_comes_first_and_begins_with_what_users_meet_first(packages: dict[str, str]) -> None:
    names = re.findall(r"^## (\w+)$", packages["doubtless"], re.MULTILINE)

    assert next(iter(packages)) == "doubtless"
    assert names[:6] == ["trigger", "Message", "Delivery", "Outcome", "Consumer", "Producer"]


def test_an_option_is_told_with_its_default_and_its_meaning(packages: dict[str, str]) -> None:
    page = packages["triggers"]

    assert "\n    max_delivery_count: int = 100,\n" in page
    assert re.search(r"^- `max_delivery_count`: \w+", page, re.MULTILINE)


def test_a_table_of_a_docstring_is_a_table(packages: dict[str, str]) -> None:
    assert (
        "| `spark` | duplicate detection for micro-batches of Spark |" in packages["doubtless"].splitlines()
    )
    assert [package for package, page in packages.items() if "====" in page] == []


def test_the_code_of_a_docstring_is_known_as_python(packages: dict[str, str]) -> None:
    assert "```python\nfrom doubtless import" in packages["doubtless"].partition("\n## ")[0]
    assert [package for package, page in packages.items() if "::\n" in page] == []


def test_what_only_python_needs_is_left_out(packages: dict[str, str]) -> None:
    for package, page in packages.items():
        assert re.findall(r"<class|:\w+:`| object at |``\w", page.replace("```", "")) == [], package
