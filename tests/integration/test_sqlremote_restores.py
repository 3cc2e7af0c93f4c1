"""A database that was restored from a backup is noticed, stops the link, and a reset recovers it."""

from collections.abc import Iterator, Sequence

import pytest

from history.bridge import drive
from history.errors import ConfigurationError
from history.watermark import Offset
from tests.integration.linked import Side, both, linked
from triggers.providers.sqlremote.links import fresh_epoch


@pytest.fixture
def pair(link_databases: Sequence[str]) -> Iterator[tuple[Side, Side]]:
    with linked(link_databases, keep_log=3600) as sides:
        yield sides


def reset_both(x: Side, y: Side) -> None:
    """Begin anew, as after an extract: what each sends, and what the other has of that."""
    for one, other in ((x, y), (y, x)):
        row = drive(one.links.history.watermarks.reset("orders", epoch=fresh_epoch()))
        begin = row.watermark.outgoing.epoch, row.watermark.outgoing.log_sent
        drive(other.links.history.watermarks.reset("orders", peer=begin))
    for side in (x, y):
        side.leave()
        side.restart()


def test_a_subscriber_that_was_restored_stops_its_publisher(pair: tuple[Side, Side]) -> None:
    x, y = pair
    x.commit("a")
    both(x, y, rounds=2)
    backup = y.back_up()
    x.commit("b")
    both(x, y, rounds=2)

    y.restore(backup)
    x.commit("c")
    both(x, y, rounds=4)

    assert y.got == ["a"], "nothing is applied over the gap"
    stopped = x.row().stopped or ""
    assert "SUBSCRIBER_REGRESSED" in stopped
    assert "it was restored from a backup" in stopped
    assert "set confirm_sent back to 1" in stopped

    drive(x.links.history.watermarks.reset("orders", confirmed=Offset(1)))
    x.leave()
    x.restart()
    both(x, y, rounds=4)
    assert y.got == ["a", "b", "c"]
    assert x.p[:2] == (3, 3)


def test_what_the_log_has_no_longer_cannot_be_sent_again(link_databases: Sequence[str]) -> None:
    with linked(link_databases) as (x, y):
        for operation in "ab":
            x.commit(operation)
        both(x, y, rounds=3)
        drive(x.receiver().agent.sending.log.prune())

        with pytest.raises(ConfigurationError, match="extract the peer anew"):
            drive(x.links.history.watermarks.reset("orders", confirmed=Offset(1)))


def test_a_publisher_that_was_restored_is_stopped_by_what_its_peer_has(pair: tuple[Side, Side]) -> None:
    x, y = pair
    backup = x.back_up()
    for operation in "ab":
        x.commit(operation)
    both(x, y, rounds=2)

    x.restore(backup)
    x.commit("other work")
    both(x, y, rounds=3)

    assert "AHEAD_OF_LOG" in (x.row().stopped or "")
    assert y.got == ["a", "b"]

    reset_both(x, y)
    x.commit("c")
    both(x, y, rounds=3)
    assert y.got == ["a", "b", "c"]


def test_a_publisher_that_was_restored_and_has_gone_on_is_stopped_by_its_peer(
    pair: tuple[Side, Side],
) -> None:
    x, y = pair
    backup = x.back_up()
    for operation in "ab":
        x.commit(operation)
    both(x, y, rounds=2)

    x.restore(backup)
    for operation in ("other", "work", "beyond"):
        x.commit(operation)
    both(x, y, rounds=3)

    assert y.got == ["a", "b"]
    assert "LOG_DIFFERS" in (y.row().stopped or "")
    assert "it was restored from a backup" in (y.row().stopped or "")

    reset_both(x, y)
    y.commit("back")
    both(x, y, rounds=3)
    assert x.got == ["back"]


def test_a_new_epoch_of_the_peer_stops_the_link(pair: tuple[Side, Side]) -> None:
    x, y = pair
    x.commit("a")
    both(x, y, rounds=2)

    drive(x.links.history.watermarks.reset("orders", epoch=fresh_epoch()))
    x.leave()
    x.restart()
    x.commit("b")
    both(x, y, rounds=2)

    assert "EPOCH_MISMATCH" in (y.row().stopped or "")
    assert y.got == ["a"]
