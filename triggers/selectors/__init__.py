"""Conditions on messages: the selector language of Jakarta Messaging, and filters that see the body.

``selector`` is a parsed condition, ``parsing/`` what reads its text, ``compiler`` and ``operators`` what
evaluate it, ``normal_form`` its one spelling, ``errors`` what is wrong with it. ``mismatches`` warns where a
condition asks a text for a number. A language of its own: it imports nothing else of ``triggers``.
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
