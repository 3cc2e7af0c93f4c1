"""A comparison of both ends of a link names each missing or different row by its key."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from history.bridge import drive
from history.errors import ConfigurationError, HistoryUnavailableError
from tests.integration.providers.sqlremote.link_ends import Side, both, linked
from tests.integration.providers.sqlremote.test_sqlremote_capture_conflicts import keep
from triggers.providers.sqlremote.comparison import Difference, compare, digests, opened, opened_end, write
from triggers.providers.sqlremote.extraction.extract import extract
from triggers.testing.redis_server import free_port

TABLES = ["customers", "lines"]
CUSTOMERS = "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, n NUMERIC(9, 2))"
LINES = "CREATE TABLE lines (customer TEXT, line INTEGER, PRIMARY KEY (customer, line))"


@pytest.fixture
def pair(link_databases: Sequence[str]) -> Iterator[tuple[Side, Side]]:
    with linked(link_databases) as sides:
        for side in sides:
            side.execute(CUSTOMERS)
            side.execute(LINES)
        yield sides


def compared(x: Side, y: Side, tables: Sequence[str] = TABLES) -> list[Difference]:
    with opened(x.url, tables) as here, opened_end(y.url, tables) as there:
        return list(compare(here, there))


def test_a_database_that_does_not_answer_is_no_difference() -> None:
    url = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"

    with pytest.raises(HistoryUnavailableError), opened(url, TABLES):
        raise AssertionError("nothing answers there")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with linked([f"sqlite:///{tmp_path}/{name}.db" for name in "xy"], tables=["lines"]) as (x, _):
        x.execute(LINES)
        before = x.row()
        with opened(x.url, ["lines"]) as here, pytest.raises(ConfigurationError) as written:
            write(here, tmp_path / "none" / "sums")
        with pytest.raises(ConfigurationError) as extracted:
            drive(extract(x.links, "orders", tmp_path / "none" / "file"))

        assert [written.value.setting, extracted.value.setting] == ["file", "file"]
        assert x.row() == before


def test_each_difference_is_found_and_named(pair: tuple[Side, Side]) -> None:
    x, y = pair
    for side, rows in (
        (x, "(1, 'Ann', 1.5), (2, 'Bob', NULL), (3, 'Cy', 0)"),
        (y, "(4, 'Di', 1), (3, 'Cy', 0), (2, 'bob', NULL)"),
    ):
        side.execute(f"INSERT INTO customers VALUES {rows}")  # noqa: S608  (those above)
        side.execute("INSERT INTO lines VALUES ('a', 1)")
    x.execute("INSERT INTO lines VALUES ('a', 2)")

    customers, lines = compared(x, y)

    assert (customers.rows, customers.other_rows) == (3, 3)
    assert (customers.missing_here, customers.missing_there, customers.different) == (
        ["[4]"],
        ["[1]"],
        ["[2]"],
    )
    assert (lines.missing_here, lines.missing_there) == ([], ['["a",2]'])


def test_many_rows_written_in_another_order_are_equal(pair: tuple[Side, Side]) -> None:
    x, y = pair
    rows = [f"({number}, 'n{number}', {number}.25)" for number in range(5000)]
    x.execute(f"INSERT INTO customers VALUES {', '.join(rows)}")  # noqa: S608
    y.execute(f"INSERT INTO customers VALUES {', '.join(reversed(rows))}")  # noqa: S608

    assert all(one.is_equal for one in compared(x, y))
    with opened(x.url, TABLES) as here, opened(y.url, TABLES) as there:
        assert digests(here) == digests(there)

    y.execute("UPDATE customers SET n = n + 1 WHERE id = 4321")
    assert [one.different for one in compared(x, y)] == [["[4321]"], []]


def test_a_file_of_checksums_replaces_the_other_end(pair: tuple[Side, Side], tmp_path: Path) -> None:
    x, y = pair
    y.execute("INSERT INTO customers VALUES (1, 'Ann', 1)")
    file = tmp_path / "y.sums"
    with opened(y.url, TABLES) as there:
        write(there, file)

    with opened(x.url, TABLES) as here, opened_end(str(file), TABLES) as there:
        customers, _ = compare(here, there)

    assert customers.missing_here == ["[1]"]
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(ConfigurationError, match=r"cut off or changed|not a file of checksums"):  # noqa: SIM117
        with opened_end(str(file), TABLES):
            pass


def test_only_named_columns_are_compared_and_other_columns_are_refused(pair: tuple[Side, Side]) -> None:
    x, y = pair
    x.execute("INSERT INTO customers VALUES (1, 'Ann', 1)")
    y.execute("INSERT INTO customers VALUES (1, 'Ada', 1)")
    y.execute("ALTER TABLE customers ADD COLUMN city TEXT")

    assert compared(x, y, ["customers(id, n)"])[0].is_equal
    with pytest.raises(ConfigurationError, match="customers has other columns at the other end: city"):
        compared(x, y)


@pytest.mark.parametrize(
    "there",
    ["(NULL, 2), (NULL, 2)", "(NULL, 2), (NULL, 1), (NULL, 1)", "(NULL, 1)"],
    ids=["other", "more", "fewer"],
)
def test_rows_without_a_key_are_compared_together(tmp_path: Path, there: str) -> None:
    with linked([f"sqlite:///{tmp_path}/{name}.db" for name in "xy"]) as (x, y):
        for side, rows in ((x, "(NULL, 1), (NULL, 2)"), (y, there)):
            side.execute("CREATE TABLE named (name TEXT PRIMARY KEY, n INTEGER)")
            side.execute(f"INSERT INTO named VALUES {rows}")  # noqa: S608

        (difference,) = compared(x, y, ["named"])
        assert difference.different == ["[null]"]
        y.execute("DELETE FROM named")
        y.execute("INSERT INTO named VALUES (NULL, 2), (NULL, 1)")
        assert compared(x, y, ["named"])[0].is_equal


def test_a_text_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    with linked([f"sqlite:///{tmp_path}/{name}.db" for name in "xy"], tables=["kinds"]) as (x, _):
        x.execute("CREATE TABLE kinds (id INTEGER PRIMARY KEY, value TEXT)")
        x.execute("INSERT INTO kinds VALUES (1, CAST(x'ff41' AS TEXT))")

        with opened(x.url, ["kinds"]) as here, pytest.raises(ConfigurationError) as compared:
            digests(here)
        with pytest.raises(ConfigurationError) as extracted:
            drive(extract(x.links, "orders", tmp_path / "file"))

        for refused in (compared, extracted):
            assert (refused.value.setting, "kinds" in refused.value.problem) == ("tables", True)
            assert "column 'value'" in refused.value.problem


#: What both ends store in the column ``value``, and whether a link keeps one as the other.
PAIRS: dict[str, tuple[str, str, str, str, bool]] = {
    "number-and-text": ("value", "1.5", "value", "'1.5'", False),
    "whole-number-and-text": ("value", "1", "value", "'1'", False),
    "real-and-integer": ("value REAL", "1", "value NUMERIC", "1", True),
    "column-of-texts": ("value REAL", "1.5", "value TEXT", "1.5", True),
    "column-of-texts-and-whole-number": ("value INTEGER", "1", "value TEXT", "1", True),
    "other-text": ("value TEXT", "'1.5'", "value TEXT", "'1.50'", False),
}


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("in_a_file", [False, True], ids=["database", "file"])
def test_a_number_and_a_text_are_equal_if_a_link_keeps_the_one_as_the_other(
    tmp_path: Path, kind: str, *, in_a_file: bool
) -> None:
    column, value, column_there, value_there, is_equal = PAIRS[kind]
    with linked([f"sqlite:///{tmp_path}/{name}.db" for name in "xy"], tables=["kinds"], capture=True) as (
        x,
        y,
    ):
        for side, stored, written in ((x, column, value), (y, column_there, value_there)):
            side.service = partial(keep, tables=["kinds"])
            side.execute(f"CREATE TABLE kinds (id INTEGER PRIMARY KEY, {stored})")
            side.execute(f"INSERT INTO kinds VALUES (1, {written})")  # noqa: S608
            drive(side.links.capture("orders"))
        where = y.url
        if in_a_file:
            where = f"{tmp_path}/y.sums"
            with opened(y.url, ["kinds"]) as there:
                write(there, Path(where))

        with opened(x.url, ["kinds"]) as here, opened_end(where, ["kinds"]) as there:
            assert compare(here, there)[0].is_equal == is_equal

        x.execute("UPDATE kinds SET id = 2")
        both(x, y, rounds=3)
        assert compared(x, y, ["kinds"])[0].is_equal, "a link keeps it so"


def test_a_number_of_sqlite_and_its_text_in_postgresql_are_equal(tmp_path: Path, postgres_url: str) -> None:
    with linked([f"sqlite:///{tmp_path}/x.db", postgres_url]) as (x, y):
        x.execute("CREATE TABLE kinds (id INTEGER PRIMARY KEY, a, b)")
        y.execute("CREATE TABLE kinds (id INTEGER PRIMARY KEY, a TEXT, b TEXT)")
        x.execute("INSERT INTO kinds VALUES (1, 1.5, 7), (2, 'a', '7')")
        y.execute("INSERT INTO kinds VALUES (1, '1.5', '7'), (2, 'a', '7')")

        assert compared(x, y, ["kinds"])[0].is_equal
        y.execute("UPDATE kinds SET a = '1.50' WHERE id = 1")
        assert compared(x, y, ["kinds"])[0].different == ["[1]"]
