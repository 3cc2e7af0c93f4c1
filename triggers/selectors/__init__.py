"""Conditions on messages: the selector language of Jakarta Messaging, and filters that see the body."""

from triggers.selectors.errors import SelectorError
from triggers.selectors.filters import FilterAnswerError, MessageFilter, Wanted, read_filter
from triggers.selectors.selector import Filter, Selector
from triggers.selectors.values import Reading

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
