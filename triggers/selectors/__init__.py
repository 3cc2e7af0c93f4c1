"""Conditions on messages: the selector language of Jakarta Messaging, and filters that see the body.

``selector`` is a parsed condition and its text in one spelling, ``parsing/`` reads texts and says what is
wrong with them. ``compiler`` and ``operators`` evaluate conditions, and warn if one compares a text with a
number. The language is independent: it imports nothing else of ``triggers``.
"""

from triggers.selectors.parsing.tokens import SelectorError
from triggers.selectors.parsing.values import Reading
from triggers.selectors.selector import Filter, Selector

__all__ = ["Filter", "Reading", "Selector", "SelectorError"]
