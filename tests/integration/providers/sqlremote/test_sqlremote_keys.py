"""Both ends change rows while one of them changes primary keys: they are equal in the end."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from history.bridge import drive
from history.errors import ConfigurationError
from tests.integration.providers.sqlremote.captured_ends import by_another_program, rows
from tests.integration.providers.sqlremote.link_ends import Side, both, linked
from tests.integration.providers.sqlremote.subscribed_ends import settle, shops, subscribed
from tests.integration.providers.sqlremote.test_sqlremote_capture_conflicts import keep

Conflict = tuple[str, str, list[tuple[int, str]]]

#: What each end does with the rows (1, 'one') and (5, 'five'), and the rows in the end.
CONFLICTS: dict[str, Conflict] = {
    "another-new-key": (
        "UPDATE items SET id = 2 WHERE id = 1",
        "UPDATE items SET id = 3 WHERE id = 1",
        [(2, "one"), (3, "one"), (5, "five")],
    ),
    "another-value": (
        "UPDATE items SET id = 2 WHERE id = 1",
        "UPDATE items SET name = 'changed' WHERE id = 1",
        [(2, "one"), (5, "five")],
    ),
    "the-key-is-used-there": (
        "UPDATE items SET id = 2 WHERE id = 1",
        "INSERT INTO items VALUES (2, 'two')",
        [(2, "two"), (5, "five")],
    ),
    "the-row-is-deleted-there": (
        "UPDATE items SET id = 2 WHERE id = 1",
        "DELETE FROM items WHERE id = 1",
        [(2, "one"), (5, "five")],
    ),
    "all-keys": (
        "UPDATE items SET id = id + 10",
        "UPDATE items SET name = upper(name)",
        [(11, "one"), (15, "five")],
    ),
}


@pytest.fixture
def pair(link_databases: Sequence[str]) -> Iterator[tuple[Side, Side]]:
    tables = ["items"]
    with linked(link_databases, tables=tables, capture=True) as sides:
        for side, resolves in zip(sides, (True, False), strict=True):
            side.service = partial(keep, tables=tables, to_sender=resolves)
            side.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT)")
            drive(side.links.capture("orders"))
        by_another_program(sides[0], "INSERT INTO items VALUES (1, 'one'), (5, 'five')")
        both(*sides, rounds=3)
        yield sides


@pytest.mark.parametrize("conflict", CONFLICTS)
@pytest.mark.parametrize("remote_changes_key", [False, True], ids=["here", "at-the-remote"])
def test_ends_are_equal_after_a_key_was_changed(
    pair: tuple[Side, Side], conflict: str, *, remote_changes_key: bool
) -> None:
    changes_key, other, expected = CONFLICTS[conflict]
    centre, remote = pair
    first, second = (remote, centre) if remote_changes_key else (centre, remote)

    by_another_program(first, changes_key)
    by_another_program(second, other)
    both(centre, remote, rounds=5)

    assert rows(remote, "items") == rows(centre, "items")
    assert [outcome.error for side in pair for outcome in side.outcomes if outcome.error is not None] == []
    if not remote_changes_key:
        assert rows(centre, "items") == expected


def test_children_follow_the_key_of_their_parent(pair: tuple[Side, Side]) -> None:
    x, y = pair
    tables = ["items", "parts"]
    for side in pair:
        side.execute(
            "CREATE TABLE parts (id INTEGER PRIMARY KEY, "
            "item INTEGER REFERENCES items (id) ON UPDATE CASCADE ON DELETE CASCADE)"
        )
        side.service = partial(keep, tables=tables)
        side.leave()
        side.restart(tables=tables)
        drive(side.links.capture("orders"))

    by_another_program(x, "INSERT INTO parts VALUES (1, 1), (2, 1), (3, 5)")
    by_another_program(x, "UPDATE items SET id = 2 WHERE id = 1")
    both(x, y, rounds=3)

    assert rows(y, "items") == rows(x, "items") == [(2, "one"), (5, "five")]
    assert rows(y, "parts") == rows(x, "parts") == [(1, 2), (2, 2), (3, 5)]


@pytest.mark.parametrize("initially", ["IMMEDIATE", "DEFERRED"])
def test_a_key_that_is_not_always_unique_is_refused(
    link_databases: Sequence[str], tmp_path: Path, initially: str
) -> None:
    url = next((url for url in link_databases if "postgresql" in url), None)
    if url is None:
        pytest.skip("SQLite has no such keys")
    with linked([url, f"sqlite:///{tmp_path}/y.db"], tables=["places"], capture=True) as (x, _):
        x.execute(f"CREATE TABLE places (id INT PRIMARY KEY DEFERRABLE INITIALLY {initially}, name TEXT)")
        with pytest.raises(ConfigurationError, match="the primary key of places is DEFERRABLE"):
            drive(x.links.capture("orders"))

        x.execute("ALTER TABLE places DROP CONSTRAINT places_pkey")
        x.execute("ALTER TABLE places ADD PRIMARY KEY (id)")
        drive(x.links.capture("orders"))
        x.execute("ALTER TABLE places DROP CONSTRAINT places_pkey")
        x.execute("ALTER TABLE places ADD PRIMARY KEY (id) DEFERRABLE")
        with pytest.raises(ConfigurationError, match="is DEFERRABLE"):
            x.run()


def test_only_the_subscriber_gets_the_row_with_its_new_key(
    link_databases: Sequence[str], tmp_path: Path
) -> None:
    with subscribed(link_databases, tmp_path) as three:
        centre, ann, bob = three
        by_another_program(centre, "INSERT INTO shops VALUES (1, 'x', 'ann'), (2, 'y', 'bob')")
        settle(three)

        by_another_program(ann, "DELETE FROM shops")
        by_another_program(centre, "UPDATE shops SET id = 3 WHERE id = 1")
        settle(three)

        assert shops(ann) == [(3, "x", "ann")]
        assert shops(bob) == [(2, "y", "bob")]
        assert shops(centre) == [(2, "y", "bob"), (3, "x", "ann")]


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO named VALUES (NULL, 3)",
        "UPDATE named SET n = 4 WHERE name IS NULL",
        "DELETE FROM named WHERE name IS NULL",
        "UPDATE named SET name = 'b' WHERE name IS NULL",
        "UPDATE named SET name = NULL WHERE name = 'a'",
    ],
    ids=["insert", "update", "delete", "key-given", "key-taken"],
)
def test_a_change_of_a_row_without_a_key_is_parked(tmp_path: Path, change: str) -> None:
    urls, tables = [f"sqlite:///{tmp_path}/{name}.db" for name in "xy"], ["named"]
    with linked(urls, tables=tables, capture=True) as (x, y):
        for side in (x, y):
            side.service = partial(keep, tables=tables)
            side.execute("CREATE TABLE named (name TEXT PRIMARY KEY, n INTEGER)")
            side.execute("INSERT INTO named VALUES ('a', 1), (NULL, 2)")
            drive(side.links.capture("orders"))

        by_another_program(x, change)
        both(x, y, rounds=3)

        assert [len(drive(side.links.history.parking.list())) for side in (x, y)] == [0, 1]
