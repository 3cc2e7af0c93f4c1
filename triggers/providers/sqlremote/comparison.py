"""Compare the tables of both ends of a link, row by row, by checksums.

An end is a database, or the file of checksums that ``doubtless sqlremote compare --to`` wrote there. The
first reading adds up the checksums of groups of keys, in any order. The second one looks at the keys of the
groups that differ, so it needs memory for these only.

A row has two checksums. One takes a number and its text for the same: a link between a SQLite and a
PostgreSQL, or between a column of numbers and one of texts, makes the one of the other. The second one does
not. It counts if both ends are SQLite, and have texts in the same columns: a link keeps the types then.
"""

import json
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Context, Decimal
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.exc import DBAPIError

from history.errors import ConfigurationError
from history.sql.database.engine import open_engine
from history.sql.database.errors import translated
from history.sql.statements.dialects import Dialect
from triggers.providers.sqlremote.capture.declared import Captured, Declared, captured
from triggers.providers.sqlremote.extraction import postgres
from triggers.providers.sqlremote.extraction.document import Shape, checked, hidden_beside, writing
from triggers.providers.sqlremote.extraction.tables import read, tables_of, take_time
from triggers.providers.sqlremote.settings import RemoteSettings

#: Into how many groups the keys of a table are divided.
GROUPS: Final = 4096

#: A database sees the same rows in both readings.
_BEGIN: Final = {
    Dialect.SQLITE: ["BEGIN"],
    Dialect.POSTGRESQL: ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "SET LOCAL timezone = 'UTC'"],
}

#: The declared types of a table's columns.
_DECLARED: Final = text("SELECT name, type FROM pragma_table_info(:table)")

#: More digits than a number of PostgreSQL can have.
_DIGITS: Final = Context(prec=150_000)


class ComparedShape(Shape):
    """A compared table. ``texts`` are the columns of SQLite that store a number as text; None elsewhere."""

    texts: tuple[str, ...] | None = None


#: The number of a row's table, its key, its checksum, and its checksum with the types of its values.
ComparedRow = tuple[int, str, int, int]


