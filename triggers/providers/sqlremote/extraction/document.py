"""The file of an extract: a first line that describes it, a line for each row, a last line that ends it.

The last line holds a checksum of all earlier lines: a file that was cut off, or changed, is not loaded.
"""

import base64
import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from typing import IO, Any, ClassVar, Final, Literal, cast
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from history.errors import ConfigurationError
from history.store.watermark import MAX_OFFSET, Epoch, Offset
from history.support.private_files import create_private

_MICROSECOND: Final = timedelta(microseconds=1)


class Shape(BaseModel):
    """A table of the extract: its name, and its columns in the order of a row's values."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    name: str
    columns: tuple[str, ...]


class Begin(BaseModel):
    """The contents of an extract, and where both directions begin with it.

    ``epoch`` and ``offset`` belong to the log of the end that was extracted. With ``peer_epoch`` and
    ``peer_offset`` the log of the other end continues, which loads the extract.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    doubtless_extract: Literal[1] = 1
    link: str
    dialect: str
    epoch: Epoch
    offset: Offset = Field(ge=0, le=MAX_OFFSET)
    peer_epoch: Epoch
    peer_offset: Offset = Field(ge=0, le=MAX_OFFSET)
    tables: tuple[Shape, ...]


@dataclass(slots=True)
class Writer:
    """Writes the lines of a file."""

    file: IO[bytes]
    rows: int = 0
    _digest: Any = field(default_factory=blake2b)

    def begin(self, begin: BaseModel) -> None:
        """Write the description of the file."""
        self._line(begin.model_dump(mode="json"))

    def row(self, table: int, values: Sequence[Any]) -> None:
        """Write a row of the table of that number.

        Raises:
            ConfigurationError: a value has a type that the file does not know.
        """
        self._line([table, *map(_encoded, values)])
        self.rows += 1

    def end(self) -> None:
        """Write the last line."""
        digest = self._digest.hexdigest()
        self._line({"rows": self.rows, "digest": digest})

    def _line(self, value: Any) -> None:
        line = json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"
        self._digest.update(line)
        self.file.write(line)


def hidden_beside(file: Path) -> Path:
    """Return the name under which a new file is written, until it is whole.

    Raises:
        ConfigurationError: the file exists already.
    """
    if file.exists():
        raise ConfigurationError("file", f"{file} is there already", "name another file")
    return file.with_name(f".{file.name}.part")


@contextmanager
def writing(hidden: Path) -> Generator[Writer]:
    """Write a file that only this user may read; it is on the disk when the block ends.

    Raises:
        ConfigurationError: it cannot be written.
    """
    try:
        hidden.unlink(missing_ok=True)
        create_private(hidden)
        with hidden.open("wb") as file:
            writer = Writer(file)
            yield writer
            writer.end()
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ConfigurationError(
            "file", f"{hidden} cannot be written: {error.strerror}", "name a file in another folder"
        ) from error


@dataclass(frozen=True, slots=True)
class Extract:
    """A file that was checked and is whole."""

    path: Path
    begin: Begin
    rows: int

    def of_tables(self) -> Iterator[tuple[int, list[Any]]]:
        """Return each row with the number of its table, in the order in which they were written."""
        with self.path.open("rb") as file:
            next(file)
            for _, line in zip(range(self.rows), file, strict=False):
                table, *values = json.loads(line)
                yield table, [_decoded(value) for value in values]


def opened(path: Path) -> Extract:
    """Check an extract from its first to its last line.

    Raises:
        ConfigurationError: it is not an extract, was cut off or was changed.
    """
    with _as_problems_of(path):
        first, rows = checked(path)
        return Extract(path, Begin.model_validate_json(first), rows)


def checked(path: Path) -> tuple[bytes, int]:
    """Read a file to its end; return its first line, and how many rows it has.

    Raises:
        ConfigurationError: it was cut off or changed.
        OSError, ValueError: it cannot be read, or is not such a file.
    """
    with path.open("rb") as file:
        first = file.readline()
        digest, rows, last = blake2b(first), 0, b""
        for line in file:
            if last:
                digest.update(last)
                rows += 1
            last = line
        end = json.loads(last or b"null")
        if end != {"rows": rows, "digest": digest.hexdigest()}:
            raise _unusable(path, "was cut off or changed")
    return first, rows


@contextmanager
def _as_problems_of(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from error
    except (ValidationError, ValueError) as error:
        raise _unusable(path, "is no extract") from error


def _unusable(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(str(path), problem, "write one with: doubtless sqlremote extract")


#: How to write values that JSON does not have, by their types; subtypes before their supertypes.
_WRITTEN: Final[Sequence[tuple[type | tuple[type, ...], str, Callable[[Any], Any]]]] = (
    ((bytes, bytearray, memoryview), "bytes", lambda value: base64.b64encode(value).decode("ascii")),
    (Decimal, "decimal", str),
    (datetime, "datetime", datetime.isoformat),
    (date, "date", date.isoformat),
    (time, "time", time.isoformat),
    (timedelta, "microseconds", lambda value: value // _MICROSECOND),
    (UUID, "uuid", str),
    (float, "float", str),
    ((list, dict), "json", lambda value: value),
)

_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "bytes": base64.b64decode,
    "decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "microseconds": lambda value: value * _MICROSECOND,
    "uuid": UUID,
    "float": float,
    "json": lambda value: value,
}


def _encoded(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and isfinite(value)):
        return value
    for kinds, name, write in _WRITTEN:
        if isinstance(value, kinds):
            return {name: write(cast("Any", value))}
    raise ConfigurationError(
        "tables",
        f"a value of the type {type(value).__qualname__} cannot be extracted",
        "leave that table out, and copy it by a tool of the database",
    )


def _decoded(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((name, written),) = cast("dict[str, Any]", value).items()
    return _READ[name](written)
