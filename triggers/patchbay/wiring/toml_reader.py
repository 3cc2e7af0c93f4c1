"""From files to a :class:`~triggers.patchbay.PatchBayFile`: read, merged in order, and checked."""

import logging
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from history.errors import ConfigurationError
from triggers.patchbay.wiring.checks import check, lasting_anyway, weak_places
from triggers.patchbay.wiring.model import PatchBayFile
from triggers.patchbay.wiring.xml_reader import Converted, combined, from_xml, guess_notes

_log = logging.getLogger(__name__)

#: The parts of a file that are lists, and are joined when files are merged.
_LISTS = ("source", "sink", "filter", "message")

#: A step into a file: a key, or a place in an array of tables.
Step = str | int

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")

_KEY = re.compile(r"""\s*(?:"([^"]+)"|'([^']+)'|([A-Za-z0-9_-]+))\s*=""")


def line_of(text: str, path: Sequence[Step]) -> int | None:
    """Return the number, from 1, of the line that matches ``path`` best; None if no line does.

    The parser of the standard library does not report it. This reads headers and keys as they are usually
    written; for other spellings the result is the header above.
    """
    lines = _lines_of(text)
    return next(
        (lines[reached] for end in range(len(path), 0, -1) if (reached := tuple(path[:end])) in lines), None
    )


@lru_cache(maxsize=8)
def _lines_of(text: str) -> Mapping[tuple[Step, ...], int]:
    """Return the first line of each table and key."""
    lines: dict[tuple[Step, ...], int] = {}
    table: list[Step] = []
    counts: dict[tuple[Step, ...], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header:
            table = _entered(counts, header[2], repeated=header[1] == "[[")
            lines.setdefault(tuple(table), number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, next(filter(None, key.groups()))), number)
    return lines


def _entered(counts: dict[tuple[Step, ...], int], name: str, *, repeated: bool) -> list[Step]:
    """Return the path of the table that a header begins; repeated tables around it are the last ones."""
    path: list[Step] = []
    parts = [part.strip().strip("\"'") for part in name.split(".")]
    for index, part in enumerate(parts):
        path.append(part)
        key = tuple(path)
        if repeated and index == len(parts) - 1:
            counts[key] = counts.get(key, -1) + 1
            for other in [path for path in counts if len(path) > len(key) and path[: len(key)] == key]:
                del counts[other]
        if key in counts:
            path.append(counts[key])
    return path


@dataclass(frozen=True, slots=True)
class _Page:
    """One file: its content and its text; ``xml`` is the converted form of an XML file."""

    file: Path
    text: str
    raw: Mapping[str, Any]
    xml: Converted | None = None

    def where(self, path: Sequence[Step]) -> str:
        """Return the place of a key, for an error: file, line and key."""
        line = line_of(self.text, path) if self.file.suffix == ".toml" else None
        key = ".".join(map(str, path))
        return f"{self.file}{'' if line is None else f', line {line}'}{key and f', {key}'}"


def read_patchbay(*files: Path | str) -> PatchBayFile:
    """Read TOML files (``.toml``) and files of ATG (``.xml``), and merge them in this order.

    Sources, sinks, filters and message types are joined; for other keys the last file decides. A warning is
    logged for each part of an XML file that is not converted.

    Raises:
        ConfigurationError: naming file, line and key of what is wrong, and the remedy.
    """
    patchbay, notes = read_with_notes(*files)
    for note in notes:
        _log.warning("%s", note)
    return patchbay


def read_with_notes(*files: Path | str) -> tuple[PatchBayFile, Sequence[str]]:
    """Read like :func:`read_patchbay`, and return the warnings that it would log.

    Raises:
        ConfigurationError: the same as :func:`read_patchbay`.
    """
    if not files:
        raise ConfigurationError("files", "there is none", "name the file with the wiring")
    return _checked(_whole([_read(Path(file)) for file in files]))


def read_text(text: str, name: str) -> tuple[PatchBayFile, Sequence[str]]:
    """Read the text of one TOML file like :func:`read_with_notes`; ``name`` is for errors.

    Raises:
        ConfigurationError: the same as :func:`read_patchbay`.
    """
    return _checked([_Page(Path(name), text, tomllib.loads(text))])


