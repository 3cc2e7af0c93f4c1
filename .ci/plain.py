"""Fail if too many sentences of the documentation or of the code are hard to read.

It looks for patterns, so it is a reminder and not a judge. ``--list`` prints each sentence that it finds.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: The packages: their docstrings, comments and messages are checked.
CODE = ("history", "resolvers", "triggers")

#: The largest share of sentences that may be hard to read.
MOST = 0.015

#: Patterns that slow readers down, above all if English is not their first language.
PATTERNS = {
    "clause as subject": r"^(What|Who|Whoever|Whatever|Whichever|Of what|Of whom|How far)\b.*[^?]$",
    "is no X": r"\b(is|are|was|were) no (?!longer\b|more\b|less\b|need\b|way\b)\w+",
    "said or told of": r"\b(is|are|was|were|be) (said|told)\b|\b(told|tells?|says?|heard|asked) of\b",
    "for = because": r", for (a|an|the|then|it|they|there|what|this|that|nobody|whoever)\b"
    r" [^.]*\b(is|are|has|have|was|were)\b",
    "literary word": r"\b(anew|besides|henceforth|lest|thereof|whereof|whom|whose|in vain|all the same"
    r"|forthwith|by then|of late|from then on|mend(ed|s)?|at once)\b",
    "that one": r"\b(that one|the one that|those that|these have|of which|of whom|of its own|of one's own)\b",
    "stands for is": r"\b(stands?|stood|lies?) (in|at|there|beside|behind|still|where)\b",
    "trailing word": r"(, too|, also [^,.]+| alone| besides)[.:;]",
    "inverted": r"^(Of|Not without|To [a-z]+ [^,]* is)\b",
    "riddle verb": r"\b(hears?|lets? go|gives? way|gone through|is had|to be had|is asked|are asked)\b",
}
_COMPILED = {name: re.compile(pattern) for name, pattern in PATTERNS.items()}


def groups() -> Iterator[tuple[str, list[Path]]]:
    """Yield what users read, and what contributors read."""
    docs = sorted((ROOT / "docs").rglob("*.md"))
    yield "the documentation", [ROOT / "README.md", *docs, *sorted((ROOT / "doubtless").rglob("*.py"))]
    yield "the code", [file for package in CODE for file in sorted((ROOT / package).rglob("*.py"))]


def sentences_of(page: Path) -> Iterator[str]:
    """Yield the sentences of a page, or of a module's texts, of four words and more."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from _split(node.value)
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        yield from _split(
            " ".join(one.string.lstrip("#: ") for one in tokens if one.type == tokenize.COMMENT)
        )
        return
    text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
    for block in (block.strip() for block in re.split(r"\n\s*\n", text)):
        if block.startswith("|"):
            cells = [cell.strip() for line in block.split("\n") for cell in line.strip("|").split("|")]
            yield from (part for cell in cells if len(cell.split()) > 5 for part in _split(cell))  # noqa: PLR2004
        elif block and not block.startswith("#"):
            for item in re.split(r"\n(?=\s*- |\s*\d+\. )", block):
                yield from _split(re.sub(r"^\s*(- |\d+\. )", "", item))


def _split(text: str) -> Iterator[str]:
    parts = re.split(r"(?<=[.:;?!])\s+(?=[A-Za-z`\[*])", re.sub(r"\s+", " ", text))
    return (part for part in parts if len(part.split()) > 3)  # noqa: PLR2004


def main() -> int:
    """Print what was found; return the exit code."""
    return max([_look(name, pages) for name, pages in groups()])


def _look(group: str, pages: Iterable[Path]) -> int:
    sentences = [(page, sentence) for page in pages for sentence in sentences_of(page)]
    hard = [
        (page, name, sentence)
        for page, sentence in sentences
        for name in [next((name for name, look in _COMPILED.items() if look.search(sentence)), None)]
        if name is not None
    ]
    share = len(hard) / len(sentences)
    if "--list" in sys.argv or share > MOST:
        for page, name, sentence in hard:
            sys.stdout.write(f"{page.relative_to(ROOT)}: {name}: {sentence[:160]}\n")
    sys.stdout.write(
        f"{group}: {len(hard)} of {len(sentences)} sentences are hard to read: {share:.1%} of {MOST:.1%}\n"
    )
    return int(share > MOST)


if __name__ == "__main__":
    sys.exit(main())
