"""The link notices a database that was restored from a backup, and stops. A reset recovers it."""

from collections.abc import Iterator, Sequence

import pytest

from history.bridge import drive
from history.errors import ConfigurationError
from history.store.watermark import Offset
from tests.integration.providers.sqlremote.link_ends import Side, both, linked
from triggers.providers.sqlremote.links import fresh_epoch


@pytest.fixture
def pair(link_databases: Sequence[str]) -> Iterator[tuple[Side, Side]]:
    with linked(link_databases, keep_log=3600) as sides:
        yield sides


def reset_both(x: Side, y: Side) -> None:
    """Reset both directions, as after an extract: the sender's position, and the receiver's position."""
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
    assert "--confirmed 1" in stopped

    drive(x.links.history.watermarks.reset("orders", confirmed=Offset(1)))
    x.leave()
    x.restart()
    both(x, y, rounds=4)
    assert (y.got, x.p[:2]) == (["a", "b", "c"], (3, 3))


def test_what_the_log_has_no_longer_cannot_be_sent_again(link_databases: Sequence[str]) -> None:
    with linked(link_databases) as (x, y):
        for operation in "ab":
            x.commit(operation)
        both(x, y, rounds=3)
        drive(x.receiver().agent.outgoing.log.prune())

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


def test_an_end_that_was_restored_to_before_a_reset_hears_of_it_from_a_silent_peer(
    pair: tuple[Side, Side],
) -> None:
    x, y = pair
    backup = x.back_up()
    reset_both(x, y)
    both(x, y, rounds=3)

    x.restore(backup)
    both(x, y, rounds=3)

    assert "EPOCH_MISMATCH" in (x.row().stopped or "")


#: Operations that fit into one message, and that need several.
SIZES = {"single": 10, "multi-part": 1500}


@pytest.mark.parametrize(
    "link_databases", ["sqlite", pytest.param("postgres", marks=pytest.mark.prove)], indirect=True
)
@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("heard", [0, 3, 5])
@pytest.mark.parametrize("others", [0, 2, 3, 5])
def test_a_publisher_that_was_restored_in_the_middle_of_an_exchange_never_differs_in_silence(
    link_databases: Sequence[str], kind: str, heard: int, others: int
) -> None:
    """Six are applied, then three restored. Confirmations after the first ``heard`` are still under way."""
    with linked(link_databases, keep_log=3600, message_size=1000) as (x, y):
        backup = x.back_up()
        for number in range(6):
            x.commit(f"{number}", "x" * SIZES[kind])
            if number < heard:
                both(x, y, rounds=2)
            if number == 2:
                backup = x.back_up()
        for _ in range(3):
            x.run()
            y.run()
            x.clock.pass_by()
        assert len(y.got) == 12

        x.restore(backup)
        for number in range(others):
            x.commit(f"other {number}" if number < others - 1 else "5", "x" * SIZES[kind])
        both(x, y, rounds=6)

        stopped = [side.row().stopped for side in (x, y)]
        assert any(stopped), "it has gone on with other work"
        assert len(y.got) == 12, "and none of that was applied"


def test_a_database_of_an_older_version_gets_its_columns_and_goes_on(pair: tuple[Side, Side]) -> None:
    x, y = pair
    x.commit("a")
    both(x, y, rounds=3)
    for side in pair:
        side.leave()
        for table, column in (
            ("sysremoteuser", "doubtless_sent_chain"),
            ("sysremoteuser", "doubtless_received_chain"),
            ("sysremoteuser", "doubtless_subscription"),
            ("doubtless_link_log", "subscriber"),
            ("doubtless_link_changes", "subscriber"),
        ):
            side.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        side.restart()

    for operation in "bc":
        x.commit(operation)
        both(x, y, rounds=3)

    assert y.got == ["a", "b", "c"]
    assert x.row().stopped is None
    chain = x.row().watermark.outgoing.chain
    assert chain is not None
    assert chain == y.row().watermark.incoming.chain
