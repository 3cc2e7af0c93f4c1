"""Exceptions that do harm when they are looked at."""

import asyncio
from typing import Any, Never

from history.store.parking import encodable


class SilentError(Exception):
    """Its text cannot be had, as that of a driver's exception whose connection is closed."""

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
    """It lies about its class and its traceback, or rather fails to."""

    def _fail(self) -> Never:
        raise RuntimeError("it does not say")

    locals().update(dict.fromkeys(("__class__", "__traceback__", "__cause__", "__notes__"), property(_fail)))


class _Nameless(type):
    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError(name)


class NamelessError(Exception, metaclass=_Nameless):
    """Its class has no attributes."""


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
    """Whether a store can keep a text, and is not asked to keep more than so many characters."""
    return text is not None and text == encodable(text) and len(text) <= longest
