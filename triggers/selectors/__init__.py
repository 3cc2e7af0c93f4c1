"""Conditions on messages: the selector language of Jakarta Messaging, and filters that see the body.

``selector`` is a parsed condition and its text in one spelling, ``parsing/`` reads texts, ``compiler`` and
``operators`` evaluate conditions, and ``errors`` says what is wrong with one. ``mismatches`` warns if a
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