class Checksums(BaseModel):
    """The first line of a file of checksums; the other lines are :data:`ComparedRow`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    doubtless_checksums: Literal[2] = 2
    tables: tuple[ComparedShape, ...]


@dataclass(frozen=True, slots=True)
class FileEnd:
    """An end as its file of checksums describes it."""

    path: Path
    tables: Sequence[ComparedShape]
    count: int

    @classmethod
    def opened(cls, path: Path) -> "FileEnd":
        """Open a file of checksums.

        Raises:
            ConfigurationError: it is not one, was cut off or was changed.
        """
        try:
            first, count = checked(path)
            return cls(path, Checksums.model_validate_json(first).tables, count)
        except (OSError, ValueError, ValidationError) as error:
            raise ConfigurationError(
                str(path), "is not a file of checksums", "write one with: doubtless sqlremote compare --to"
            ) from error

    def rows(self) -> Iterator[ComparedRow]:
        """Return its rows."""
        with self.path.open("rb") as file:
            next(file)
            for _, line in zip(range(self.count), file, strict=False):
                table, key, checksum, typed = json.loads(line)
                yield table, key, checksum, typed


@dataclass(frozen=True, slots=True)
class DatabaseEnd:
    """An end as its database is when the comparison begins."""

    connection: Connection
    captured_tables: Sequence[Captured]
    subscription: str | None = None

    @property
    def tables(self) -> Sequence[ComparedShape]:
        """The tables, with their columns in the order of their names."""
        return [
            ComparedShape(
                name=table.name, columns=tuple(sorted(table.columns)), texts=_texts(self.connection, table)
            )
            for table in self.captured_tables
        ]

    def rows(self) -> Iterator[ComparedRow]:
        """Return its rows."""
        for number, capture in enumerate(self.captured_tables):
            declared = Declared(capture.name, capture.columns, capture.by, self.subscription)
            (table,) = tables_of(self.connection, [declared])
            names = list(table.columns.keys())
            keys = [names.index(name) for name in capture.key]
            order = sorted(range(len(names)), key=names.__getitem__)
            is_sqlite = self.connection.dialect.name == Dialect.SQLITE
            reading = select(table) if is_sqlite else postgres.reading(table)
            for row in read(self.connection, reading, declared, table):
                values = [_same(value) for value in row]
                yield (
                    number,
                    _text([values[index] for index in keys]),
                    _sum([_untyped(values[index]) for index in order]),
                    _sum([values[index] for index in order]),
                )


@contextmanager
def opened(url: str, tables: Sequence[str], subscription: str | None = None) -> Generator[DatabaseEnd]:
    """Open a database for a comparison of these tables, as in the settings of a link.

    Raises:
        ConfigurationError: a table, or its primary key, is missing.
        HistoryUnavailableError: the database does not answer.
    """
    engine = cast("Engine", open_engine(url, asyncio=False))
    try:
        with engine.connect() as connection:
            for statement in _BEGIN[Dialect(connection.dialect.name)]:
                connection.exec_driver_sql(statement)
            take_time(connection)
            compared = [captured(connection, Declared.parse(table)) for table in tables]
            yield DatabaseEnd(connection, compared, subscription)
    except DBAPIError as error:
        raise translated(error, "comparing tables") from error
    finally:
        engine.dispose()


@dataclass(slots=True)
class Difference:
    """How a table differs: the keys of missing rows and of rows with other values, some of them by name."""

    table: str
    rows: int = 0
    other_rows: int = 0
    missing_here: list[str] = field(default_factory=list[str])
    missing_there: list[str] = field(default_factory=list[str])
    different: list[str] = field(default_factory=list[str])

    @property
    def is_equal(self) -> bool:
        """Whether both ends have the same rows."""
        return not (self.missing_here or self.missing_there or self.different)


#: One end of the comparison: its tables, and the number of the table, the key and the checksum of each row.
ComparedEnd = FileEnd | DatabaseEnd


@dataclass(slots=True)
class _Checksums:
    rows: Counter[int] = field(default_factory=Counter[int])
    groups: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])

    @classmethod
    def of(cls, end: ComparedEnd, typed: Collection[int] = ()) -> "_Checksums":
        sums = cls()
        for table, key, *checksums in end.rows():
            sums.rows[table] += 1
            sums.groups[table, _group(key)] += checksums[table in typed]
        return sums


@contextmanager
def opened_end(where: str, tables: Sequence[str], subscription: str | None = None) -> Generator[ComparedEnd]:
    """Open the end that a person names: a database's URL, a settings file, or a file of checksums.

    Raises:
        ConfigurationError: it is none of these, or lacks a table.
    """
    file = Path(where)
    if "://" not in where and not file.name.endswith(".toml"):
        yield FileEnd.opened(file)
        return
    with opened(where if "://" in where else RemoteSettings.load(file).database, tables, subscription) as end:
        yield end


def compare(here: ComparedEnd, there: ComparedEnd) -> Sequence[Difference]:
    """Return the difference of each table; the keys are JSON lists.

    Raises:
        ConfigurationError: the ends have other tables or columns.
    """
    _refuse_others(here.tables, there.tables)
    texts = [shape.texts for shape in there.tables]
    typed = {
        number
        for number, shape in enumerate(here.tables)
        if shape.texts is not None and shape.texts == texts[number]
    }
    mine, theirs = _Checksums.of(here, typed), _Checksums.of(there, typed)
    wanted = {group for group in {*mine.groups, *theirs.groups} if mine.groups[group] != theirs.groups[group]}
    own, other = _keys(here, wanted, typed), _keys(there, wanted, typed)
    differences = [
        Difference(shape.name, mine.rows[number], theirs.rows[number])
        for number, shape in enumerate(here.tables)
    ]
    for table, key in sorted({*own, *other}):
        if (table, key) not in own:
            differences[table].missing_here.append(key)
        elif (table, key) not in other:
            differences[table].missing_there.append(key)
        elif own[table, key] != other[table, key]:
            differences[table].different.append(key)
    return differences


def digests(end: ComparedEnd) -> Sequence[tuple[str, int, str]]:
    """Return the name of each table, how many rows it has, and a checksum of all of them in any order."""
    sums = _Checksums.of(end)
    totals = Counter[int]()
    for (table, _), total in sums.groups.items():
        totals[table] += total
    return [
        (shape.name, sums.rows[number], f"{totals[number] % 2**64:016x}")
        for number, shape in enumerate(end.tables)
    ]


def write(end: ComparedEnd, path: Path) -> None:
    """Write a new file of checksums. Only its owner can read it: it has the keys of all rows.

    Raises:
        ConfigurationError: the file exists already.
    """
    hidden = hidden_beside(path)
    with writing(hidden) as writer:
        writer.begin(Checksums(tables=tuple(end.tables)))
        for table, key, checksum, typed in end.rows():
            writer.row(table, [key, checksum, typed])
    hidden.rename(path)


def _refuse_others(here: Sequence[Shape], there: Sequence[Shape]) -> None:
    columns_there = {shape.name: shape.columns for shape in there}
    for shape in here:
        columns = columns_there.get(shape.name)
        if columns is None:
            raise ConfigurationError(
                "tables",
                f"{shape.name} is not compared there",
                "name the same tables at both ends",
            )
        if columns != shape.columns:
            others = ", ".join(sorted(set(columns) ^ set(shape.columns)))
            raise ConfigurationError(
                "tables",
                f"{shape.name} has other columns at the other end: {others}",
                f"name those to compare, as in {shape.name}(id, name)",
            )
    if [shape.name for shape in here] != [shape.name for shape in there]:
        raise ConfigurationError(
            "tables", "the other end compares other tables", "name the same tables in the same order"
        )


def _keys(
    end: ComparedEnd, wanted: set[tuple[int, int]], typed: Collection[int]
) -> Mapping[tuple[int, str], int]:
    if not wanted:
        return {}
    sums = Counter[tuple[int, str]]()
    for table, key, *checksums in end.rows():
        if (table, _group(key)) in wanted:
            # Added up, because several rows of SQLite may have a NULL in their key.
            sums[table, key] += checksums[table in typed]
    return sums


def _group(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=4).digest()) % GROUPS


def _sum(values: Sequence[Any]) -> int:
    return int.from_bytes(blake2b(_text(values).encode(), digest_size=8).digest())


def _text(values: Sequence[Any]) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _texts(connection: Connection, table: Captured) -> tuple[str, ...] | None:
    """Return the columns of SQLite whose declared type makes a text of each number; None on PostgreSQL."""
    if connection.dialect.name != Dialect.SQLITE:
        return None
    return tuple(
        sorted(
            str(name)
            for name, type_ in connection.execute(_DECLARED, {"table": table.name})
            if name in table.columns
            and "INT" not in type_.upper()
            and any(word in type_.upper() for word in ("CHAR", "CLOB", "TEXT"))
        )
    )


def _untyped(value: Any) -> Any:
    """Return a value that is the same for a number and its text."""
    match value:
        case int():
            return str(value)
        case {"number": str(number)}:
            return number
        case _:
            return value


def _same(value: Any) -> Any:
    """Return a value in a form that SQLite and PostgreSQL share, as far as they have equal values."""
    match value:
        case None | str():
            return value
        case bytes() | bytearray():
            return {"bytes": value.hex()}
        case memoryview():
            return {"bytes": cast("memoryview[int]", value).hex()}
        case bool() | int():
            return int(value)
        case float() | Decimal():
            number = value if isinstance(value, Decimal) else Decimal(repr(value))
            whole = number.is_finite() and number == number.to_integral_value()
            return int(number) if whole else {"number": str(_DIGITS.normalize(number))}
        case _:
            return str(value)
