"""Each remote gets the rows with its value in a column. A changed value moves the row to another remote."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from history.bridge import drive
from history.errors import ConfigurationError
from tests.integration.providers.sqlremote.captured_ends import by_another_program, is_sqlite, recapture
from tests.integration.providers.sqlremote.subscribed_ends import (
    PLAIN,
    SHOPS,
    Three,
    settle,
    shops,
    subscribed,
)
from tests.integration.providers.sqlremote.test_sqlremote_capture_conflicts import keep
from triggers.providers.sqlremote import RemoteSettings
from triggers.providers.sqlremote.capture.declared import Declared
from triggers.providers.sqlremote.comparison import compare, opened
from triggers.providers.sqlremote.extraction.extract import extract
from triggers.providers.sqlremote.extraction.load import load
from triggers.providers.sqlremote.inspection import status


@pytest.fixture
def three(link_databases: Sequence[str], tmp_path: Path) -> Iterator[Three]:
    with subscribed(link_databases, tmp_path) as made:
        yield made


def test_each_remote_gets_the_rows_of_its_value(three: Three) -> None:
    centre, ann, bob = three
    by_another_program(
        centre,
        "INSERT INTO shops VALUES (1, 'x', 'ann'), (2, 'y', 'bob'), (3, 'z', NULL), (4, 'z', '')",
        "INSERT INTO shops VALUES (5, 'z', '*')",
        "INSERT INTO kinds VALUES (1, 'for all')",
    )
    by_another_program(centre, "UPDATE shops SET name = name || '!'")
    settle(three)

    assert shops(ann) == [(1, "x!", "ann")]
    assert shops(bob) == [(2, "y!", "bob")]
    assert [len(side.query("SELECT * FROM kinds")) for side in three] == [1, 1, 1]

    by_another_program(centre, "DELETE FROM shops")
    settle(three)
    assert shops(ann) == shops(bob) == []


def test_a_row_that_moves_is_deleted_at_one_remote_and_inserted_whole_at_another(three: Three) -> None:
    centre, ann, bob = three
    by_another_program(centre, "INSERT INTO shops VALUES (1, 'x', 'ann'), (2, 'y', NULL), (3, 'z', 'bob')")
    settle(three)
    by_another_program(centre, "UPDATE shops SET rep = 'bob' WHERE id = 1")
    by_another_program(centre, "UPDATE shops SET rep = 'ann' WHERE id = 2")
    by_another_program(centre, "UPDATE shops SET rep = NULL, id = 9 WHERE id = 3")
    settle(three)

    assert shops(ann) == [(2, "y", "ann")]
    assert shops(bob) == [(1, "x", "bob")]
    by_another_program(centre, "UPDATE shops SET rep = 'bob', id = 7, name = 'new' WHERE id = 2")
    settle(three)
    assert shops(ann) == []
    assert shops(bob) == [(1, "x", "bob"), (7, "new", "bob")]


def test_a_row_that_is_replaced_moves_too(three: Three) -> None:
    centre, ann, bob = three
    if not is_sqlite(centre):
        pytest.skip("PostgreSQL has no REPLACE")
    by_another_program(centre, "INSERT INTO shops VALUES (1, 'x', 'ann'), (2, 'y', 'bob'), (3, 'z', 'ann')")
    settle(three)

    by_another_program(
        centre,
        "INSERT OR REPLACE INTO shops VALUES (1, 'moved', 'bob'), (2, 'stays', 'bob')",
        "INSERT OR IGNORE INTO shops VALUES (3, 'ignored', 'bob'), (4, 'new', 'ann')",
        "INSERT INTO shops VALUES (3, 'upserted', 'bob') ON CONFLICT DO UPDATE SET name = excluded.name",
    )
    settle(three)

    assert shops(ann) == [(3, "upserted", "ann"), (4, "new", "ann")]
    assert shops(bob) == [(1, "moved", "bob"), (2, "stays", "bob")]


@pytest.mark.parametrize("cascade", [False, True])
def test_children_move_with_their_parent(three: Three, *, cascade: bool) -> None:
    centre = three[0]
    rule = " ON DELETE CASCADE" if cascade else ""
    told = [[*SHOPS, "sales subscribe by rep"], PLAIN, PLAIN]
    for side, tables in zip(three, told, strict=True):
        side.execute(
            f"CREATE TABLE sales (id INTEGER PRIMARY KEY, shop INTEGER REFERENCES shops{rule}, rep TEXT)"
        )
        recapture(side, *tables)
        side.service = partial(keep, tables=PLAIN)
    by_another_program(
        centre,
        "INSERT INTO shops VALUES (1, 'x', 'ann')",
        "INSERT INTO sales VALUES (1, 1, 'ann'), (2, 1, 'ann')",
    )
    settle(three)
    assert [len(side.query("SELECT * FROM sales")) for side in three] == [2, 2, 0]

    by_another_program(
        centre,
        "UPDATE sales SET rep = NULL" if not cascade else "SELECT 1",
        "UPDATE shops SET rep = 'bob'",
        "UPDATE sales SET rep = 'bob'",
    )
    settle(three)
    assert [len(side.query("SELECT * FROM sales")) for side in three] == [2, 0, 2]
    assert [len(shops(side)) for side in three] == [1, 0, 1]


def test_a_remote_gives_a_row_away_and_loses_it(three: Three) -> None:
    centre, ann, bob = three
    by_another_program(ann, "INSERT INTO shops VALUES (1, 'x', 'ann'), (2, 'y', 'ann')")
    settle(three)
    by_another_program(ann, "UPDATE shops SET rep = 'bob'")
    by_another_program(ann, "UPDATE shops SET rep = 'ann' WHERE id = 1")
    settle(three)

    assert shops(centre) == [(1, "x", "ann"), (2, "y", "bob")]
    assert shops(ann) == [(1, "x", "ann")]
    assert shops(bob) == [(2, "y", "bob")]


def test_a_row_that_a_remote_inserts_for_another_end_leaves_the_remote(three: Three) -> None:
    centre, ann, bob = three
    centre.service = partial(keep, tables=SHOPS, subscription="ann")
    by_another_program(ann, "INSERT INTO shops VALUES (1, 'x', 'bob'), (2, 'y', 'ann'), (3, 'z', NULL)")
    settle(three)

    assert shops(centre) == [(1, "x", "bob"), (2, "y", "ann"), (3, "z", None)]
    assert shops(ann) == [(2, "y", "ann")]
    assert shops(bob) == [(1, "x", "bob")]


def test_a_link_without_a_value_gets_all_rows_and_moves_as_updates(three: Three) -> None:
    centre, _, bob = three
    centre.leave()
    centre.own["third"] = {}
    centre.restart()
    drive(centre.links.setup("third"))
    by_another_program(centre, "INSERT INTO shops VALUES (1, 'x', 'ann'), (2, 'y', NULL)")
    by_another_program(centre, "UPDATE shops SET rep = 'bob'")
    settle(three)

    assert shops(bob) == shops(centre) == [(1, "x", "bob"), (2, "y", "bob")]
    sent = [
        str(row[0]) for row in centre.query("SELECT operation FROM doubtless_link_log WHERE subscriber = '*'")
    ]
    assert [one.count('"operation":"UPDATE"') + one.count('"operation": "UPDATE"') for one in sent] == [1, 1]


def test_the_log_is_kept_only_for_those_who_get_what_is_in_it(three: Three) -> None:
    centre, _, bob = three
    bob.leave()
    by_another_program(centre, "INSERT INTO shops VALUES (1, 'x', 'ann')")
    settle((three[0], three[1], three[1]))

    assert drive(centre.receiver().agent.outgoing.log.prune()) == 1
    bob.restart()


def test_only_what_is_for_a_peer_counts_as_unconfirmed(three: Three) -> None:
    centre, ann, _ = three
    by_another_program(ann, "INSERT INTO shops VALUES (1, 'x', 'ann')")
    settle(three)
    by_another_program(centre, "INSERT INTO shops VALUES (2, 'y', 'bob')")
    centre.run()

    assert [row["unconfirmed"] for row in drive(status(centre.links))] == [0, 1]
    settle(three)
    assert [row["unconfirmed"] for side in three for row in drive(status(side.links))] == [0, 0, 0, 0]


def test_an_emptied_table_of_a_remote_empties_only_its_rows(three: Three) -> None:
    centre, ann, bob = three
    if is_sqlite(ann):
        pytest.skip("it has no TRUNCATE")
    by_another_program(centre, "INSERT INTO shops VALUES (1, 'x', 'ann'), (2, 'y', 'bob')")
    settle(three)
    centre.service = partial(keep, tables=SHOPS, subscription="ann")
    by_another_program(ann, "TRUNCATE shops")
    settle(three)

    assert shops(centre) == shops(bob) == [(2, "y", "bob")]


def test_an_extract_has_the_rows_of_the_subscriber_and_load_replaces_those(
    three: Three, tmp_path: Path
) -> None:
    centre, ann, _ = three
    by_another_program(centre, "INSERT INTO shops VALUES (1, 'x', 'ann'), (2, 'y', 'bob')")
    by_another_program(ann, "INSERT INTO shops VALUES (7, 'lost', 'ann')")
    drive(extract(centre.links, "orders", tmp_path / "down"))
    drive(load(ann.links, "orders", tmp_path / "down", discard=True))
    assert shops(ann) == [(1, "x", "ann")]

    ann.execute("UPDATE shops SET name = 'new'")
    begin = centre.row().watermark.outgoing.epoch, drive(centre.links.history.watermarks.end()).last
    drive(extract(ann.links, "orders", tmp_path / "up", beyond=begin))
    drive(load(centre.links, "orders", tmp_path / "up", discard=True))

    assert shops(centre) == [(1, "new", "ann"), (2, "y", "bob")]


def test_a_comparison_is_of_the_rows_of_the_subscriber(three: Three) -> None:
    centre, ann, _ = three
    by_another_program(centre, "INSERT INTO shops VALUES (1, 'x', 'ann'), (2, 'y', 'bob')")

    with opened(centre.url, SHOPS, "ann") as here, opened(ann.url, SHOPS, "ann") as there:
        assert [one.missing_there for one in compare(here, there)] == [["[1]"], []]
    settle(three)
    with opened(centre.url, SHOPS, "ann") as here, opened(ann.url, SHOPS, "ann") as there:
        assert all(one.is_equal for one in compare(here, there))


def test_a_column_that_does_not_exist_is_refused(three: Three) -> None:
    for table in ("shops subscribe by nothing", "shops(id, name) subscribe by rep"):
        with pytest.raises(ConfigurationError, match="shops has no column to subscribe by"):
            recapture(three[0], table)


def test_a_table_may_name_its_columns_and_the_one_to_subscribe_by() -> None:
    assert Declared.parse("shops (id, rep)  SUBSCRIBE  BY rep", "ann") == Declared(
        "shops", ("id", "rep"), "rep", "ann"
    )
    for words in ("shops subscribe by", "subscribe by rep"):
        with pytest.raises(ConfigurationError, match="tables"):
            Declared.parse(words)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"tables": ["shops"]}, "links.one.subscription"),
        ({"capture": False}, "links.one.subscription"),
        ({"subscription": ""}, "links.one.subscription"),
    ],
)
def test_a_value_that_no_row_can_have_is_refused(more: dict[str, Any], problem: str, tmp_path: Path) -> None:
    link = {"carrier": "file:///x", "inbox": "x", "outbox": "y", "capture": True, "subscription": "ann"}
    settings = {**link, "tables": SHOPS, **more}
    lines = [
        f"{key} = {str(value).lower() if isinstance(value, bool) else value!r}"
        for key, value in settings.items()
    ]
    file = tmp_path / "links.toml"
    file.write_text("\n".join(["database = 'sqlite://'", "[links.one]", *lines]))

    with pytest.raises(ConfigurationError, match=problem):
        RemoteSettings.load(file)
