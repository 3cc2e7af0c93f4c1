"""A peer lost more than the log holds: its tables are extracted again, and both directions go on."""

import os
import stat
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from history.bridge import drive
from history.errors import ConfigurationError
from history.store.watermark import Epoch, Offset
from tests.integration.providers.sqlremote.link_ends import Side, both, linked
from triggers.providers.sqlremote.extraction.extract import extract, later_than
from triggers.providers.sqlremote.extraction.load import load
from triggers.providers.sqlremote.links import fresh_epoch

#: Both ends store their own orders and the applied orders of the other end.
ORDERS = "CREATE TABLE orders (id VARCHAR(30) PRIMARY KEY, n INTEGER)"


def keep(operations: list[Any], connection: Connection) -> None:
    """Apply an order. This fails if the order already exists."""
    for operation in operations:
        connection.execute(text("INSERT INTO orders VALUES (:id, :n)"), operation)


@pytest.fixture
def pair(link_databases: Sequence[str]) -> Iterator[tuple[Side, Side]]:
    with linked(link_databases, tables=["orders", "got"]) as sides:
        for side in sides:
            side.service = keep
            side.execute(ORDERS)
        yield sides


def order(side: Side, name: str) -> None:
    """Commit an order together with its operation for the other end."""
    with side.engine.begin() as connection:
        keep([{"id": name, "n": len(name)}], connection)
    side.commit({"id": name, "n": len(name)})


def ids(side: Side) -> list[str]:
    return [row.id for row in side.query("SELECT id FROM orders ORDER BY id")]


def renewed(*sides: Side) -> None:
    """Restart the processes of both ends."""
    for side in sides:
        side.leave()
        side.restart()


def lost_beyond_the_log(x: Side, y: Side) -> None:
    """Restore y from a backup that is older than the log of x."""
    order(x, "a")
    both(x, y, rounds=2)
    backup = y.back_up()
    order(x, "b")
    order(y, "from-y")
    both(x, y, rounds=3)
    drive(x.receiver().agent.outgoing.log.prune(timedelta(0)))
    y.restore(backup)
    order(x, "c")
    both(x, y, rounds=4)
    assert "AHEAD_OF_LOG" in (y.row().stopped or ""), "it has lost its own work, too"
    assert "doubtless sqlremote extract" in (y.row().stopped or "")
    with pytest.raises(ConfigurationError, match="doubtless sqlremote extract"):
        drive(x.links.history.watermarks.reset("orders", confirmed=Offset(1)))


def test_a_peer_restored_from_yesterdays_backup_recovers_from_the_log_that_is_kept_by_default(
    pair: tuple[Side, Side],
) -> None:
    x, y = pair
    order(x, "a")
    both(x, y, rounds=2)
    backup = y.back_up()
    for name in ("b", "c"):
        order(x, name)
        both(x, y, rounds=2)
    x.clock.pass_by(timedelta(days=1))
    both(x, y)

    y.restore(backup)
    both(x, y, rounds=4)
    assert "--confirmed 1" in (x.row().stopped or "")
    drive(x.links.history.watermarks.reset("orders", confirmed=Offset(1)))
    renewed(x)
    both(x, y, rounds=4)

    assert ids(y) == ["a", "b", "c"]


def test_the_log_does_not_grow_for_ever_what_is_a_week_old_and_confirmed_goes(
    pair: tuple[Side, Side],
) -> None:
    x, y = pair
    for name in ("old", "young"):
        order(x, name)
    both(x, y, rounds=3)
    order(x, "old but not confirmed")
    week = int(timedelta(days=8).total_seconds() * 1000)
    x.execute(
        f"UPDATE doubtless_link_log SET committed_at = committed_at - {week} WHERE commit_offset <> 2"  # noqa: S608
    )

    x.clock.pass_by()
    x.run()

    assert [row.commit_offset for row in x.query("SELECT * FROM doubtless_link_log ORDER BY 1")] == [2, 3]


def test_a_peer_older_than_the_log_recovers_by_an_extract_with_nothing_lost_and_nothing_twice(
    pair: tuple[Side, Side], tmp_path: Path
) -> None:
    x, y = pair
    lost_beyond_the_log(x, y)

    drive(extract(x.links, "orders", tmp_path / "orders.extract"))
    order(x, "d")
    renewed(x)
    both(x, y, rounds=2)
    assert y.row().stopped is not None, "it waits for the extract"
    found = drive(load(y.links, "orders", tmp_path / "orders.extract"))
    renewed(y)
    order(y, "new-y")
    order(x, "e")
    both(x, y, rounds=4)

    assert found.rows == 4
    assert ids(x) == ids(y) == ["a", "b", "c", "d", "e", "from-y", "new-y"]
    assert (x.row().stopped, y.row().stopped) == (None, None)


