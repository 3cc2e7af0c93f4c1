"""Conditions on messages: the selector language of Jakarta Messaging, and filters that see the body.

A pure language: it imports nothing else of :mod:`triggers`.
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
