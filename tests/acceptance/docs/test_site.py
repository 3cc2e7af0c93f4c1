"""The documentation as a site: every page is in it, and its blocks of code are known to the builder."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from tests import ROOT


@pytest.fixture(scope="module")
def site() -> ModuleType:
    """The program that builds it."""
    spec = importlib.util.spec_from_file_location("site_of_docs", ROOT / ".ci" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages_of(navigation: list[dict[str, Any]]) -> list[str]:
    pages: list[str] = []
    for group in navigation:
        for listed in group.values():
            if isinstance(listed, list):
                pages += [page for entry in cast("list[dict[str, str]]", listed) for page in entry.values()]
    return pages


def test_every_page_is_in_the_navigation_once(site: ModuleType) -> None:
    pages = pages_of(site.navigation())

    assert {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")} <= set(pages)
    assert len(pages) == len(set(pages))


def test_blocks_of_code_are_named_by_their_language_alone(site: ModuleType, tmp_path: Path) -> None:
    site.copy_pages(tmp_path / "pages")

    copied = [page.read_text(encoding="utf-8") for page in (tmp_path / "pages").rglob("*.md")]
    assert len(copied) > len(list((ROOT / "docs").rglob("*.md")))
    assert [line for text in copied for line in re.findall(r"^ *```\w+ .*$", text, re.MULTILINE)] == []