def test_an_extract_is_loaded_once_and_none_that_is_older(pair: tuple[Side, Side], tmp_path: Path) -> None:
    x, y = pair
    order(x, "a")
    for name in ("old", "new"):
        drive(extract(x.links, "orders", tmp_path / name))
    drive(load(y.links, "orders", tmp_path / "new"))
    renewed(x, y)
    order(x, "b")
    both(x, y, rounds=3)

    with pytest.raises(ConfigurationError, match="was loaded already"):
        drive(load(y.links, "orders", tmp_path / "new"))
    with pytest.raises(ConfigurationError, match="is known here; extract the peer anew"):
        drive(load(y.links, "orders", tmp_path / "old"))
    assert ids(y) == ["a", "b"]


def test_what_was_published_and_not_confirmed_is_not_overwritten_unless_it_is_given_up(
    pair: tuple[Side, Side], tmp_path: Path
) -> None:
    x, y = pair
    order(x, "a")
    both(x, y, rounds=2)
    order(y, "mine")
    drive(extract(x.links, "orders", tmp_path / "extract"))

    with pytest.raises(ConfigurationError, match="1 transactions were published here after offset 0"):
        drive(load(y.links, "orders", tmp_path / "extract"))
    assert ids(y) == ["a", "mine"]
    drive(load(y.links, "orders", tmp_path / "extract", discard=True))
    renewed(x, y)
    order(y, "next")
    both(x, y, rounds=4)

    assert ids(x) == ids(y) == ["a", "next"]


def test_an_end_that_began_anew_later_says_beyond_what(pair: tuple[Side, Side], tmp_path: Path) -> None:
    x, y = pair
    row = drive(y.links.history.watermarks.reset("orders", epoch=Epoch("99990101T000000000000-y")))
    drive(extract(x.links, "orders", tmp_path / "first"))

    with pytest.raises(ConfigurationError, match="--beyond 99990101T000000000000-y:0"):
        drive(load(y.links, "orders", tmp_path / "first"))
    beyond = row.watermark.outgoing.epoch, row.watermark.outgoing.log_sent
    drive(extract(x.links, "orders", tmp_path / "second", beyond=beyond))
    drive(load(y.links, "orders", tmp_path / "second"))
    renewed(x, y)
    order(y, "a")
    both(x, y, rounds=3)

    assert ids(x) == ["a"]


def test_a_file_that_was_cut_off_or_changed_is_refused(pair: tuple[Side, Side], tmp_path: Path) -> None:
    x, y = pair
    order(x, "a")
    order(x, "b")
    whole = tmp_path / "whole"
    drive(extract(x.links, "orders", whole))
    assert stat.S_IMODE(whole.stat().st_mode) == 0o600
    lines = whole.read_bytes().splitlines(keepends=True)
    spoilt = {
        "empty": b"",
        "cut": b"".join(lines[:-1]),
        "short": b"".join([*lines[:1], *lines[2:]]),
        "changed": b"".join(lines).replace(b'"b"', b'"z"'),
        "garbage": os.urandom(200),
        "another": b'{"hello": 1}\n',
    }

    for name, data in spoilt.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ConfigurationError, match="doubtless sqlremote extract"):
            drive(load(y.links, "orders", tmp_path / name))
    with pytest.raises(ConfigurationError, match="is there already"):
        drive(extract(x.links, "orders", whole))

    assert ids(y) == []


@pytest.mark.parametrize("tables", [["nowhere"], ["orders", "nowhere"]])
def test_a_table_that_is_missing_changes_nothing(
    pair: tuple[Side, Side], tmp_path: Path, tables: Sequence[str]
) -> None:
    x, _ = pair
    before = x.row()

    with pytest.raises(ConfigurationError, match="there is no table nowhere"):
        drive(extract(x.links, "orders", tmp_path / "extract", tables=tables))

    assert x.row() == before
    assert not (tmp_path / "extract").exists()


