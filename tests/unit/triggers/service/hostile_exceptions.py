"""Exceptions that do harm when code reads them."""

import asyncio
from typing import Any, Never

from history.store.parking import encodable


class SilentError(Exception):
    """Nobody can read its text, as with a driver's exception after its connection was closed."""

    def __str__(self) -> str:
        raise ConnectionResetError("the text is on the server")

    __repr__ = __str__


class NoTextError(Exception):
    def __str__(self) -> Any:
        return 5  # noqa: PLE0307  (that is the point)


class EndlessError(Exception):
    def __str__(self) -> str:
        return str(self)


class MaskedError(Exception):
    """Its class, traceback, cause and notes raise an error when they are read."""

    def _fail(self) -> Never:
        raise RuntimeError("it does not say")

    locals().update(dict.fromkeys(("__class__", "__traceback__", "__cause__", "__notes__"), property(_fail)))


class _Nameless(type):
    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError(name)


class NamelessError(Exception, metaclass=_Nameless):
    """Every attribute of its class raises an error when it is read."""


def hostile_errors() -> list[BaseException]:
    return [
        SilentError(),
        NoTextError(),
        EndlessError(),
        MaskedError("masked"),
        NamelessError("nameless"),
        ValueError("\ud800 half a character \0"),
        ValueError("long " * 1_000_000),
        ExceptionGroup("several", [SilentError(), ValueError("long " * 100_000)]),
        RecursionError(),
        asyncio.CancelledError(),
        BaseExceptionGroup("cancelled", [asyncio.CancelledError(), ValueError()]),
    ]


def is_storable(text: str | None, longest: int) -> bool:
    """Whether a store can keep a text, and the text has no more than so many characters."""
    return text is not None and text == encodable(text) and len(text) <= longest
