"""Suggestions for an unknown name."""

from collections.abc import Collection
from difflib import get_close_matches

#: How many names an error lists, and how many characters of each.
LISTED, SHOWN = 20, 100


def nearest(name: str, names: Collection[str]) -> str:
    """Return the nearest name as a question; the known names, if none is near."""
    near = nearest_name(name, names)
    return f"use {listed(names)}" if near is None else f"did you mean {near}?"


def instead_of(name: str, names: Collection[str]) -> str:
    """Return the nearest name as a question, if there is one, and the known names."""
    near = nearest_name(name, names)
    question = "" if near is None else f"did you mean {near}? "
    return f"{question}known: {listed(names)}"


def nearest_name(name: str, names: Collection[str]) -> str | None:
    """Return the known name that is nearest to another one, in any case of letters; None if none is near."""
    if len(name) > SHOWN:  # the time that a comparison takes grows with the square of the length
        return None
    by_folded = {candidate.casefold(): candidate for candidate in names if len(candidate) <= SHOWN}
    near = get_close_matches(name.casefold(), by_folded, n=1)
    return by_folded[near[0]] if near else None


def listed(names: Collection[str]) -> str:
    """Return names for an error, sorted; only the first ones if there are many."""
    more = "" if len(names) <= LISTED else f" and {len(names) - LISTED} more"
    return f"{', '.join(map(cut, sorted(names)[:LISTED])) or 'none'}{more}"


def cut(text: str) -> str:
    """Return the beginning of a text that is too long for an error."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
