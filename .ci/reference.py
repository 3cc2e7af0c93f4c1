"""Write a page for each package, with its public names and their docstrings; ``site.py`` shows the pages."""

import ast
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

#: The face that users import from, and the packages behind it.
FACE, ROOTS = "doubtless", ("triggers", "history", "resolvers")

#: Users meet these names first; the other names of a page follow in alphabetical order.
FIRST = ("trigger", "Message", "Delivery", "Outcome", "Consumer", "Producer")

#: Where the pages are, in the site.
FOLDER = Path("docs", "reference")

#: In docstrings: code, roles, the sections that ours have, and what such a section lists.
CODE, ROLE = re.compile("``(.+?)``", re.DOTALL), re.compile(r":\w+:`~?(?:[\w.]*\.)?(\w+)`")
SECTION = re.compile(r"^(Args|Raises|Returns|Yields):$")
LISTED = re.compile(r"^    (\S.*?): (.*)$")

#: An indented block in what became of a docstring.
INDENTED = re.compile(r"(?:^ {4}.*\n?(?:\n(?= {4}))*)+", re.MULTILINE)

#: A path before a name that says for itself what it is; what memory address an object has, no reader needs.
PATHS = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z~])")
ADDRESS = re.compile(r"<(?:class '([\w.]+)'|(\S+) object at \w+)>")

#: A signature that is longer has a line for each parameter.
WIDTH = 88


def packages() -> Iterator[ModuleType]:
    """Yield the face, then the packages that have public names, outer ones first."""
    yield import_module(FACE)
    for root in map(import_module, ROOTS):
        inner = pkgutil.walk_packages(root.__path__, f"{root.__name__}.")
        for package in [root, *(import_module(found.name) for found in inner if found.ispkg)]:
            if getattr(package, "__all__", None):
                yield package


def page(package: ModuleType) -> str:
    """Return the page of a package."""
    parts = [f"# {package.__name__}", prose(inspect.getdoc(package) or "")]
    for name in sorted(package.__all__, key=_place):
        parts += named(name, getattr(package, name))
    return "\n\n".join(part for part in parts if part) + "\n"


def _place(name: str) -> tuple[int, str]:
    return FIRST.index(name) if name in FIRST else len(FIRST), name.casefold()


def named(name: str, value: Any) -> Iterator[str]:
    """Yield the parts of one name: what it is, what its docstring says, and its methods."""
    yield f"## {name}"
    if isinstance(value, type):
        yield members(value) if issubclass(value, Enum) else signature(name, value)
        yield prose(inspect.getdoc(value) or "")
        for method, function in methods(value):
            yield f"### {name}.{method}"
            yield signature(method, function)
            yield prose(inspect.getdoc(function) or "")
    elif inspect.ismodule(value):
        yield prose(inspect.getdoc(value) or "")
    elif inspect.isroutine(value):
        yield signature(name, value)
        yield prose(inspect.getdoc(value) or "")
    else:
        yield fenced(f"{name} = {plain(repr(value))}")


def members(kind: type[Enum]) -> str:
    """Return the members of an enumeration, as a block of code."""
    return fenced(
        "\n".join(f"{kind.__name__}.{member.name} = {plain(repr(member.value))}" for member in kind)
    )


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that a class has in its own body, and that say what they do."""
    for name, found in vars(kind).items():
        member = found.__func__ if isinstance(found, classmethod | staticmethod) else found
        if (
            not name.startswith("_")
            and inspect.getdoc(member)
            and (inspect.isfunction(member) or isinstance(member, property))
        ):
            yield name, member


def signature(name: str, value: Any) -> str:
    """Return how it is called, as a block of code; nothing of a property."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = list(found.parameters.values())
    if parameters and parameters[0].name in {"self", "cls"}:
        found = found.replace(parameters=parameters[1:])
    if isinstance(value, type):
        found = found.replace(return_annotation=inspect.Signature.empty)
    line = plain(f"{name}{found}")
    if len(line) > WIDTH and found.parameters:
        line = plain("\n".join([f"{name}(", *(f"    {one}," for one in _each(found)), ")"]))
    return fenced(line)


def _each(found: inspect.Signature) -> Iterator[str]:
    star = False
    for parameter in found.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            star = True
            yield "*"
        star = star or parameter.kind is parameter.VAR_POSITIONAL
        yield str(parameter)


def plain(text: str) -> str:
    """Leave out what only Python needs: the modules of names, and addresses."""
    return PATHS.sub("", ADDRESS.sub(lambda found: found[1] or f"{found[2]}()", text))


def fenced(code: str) -> str:
    """Return a block of code."""
    return f"```python\n{code}\n```"


def prose(text: str) -> str:
    """Return a docstring as Markdown."""
    text = ROLE.sub(r"`\1`", CODE.sub(lambda found: f"`{' '.join(found[1].split())}`", text))
    return INDENTED.sub(_highlighted, "\n".join(_lines(text.splitlines())).replace("::\n", ":\n"))


def _highlighted(indented: re.Match[str]) -> str:
    """Return an indented block; as a block of Python, if it is one."""
    code = dedent(indented[0]).strip()
    return f"{fenced(code)}\n" if _is_python(code) else indented[0]


def _is_python(code: str) -> bool:
    try:
        return bool(ast.parse(code).body)
    except SyntaxError:
        return False


def _lines(lines: Sequence[str]) -> Iterator[str]:
    inside = False
    table: list[str] = []
    for line in [*lines, ""]:
        if line.startswith("===") or (table and line):
            table.append(line)
            continue
        if table:
            yield from _table(table)
            table = []
        if found := SECTION.match(line):
            inside = True
            yield f"**{found[1]}**\n"
        elif inside and (listed := LISTED.match(line)):
            yield f"- `{listed[1]}`: {listed[2]}"
        elif inside and line and not line.startswith("    "):
            inside = False
            yield line
        else:
            yield line.strip() if inside else line


def _table(lines: Sequence[str]) -> Iterator[str]:
    """Yield a table as Markdown has it. If it has a rule in the middle, its first row is its head."""
    columns = len(lines[0].split())
    rows: list[list[str]] = []
    for line in lines:
        if line.startswith(" ") and rows:
            rows[-1][-1] += f" {line.strip()}"
        elif not line.startswith("==="):
            cells = re.split(r" {2,}", line.replace("|", r"\|"), maxsplit=columns - 1)
            rows.append(cells + [""] * (columns - len(cells)))
    head = rows.pop(0) if sum(line.startswith("===") for line in lines) > 2 else [""] * columns  # noqa: PLR2004
    for row in [head, ["---"] * columns, *rows]:
        yield f"| {' | '.join(row)} |"


def write(pages: Path) -> list[tuple[str, Path]]:
    """Write all pages below a folder; return the packages' names, and their pages there."""
    written: list[tuple[str, Path]] = []
    (pages / FOLDER).mkdir(parents=True, exist_ok=True)
    for package in packages():
        file = FOLDER / f"{package.__name__}.md"
        (pages / file).write_text(page(package), encoding="utf-8")
        written.append((package.__name__, file))
    return written


if __name__ == "__main__":
    sys.stdout.write("\n".join(f"{name}\t{file}" for name, file in write(Path(sys.argv[1]))) + "\n")