def test_values_of_all_kinds_arrive_and_counters_go_on(pair: tuple[Side, Side], tmp_path: Path) -> None:
    x, y = pair
    postgres = x.engine.dialect.name == "postgresql"
    for side in pair:
        side.execute(
            "CREATE TABLE kinds (id INTEGER PRIMARY KEY, n NUMERIC(9, 2), day DATE, flag BOOLEAN, size REAL, "
            + ("raw BYTEA, at TIMESTAMPTZ, doc JSONB)" if postgres else "raw BLOB, at TEXT, doc TEXT)")
        )
    x.execute(
        "INSERT INTO kinds VALUES "
        """(1, 1.25, '2026-05-01', TRUE, 0.5, NULL, '2026-05-01T12:00:00+00:00', '{"a": [1, null, "Zoë"]}')"""
    )
    x.execute(r"UPDATE kinds SET raw = '\xff00'" if postgres else "UPDATE kinds SET raw = x'ff00'")
    x.execute("INSERT INTO kinds (id) VALUES (2)")
    y.execute("INSERT INTO kinds (id) VALUES (7)")
    x.execute("INSERT INTO got (operation) VALUES ('one'), ('two')")

    drive(extract(x.links, "orders", tmp_path / "extract", tables=["kinds", "got"]))
    drive(load(y.links, "orders", tmp_path / "extract"))
    y.execute("INSERT INTO got (operation) VALUES ('three')")

    assert y.query("SELECT * FROM kinds ORDER BY id") == x.query("SELECT * FROM kinds ORDER BY id")
    assert y.got == ["one", "two", "three"]


#: Columns and rows of PostgreSQL with values that Python cannot hold exactly.
ODD = {
    "json": (
        "doc JSONB, other JSON",
        """('null', NULL), (NULL, 'null'), ('{"n": 12345678901234567890.12345}', '{"b": 1,  "a": 1.10}')""",
    ),
    "intervals": ("i INTERVAL", "('1 month'), ('1 year 2 days 03:04:05.6'), ('-00:00:01'), (NULL)"),
    "arrays": (
        "n NUMERIC[], days DATE[], t TEXT[], more INT[][]",
        """('{1.50,NULL}', '{2026-01-01}', '{"x,y",NULL}', '{{1,2},{3,4}}')""",
    ),
    "instants": (
        "at TIMESTAMPTZ, day DATE, t TIME, local TIMESTAMP",
        """('infinity', '-infinity', '24:00:00', '10000-01-01'), ('0044-03-15 BC', NULL, '12:00:00.1', NULL),
        ('2026-01-01 12:00+01', '2026-01-01', '12:00+01', '2026-01-01 12:00:00.12')""",
    ),
    "others": (
        'ip INET, r INT4RANGE, b BIT VARYING(5), p POINT, m MONEY, n NUMERIC, "odd % "" name:x" CHAR(3)',
        "('10.0.0.1/8', '[1,5)', B'101', '(1,2)', '1.25', 'NaN', 'a')",
    ),
    "counters": ("n INT, i INT GENERATED ALWAYS AS IDENTITY", "(7)"),
}


@pytest.mark.parametrize("kind", ODD)
def test_a_value_that_python_does_not_have_arrives_as_it_was(
    pair: tuple[Side, Side], tmp_path: Path, kind: str
) -> None:
    x, y = pair
    if x.engine.dialect.name != "postgresql":
        pytest.skip("its values")
    columns, values = (one.replace(":", "\\:") for one in ODD[kind])
    for side in pair:
        side.execute(f"CREATE TABLE odd ({columns})")
    for _ in range(2):
        x.execute(f"INSERT INTO odd VALUES {values}")  # noqa: S608  (those above)
    x.execute("DELETE FROM odd WHERE ctid = '(0,1)'")

    drive(extract(x.links, "orders", tmp_path / "extract", tables=["odd"]))
    drive(load(y.links, "orders", tmp_path / "extract"))

    rows = "SELECT CAST(odd AS TEXT) AS row FROM odd ORDER BY 1"
    assert y.query(rows) == x.query(rows)


def test_a_row_that_the_database_refuses_is_told_in_its_words(
    pair: tuple[Side, Side], tmp_path: Path
) -> None:
    x, y = pair
    x.execute("CREATE TABLE kinds (n INT)")
    x.execute("INSERT INTO kinds VALUES (NULL)")
    y.execute("CREATE TABLE kinds (n INT NOT NULL)")

    drive(extract(x.links, "orders", tmp_path / "extract", tables=["kinds"]))
    with pytest.raises(ConfigurationError, match=r"refuses .* kinds: .*(NOT NULL|not-null) constraint"):
        drive(load(y.links, "orders", tmp_path / "extract"))


def test_a_new_epoch_is_later_than_that_of_a_clock_that_is_ahead() -> None:
    ahead = Epoch("99981231T235959999999-peer")

    assert later_than(ahead) > ahead
    assert later_than(Epoch("0")) > fresh_epoch()[:8]
