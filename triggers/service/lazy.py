"""Refuse results that are not computed yet, or that can be read only once."""

from triggers.service.failures import LazyResultError

#: Results that most services return; they need no further check.
_PLAIN = (type(None), dict, list, str, int, bool, tuple, float, bytes)

#: The modules of Python's iterators that work only while they are read: generators, ``map``, ``chain``.
_LAZY_HOMES = ("builtins", "itertools")


def check_result(service: str, result: object, *, kept: bool) -> None:
    """Refuse a result that is computed when it is read; with ``kept``, every result readable only once.

    A driver's cursor is also an iterator, but its statement has run. It goes to the caller, unless it is to
    be kept: keeping it would read it.

    Raises:
        LazyResultError: it is such a result.
    """
    kind = type(result)
    if kind in _PLAIN:
        return
    is_read_once = hasattr(kind, "__next__") or hasattr(kind, "__anext__")
    if (is_read_once and (kept or kind.__module__ in _LAZY_HOMES)) or hasattr(kind, "__await__"):
        raise LazyResultError(service, result)