def _checked(pages: Sequence[_Page]) -> tuple[PatchBayFile, Sequence[str]]:
    for page in pages:
        _validated(page)
    merged = PatchBayFile.model_validate(_merge(pages))
    _refuse_twins(pages)
    check(merged)
    return merged, [
        *_notes(pages, merged.patchbay.default_provider),
        *lasting_anyway(merged),
        *weak_places(merged),
    ]


def _read(file: Path) -> _Page:
    try:
        text = file.read_text("utf-8-sig")  # with or without the byte order mark of Windows editors
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(str(file), f"cannot be read: {error}", "name a readable file") from error
    if file.suffix == ".xml":
        page = from_xml(text, str(file))
        return _Page(file, text, page.raw, page)
    try:
        return _Page(file, text, tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(str(file), f"is not valid TOML: {error}", "correct that line") from error


def _whole(pages: Sequence[_Page]) -> Sequence[_Page]:
    """Return the pages with each component of the XML files whole."""
    files = iter(combined([page.xml for page in pages if page.xml is not None]))
    return [page if page.xml is None else _of_xml(page, next(files)) for page in pages]


def _of_xml(page: _Page, converted: Converted) -> _Page:
    return replace(page, raw=converted.raw, xml=converted)


def _notes(pages: Sequence[_Page], default: str | None) -> Sequence[str]:
    """Return what was left out of the XML files, and which providers have a presumed place."""
    said = {name for page in pages for name in page.raw.get("providers", {})}
    notes = [note for page in pages if page.xml is not None for note in page.xml.notes]
    return [*notes, *guess_notes(_guesses(pages, default), said)]


def _guesses(pages: Sequence[_Page], default: str | None) -> dict[str, str]:
    """Return where the built-in providers of the XML files are presumed."""
    guesses: dict[str, str] = {}
    for page in pages:
        guesses |= {} if page.xml is None else page.xml.guesses(default)
    return guesses


def _validated(page: _Page) -> PatchBayFile:
    try:
        return PatchBayFile.model_validate(page.raw)
    except ValidationError as error:
        mistake = error.errors(include_url=False, include_input=False, include_context=False)[0]
        problem, remedy = _explained(mistake["type"], mistake["msg"])
        raise ConfigurationError(page.where(mistake["loc"]), problem, remedy) from error


def _explained(error_type: str, text: str) -> tuple[str, str]:
    """Return problem and remedy; our own texts contain theirs."""
    problem, _, remedy = text.partition("; ")
    if remedy:
        return problem, remedy
    match error_type:
        case "extra_forbidden":
            return "is an unknown key", "correct the name, or remove it; docs/how-to/wire-with-patch-bay.md"
        case "missing":
            return "is missing", "add it"
        case _:
            return text[:1].lower() + text[1:], "correct it"


def _merge(pages: Sequence[_Page]) -> dict[str, Any]:
    merged: dict[str, Any] = {"patchbay": {}}
    # The default provider of XML files is ATG's own, not named in them: any TOML file has precedence.
    for page in sorted(pages, key=lambda page: page.xml is None):
        merged["patchbay"] |= cast("dict[str, Any]", page.raw.get("patchbay", {}))
    guesses = _guesses(pages, merged["patchbay"].get("default_provider"))
    merged["providers"] = {name: {"url": url} for name, url in guesses.items()}
    for page in pages:
        merged["providers"] |= cast("dict[str, Any]", page.raw.get("providers", {}))
        for key in _LISTS:
            merged[key] = [*merged.get(key, []), *page.raw.get(key, [])]
    return merged


def _refuse_twins(pages: Sequence[_Page]) -> None:
    """Refuse two components of one name: it would be unknown which of them a held message belongs to."""
    seen: dict[str, str] = {}
    for page in pages:
        for key in _LISTS[:3]:
            for number, table in enumerate(page.raw.get(key, [])):
                name, where = table["name"], page.where([key, number, "name"])
                if name in seen:
                    raise ConfigurationError(
                        where, f"{name!r} is used twice, first in {seen[name]}", "give each its own name"
                    )
                seen[name] = where
