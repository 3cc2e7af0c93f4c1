"""Kept results: a later caller, for example the caller of a copy, receives the first run's result."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from typing import Any, Literal, NamedTuple, cast

from pydantic import BaseModel, TypeAdapter
from pydantic_core import from_json, to_json

from history.errors import DoubtlessError
from triggers.service.checking import check_choice, check_duration, check_kind, check_whole

Codec = Literal["json"]

#: The prefix of a kept result, and the prefix of a kept failure.
_BEGINNING, _FAILURE = b"result:", b"failure:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How long results are kept, and up to which size.

    ``for_`` is the time. By default, a result is kept as long as its entry. ``limit`` is in bytes of JSON. A
    larger result is not kept, but its message is completed. Results are JSON: models by their schema, never
    pickles.

        @trigger("orders", keep_result=Keep(for_=timedelta(hours=1), limit=10_000))

    Raises:
        ConfigurationError: a field has a wrong value.
    """

    for_: timedelta | None = None
    limit: int = 64_000
    codec: Codec = "json"

    def __post_init__(self) -> None:
        if self.for_ is not None:
            check_duration("keep_result", self.for_)
        check_whole("keep_result", self.limit, 1)
        check_choice("keep_result", self.codec, Codec)


def keep_of(option: Any) -> Keep | None:
    """Return how results are kept; None if they are not.

    Raises:
        ConfigurationError: it is neither a switch nor a :class:`Keep`.
    """
    if option is False:
        return None
    if option is True:
        return Keep()
    check_kind("keep_result", option, Keep, "use True, or Keep(for_=timedelta(days=1))")
    return option if isinstance(option, Keep) else None


class Failure(NamedTuple):
    """What is told of an exception: its class, its text, its traceback, and the line that raised it."""

    error_class: str
    error_message: str
    error_trace: str | None
    error_place: str | None


class FailedBeforeError(DoubtlessError):
    """The first run of this uuid failed for good, with ``error_class`` and ``error_message``."""

    __module__ = "triggers"

    def __init__(self, error_class: str, error_message: str) -> None:
        # Unchanged, for frameworks that send an exception as its name and its arguments.
        super().__init__(error_class, error_message)
        self.error_class, self.error_message = error_class, error_message

    def __str__(self) -> str:
        return f"it ran before and failed for good: {self.error_class}: {self.error_message}"


class NotKeptError(ValueError):
    """A result that cannot be kept, or read back; the text says why."""


def encode_result(result: Any, limit: int) -> bytes:
    """Return a result in the form in which it is kept.

    Raises:
        NotKeptError: it is not JSON, larger than the limit, or has a part that only one reader can read.
    """
    try:
        _refuse_iterators(result)
        data = _BEGINNING + to_json(result)
    except Exception as error:
        raise NotKeptError(f"it cannot be written as JSON ({error})") from error
    size = len(data) - len(_BEGINNING)
    if size > limit:
        raise NotKeptError(f"its JSON is larger than the limit ({size:,} bytes, and the limit is {limit:,})")
    return data


def _refuse_iterators(value: Any) -> None:
    """Refuse a value with an iterator inside: JSON would read it, and leave nothing of it for the caller."""
    made_by = cast("Any", type(value))
    if hasattr(made_by, "__next__"):
        raise TypeError(f"it has a {made_by.__name__}, which only one reader can read")
    for part in _parts_of(value):
        _refuse_iterators(part)


def _parts_of(value: Any) -> Iterable[Any]:
    match value:
        case dict():
            return cast("Mapping[Any, Any]", value).values()
        case list() | tuple() | set() | frozenset() | deque():
            return cast("Iterable[Any]", value)
        case BaseModel():
            return [part for _, part in value]
        case _ if is_dataclass(value):
            return [getattr(value, field.name) for field in fields(cast("Any", value))]
        case _:
            return ()


def encode_failure(failure: Failure) -> bytes:
    """Return the kept form of a failure."""
    return _FAILURE + to_json(failure)


def decode_failure(data: bytes) -> Failure:
    """Return a kept failure.

    Raises:
        NotKeptError: this version cannot read it.
    """
    try:
        if data.startswith(_FAILURE):
            error_class, error_message, trace, place = from_json(data[len(_FAILURE) :])
            return Failure(str(error_class), str(error_message), trace, place)
    except ValueError as error:
        raise NotKeptError(f"it is not a failure ({error})") from error
    raise NotKeptError("it was written by another version")


def decode_result(data: bytes, adapter: Callable[[], TypeAdapter[Any] | None]) -> Any:
    """Return a kept result, converted by ``adapter``; without an adapter, as JSON values.

    Raises:
        NotKeptError: it cannot be read in this way.
    """
    if not data.startswith(_BEGINNING):
        raise NotKeptError("it was written by another version")
    try:
        written, read = data[len(_BEGINNING) :], adapter()
        return from_json(written) if read is None else read.validate_json(written)
    except Exception as error:
        raise NotKeptError(f"it is not what the service returns now ({error})") from error
