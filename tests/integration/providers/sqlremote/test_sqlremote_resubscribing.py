"""If a peer subscribes to different rows, it needs an extract. Until then, nothing is sent to it."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from history.bridge import drive
from tests.integration.providers.sqlremote.captured_ends import by_another_program, recapture
from tests.integration.providers.sqlremote.link_ends import Side
from tests.integration.providers.sqlremote.subscribed_ends import (
    PLAIN,
    SHOPS,
    Three,
    settle,
    shops,
    subscribed,
)
from tests.integration.providers.sqlremote.test_sqlremote_capture_conflicts import keep
from triggers.providers.sqlremote.extraction.extract import extract
from triggers.providers.sqlremote.extraction.load import load

#: The alarm demands this command.
NEXT = "run doubtless sqlremote extract SETTINGS orders --to FILE here, and load FILE at the peer"


@pytest.fixture
def three(link_databases: Sequence[str], tmp_path: Path) -> Iterator[Three]:
    """Three ends. Each remote has one row."""
    with subscribed(link_databases, tmp_path) as made:
        by_another_program(
            made[0], "INSERT INTO shops VALUES (1, 'x', 'ann'), (2, 'y', 'bob'), (3, 'z', 'eve')"
        )
        settle(made)
        yield made


def subscribe(centre: Side, value: str, *, setup: bool = True) -> None:
    """Let Ann's remote get other rows."""
    centre.leave()
    centre.own["orders"] = {"subscription": value}
    centre.restart()
    if setup:
        drive(centre.links.setup("orders"))


def give_rows(centre: Side, remote: Side, file: Path) -> None:
    drive(extract(centre.links, "orders", file))
    drive(load(remote.links, "orders", file))
    for side in (centre, remote):
        side.leave()
        side.restart()


def stopped(side: Side, link: str = "orders") -> str:
    return side.row(link).stopped or ""


def test_a_peer_whose_subscription_changed_gets_nothing_before_an_extract(
    three: Three, tmp_path: Path
) -> None:
    centre, ann, bob = three
    subscribe(centre, "eve")
    by_another_program(centre, "UPDATE shops SET name = name || '!'")
    by_another_program(ann, "UPDATE shops SET name = 'of ann'")
    settle(three)

    assert stopped(centre).startswith("SUBSCRIPTION_CHANGED")
    assert stopped(centre).endswith(NEXT)
    assert shops(ann) == [(1, "of ann", "ann")]
    assert shops(centre)[0] == (1, "of ann", "ann"), "what the peer sends still arrives"
    assert (stopped(centre, "third"), shops(bob)) == ("", [(2, "y!", "bob")])

    give_rows(centre, ann, tmp_path / "file")
    by_another_program(centre, "UPDATE shops SET name = name || '?'")
    settle(three)
    assert [stopped(side) for side in three if "orders" in side.names] == ["", "", ""]
    assert shops(ann) == [(3, "z!?", "eve")]


def test_what_was_on_its_way_at_the_change_stops_nobody(three: Three, tmp_path: Path) -> None:
    centre, ann, _ = three
    by_another_program(centre, "UPDATE shops SET name = 'sent, and not confirmed'")
    centre.run()
    subscribe(centre, "eve")
    settle(three)

    assert stopped(centre).startswith("SUBSCRIPTION_CHANGED")
    assert (stopped(ann), shops(ann)) == ("", [(1, "sent, and not confirmed", "ann")])
    give_rows(centre, ann, tmp_path / "file")
    settle(three)
    assert [shop[0] for shop in shops(ann)] == [3]


def test_a_change_that_is_undone_needs_no_extract(three: Three) -> None:
    centre, ann, _ = three
    by_another_program(centre, "UPDATE shops SET name = 'sent'")
    centre.run()
    for value in ("eve", "bob", "ann"):
        subscribe(centre, value)
        by_another_program(centre, "UPDATE shops SET name = name || '!'")
        settle(three)

    assert stopped(centre) == stopped(ann) == ""
    assert shops(ann) == [(1, "sent!!!", "ann")]
    assert centre.row().watermark.outgoing.chain is not None, "both ends still compare all that was sent"


def test_an_extract_makes_the_change_itself(three: Three, tmp_path: Path) -> None:
    centre, ann, _ = three
    subscribe(centre, "eve", setup=False)
    give_rows(centre, ann, tmp_path / "file")
    by_another_program(centre, "UPDATE shops SET name = name || '!'")
    settle(three)

    assert stopped(centre) == ""
    assert shops(ann) == [(3, "z!", "eve")]


def test_another_reason_to_stop_stays(three: Three) -> None:
    centre, ann, _ = three
    drive(centre.links.history.watermarks.stop("orders", "for a while"))
    subscribe(centre, "eve")
    by_another_program(ann, "UPDATE shops SET name = 'of ann'")
    settle(three)

    assert stopped(centre).startswith("for a while; SUBSCRIPTION_CHANGED")
    assert shops(centre)[0] == (1, "x", "ann")


def test_a_peer_that_has_nothing_yet_may_get_other_rows(
    link_databases: Sequence[str], tmp_path: Path
) -> None:
    with subscribed(link_databases, tmp_path) as three:
        subscribe(three[0], "eve")
        by_another_program(three[0], "INSERT INTO shops VALUES (1, 'x', 'ann'), (3, 'z', 'eve')")
        settle(three)

        assert shops(three[1]) == [(3, "z", "eve")]


def test_another_column_stops_the_links_that_subscribe(three: Three, tmp_path: Path) -> None:
    centre, ann, bob = three
    for side in three:
        side.execute("ALTER TABLE shops ADD COLUMN region TEXT")
        recapture(side, *(SHOPS if side is centre else PLAIN[:2]))
        side.service = partial(keep, tables=["shops", "kinds"])
    settle(three)
    assert [stopped(centre, link) for link in centre.names] == ["", ""], "a new column changes no rows"

    recapture(centre, "shops subscribe by region", "kinds")
    by_another_program(centre, "UPDATE shops SET region = 'ann', name = name || '!'")
    settle(three)
    recapture(centre, "shops subscribe by region", "kinds")
    assert [stopped(centre, link)[:20] for link in centre.names] == ["SUBSCRIPTION_CHANGED"] * 2
    assert "another column of shops" in stopped(centre)
    assert [shop[0] for shop in (*shops(ann), *shops(bob))] == [1, 2]

    give_rows(centre, ann, tmp_path / "file")
    settle(three)
    assert [shop[0] for shop in shops(ann)] == [1, 2, 3]
    assert [stopped(centre, link)[:20] for link in centre.names] == ["", "SUBSCRIPTION_CHANGED"]
