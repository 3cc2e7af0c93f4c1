"""Results whose work has not been done yet, or that can be read only once."""

from triggers.service.failures import LazyResultError

#: Results that most services return, and that are what they are.
_PLAIN = (type(None), dict, list, str, int, bool, tuple, float, bytes)

#: Where the iterators of Python live that do their work while they are read: generators, ``map``, ``chain``.
_LAZY_HOMES = ("builtins", "itertools")


def check_result(service: str, result: object, *, kept: bool) -> None:
    """Refuse a result whose work begins when it is read; with ``kept``, every one that is read only once.

    A driver's cursor is an iterator, too, but its statement was done. It goes to the caller, unless it is to
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
