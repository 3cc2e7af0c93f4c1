"""Conditions on messages: the selector language of Jakarta Messaging, and filters that see the body.

``selector`` is a parsed condition, ``parsing/`` reads its text, ``compiler`` and ``operators`` evaluate it,
``normal_form`` writes it in one spelling, ``errors`` says what is wrong with it. ``mismatches`` warns if a
condition compares a text with a number. The language is independent: it imports nothing else of ``triggers``.
"""

from triggers.selectors.errors import SelectorError
from triggers.selectors.parsing.values import Reading
from triggers.selectors.selector import Filter, Selector

__all__ = [
    "Filter",
    "Reading",
    "Selector",
    "SelectorError",
]
