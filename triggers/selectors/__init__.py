"""Conditions on messages: the selector language of Jakarta Messaging, and filters that see the body."""

from triggers.selectors.errors import SelectorError
from triggers.selectors.parsing.values import Reading
from triggers.selectors.selector import Filter, Selector
from triggers.service.filters import FilterAnswerError, MessageFilter, Wanted, read_filter

__all__ = [
    "Filter",
    "FilterAnswerError",
    "MessageFilter",
    "Reading",
    "Selector",
    "SelectorError",
    "Wanted",
    "read_filter",
]
