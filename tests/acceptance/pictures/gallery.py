"""The page of the documentation that shows all pictures, and the names of their files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from tests import ROOT

Scheme = Literal["light", "dark"]

#: Where the documentation has its pictures, and the page that shows them.
FOLDER, PAGE = ROOT / "docs" / "images" / "dashboard", ROOT / "docs" / "dashboard-pictures.md"

SCHEMES: tuple[Scheme, ...] = ("light", "dark")

#: The widths of the windows in pixels, and the devices with such a window.
WIDTHS = {1600: "a large screen", 1024: "a tablet", 390: "a phone"}

#: The pages, and the contents of their pictures.
TITLES = {
    "overview": "Overview: what goes wrong now, the triggers, and charts",
    "desk": "Parked messages: groups of one cause",
    "desk-by-host": "Parked messages by host: what each worker held",
    "group": "A group of messages with one cause",
    "message": "A message In Doubt: the question, three answers, and what is known",
    "preview": "The page that asks before many messages run",
    "progress": "The progress of a decision",
    "decisions": "Decisions: who decided what, and why",
    "failures": "Failures: how many, their causes, and the journal",
    "triggers": "Triggers: their states and consumers",
    "trigger": "A trigger: its consumers, charts, counts and settings",
    "providers": "Providers: what waits there",
    "spark": "Spark: the last batch of each query",
    "query": "The batches of a query",
    "security": "Security: who signed in, saw a body or decided",
    "why": "Why? The story of a message",
}

HEAD = """\
# Pictures of the dashboard

These are all pages of the [dashboard](how-to/use-the-dashboard.md) of a small shop: on a large screen, a
tablet and a phone, light and dark. Very long pages are cut. `python -m tests.acceptance.pictures` makes the
pictures.
"""


def file_of(name: str, width: int, scheme: Scheme) -> str:
    return f"{name}-{width}-{scheme}.webp"


def gallery() -> str:
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    for name, title in TITLES.items():
        yield f"## {title.partition(':')[0].partition('?')[0]}\n"
        yield f"{title}.\n" if ":" in title or "?" in title else ""
        for width, screen in WIDTHS.items():
            shown = (_shown(name, width, screen, scheme) for scheme in SCHEMES)
            yield f"| {screen}, light | {screen}, dark |\n|---|---|\n| {' | '.join(shown)} |\n"


def _shown(name: str, width: int, screen: str, scheme: Scheme) -> str:
    picture = (Path("images") / "dashboard" / file_of(name, width, scheme)).as_posix()
    return f"[![{name} on {screen}, {scheme}]({picture})]({picture})"
