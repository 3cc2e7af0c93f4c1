"""A link that is new does not begin at the beginning of a log if that would miss or repeat work."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from history.bridge import drive
from history.errors import ConfigurationError
from tests.integration.providers.sqlremote.link_ends import Side, both, linked
from triggers.cli.sqlremote.work import started
from triggers.providers.sqlremote import Publication
from triggers.providers.sqlremote.extraction.extract import extract
from triggers.providers.sqlremote.extraction.load import load


@pytest.fixture
def pair(link_databases: Sequence[str]) -> Iterator[tuple[Side, Side]]:
    with linked(link_databases, tables=["got"]) as sides:
        yield sides


def prune(side: Side) -> None:
    drive(side.receiver().agent.outgoing.log.prune(timedelta(0)))


def set_up(side: Side, *links: str) -> None:
    side.leave()
    side.names = links
    side.restart()
    for link in links:
        drive(side.links.setup(link))


def revoke(side: Side, link: str = "orders") -> None:
    side.leave()
    side.restart()
    assert drive(side.links.history.watermarks.revoke(link))


def test_a_new_link_of_a_log_that_was_deleted_in_part_waits_for_an_extract(
    pair: tuple[Side, Side], tmp_path: Path
) -> None:
    x, y = pair
    x.commit("a")
    both(x, y, rounds=3)
    prune(x)
    x.commit("b")

    set_up(x, "orders", "third")
    for _ in range(3):
        x.run("third")
    stopped = x.row("third").stopped or ""

    assert stopped.startswith("EXTRACT_NEEDED")
    assert "doubtless sqlremote extract SETTINGS third" in stopped
    assert x.row("third").watermark.outgoing.send_count == 0
    assert x.row("orders").stopped is None
    with pytest.raises(ConfigurationError, match="third waits for an extract of its peer"):
        started(x.links, "third")
    drive(extract(x.links, "third", tmp_path / "extract"))
    set_up(x, "orders", "third")
    assert x.row("third").stopped is None


def test_a_new_link_of_a_whole_log_sends_it_from_the_beginning(pair: tuple[Side, Side]) -> None:
    x, y = pair
    x.commit("a")
    both(x, y, rounds=3)
    prune(x)
    with x.engine.begin() as connection:
        Publication("others").append(connection, "b")

    x.own = {"third": {"publication": "others"}}
    set_up(x, "orders", "third")
    x.run("third")

    assert x.row("third").stopped is None
    assert x.row("third").watermark.outgoing.send_count > 0


@pytest.mark.parametrize("link", ["orders", "third"])
def test_a_revoked_link_that_is_added_again_applies_no_old_message(
    pair: tuple[Side, Side], tmp_path: Path, link: str
) -> None:
    x, y = pair
    y.commit("old")
    y.run()
    revoke(x)

    x.own = {"third": {"publication": "others", "inbox": "x", "outbox": "y"}}
    set_up(x, link)
    x.run(link)

    assert x.got == []
    assert f"doubtless sqlremote extract SETTINGS {link}" in (x.row(link).stopped or "")
    drive(extract(x.links, link, tmp_path / "extract"))
    y.leave()
    y.restart()
    drive(load(y.links, "orders", tmp_path / "extract", discard=True))
    set_up(x, link)
    y.restart()
    y.commit("new")
    for _ in range(3):
        x.run(link)
        y.run()
        x.clock.pass_by()
    assert x.got == ["new"]


def test_the_log_of_an_older_version_that_was_deleted_in_part_is_known_as_such(
    pair: tuple[Side, Side],
) -> None:
    x, y = pair
    x.commit("a")
    both(x, y, rounds=3)
    prune(x)
    x.leave()
    with x.engine.begin() as connection:
        connection.execute(text("DROP TABLE doubtless_link_past"))
    x.restart()

    set_up(x, "orders", "third")

    assert (x.row("third").stopped or "").startswith("EXTRACT_NEEDED")
