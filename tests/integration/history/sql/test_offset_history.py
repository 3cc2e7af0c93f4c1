"""Offsets as a history: two consumers of one partition see each other's work, message by message."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text

from history import Claim, EntryOutcome, Fence, Settlement, State, TransactionConflictError, Uuid
from history.bridge import drive
from history.sql import OffsetHistory
from history.sql.offsets.history import OffsetIdentity
from history.sql.offsets.position import Position
from history.sql.offsets.rows import Positions
from history.sql.offsets.seen import Place
from tests.fixtures.databases import engine_at

PLACE = Place("orders:book", "orders", 0)


@pytest.fixture
def engine(sql_database: str) -> Iterator[Engine]:
    # Each statement commits by itself, so that two consumers can also take turns on SQLite.
    with engine_at(sql_database, isolation_level="AUTOCOMMIT") as engine:
        yield engine


@pytest.fixture
def history(engine: Engine) -> OffsetHistory:
    history = OffsetHistory(engine)
    drive(history.offsets().begin(PLACE.group, PLACE.topic, {0: Position(3, ((5, 6),))}))
    return history


def uuid_of(offset: int, number: int = 0) -> Uuid:
    return Uuid(OffsetIdentity(Place(PLACE.group, PLACE.topic, number), offset).uuid)


def claim(history: OffsetHistory, *offsets: int) -> list[Claim]:
    return list(drive(history.claim("book", [uuid_of(offset) for offset in offsets], "me")))


def settle(history: OffsetHistory, *offsets: int, outcome: EntryOutcome | None = EntryOutcome.OK) -> None:
    wishes = [Settlement(uuid_of(offset), Fence(offset + 1), outcome, "me") for offset in offsets]
    assert all(drive(history.settle("book", wishes)))


def position(history: OffsetHistory) -> Position | None:
    found: Positions = drive(history.offsets().read(PLACE.group, PLACE.topic, [0]))
    return found.get(0)


def test_what_is_settled_is_a_duplicate_and_all_else_is_new(engine: Engine, history: OffsetHistory) -> None:
    with engine.connect() as connection:
        claims = claim(history.joined(connection), 2, 3, 4, 5, 6, 7)

    assert [one.found is None for one in claims] == [False, True, True, False, False, True]
    assert {one.found.state for one in claims if one.found is not None} == {State.COMPLETED}


def test_messages_are_settled_in_any_order(engine: Engine, history: OffsetHistory) -> None:
    with engine.connect() as connection:
        view = history.joined(connection)
        claim(view, 3, 4, 8)
        settle(view, 8)
        assert position(history) == Position(3, ((5, 6), (8, 8)))
        settle(view, 4, 3)

    assert position(history) == Position(7, ((8, 8),))
    assert entries(engine) == 0


def test_of_two_consumers_that_have_a_message_the_second_commits_nothing(
    engine: Engine, history: OffsetHistory
) -> None:
    with engine.connect() as first, engine.connect() as second:
        zombie, successor = history.joined(first), OffsetHistory(engine).joined(second)
        assert [one.found for one in (*claim(zombie, 3, 4), *claim(successor, 3))] == [None] * 3
        settle(successor, 3)

        with pytest.raises(TransactionConflictError, match="another consumer has settled it"):
            settle(zombie, 4, 3)

    assert position(history) == Position(4, ((5, 6),))


def test_what_is_released_stays_new(engine: Engine, history: OffsetHistory) -> None:
    with engine.connect() as connection:
        view = history.joined(connection)
        claim(view, 3)
        settle(view, 3, outcome=None)
        (again,) = claim(history.joined(connection), 3)

    assert again.found is None
    assert position(history) == Position(3, ((5, 6),))


def test_a_failure_that_is_given_up_has_an_entry_and_its_offset_stays(
    engine: Engine, history: OffsetHistory
) -> None:
    with engine.connect() as connection:
        view = history.joined(connection)
        claim(view, 3)
        settle(view, 3, outcome=EntryOutcome.FAILED)
        (again,) = claim(history.joined(connection), 3)

    assert again.found is not None
    assert again.found.outcome is EntryOutcome.FAILED
    assert (position(history), entries(engine)) == (Position(3, ((5, 6),)), 1)


@pytest.mark.parametrize(
    "change", ["UPDATE doubtless_offsets SET next_offset = 1", "DELETE FROM doubtless_offsets"]
)
def test_nothing_is_stored_in_a_row_that_has_gone_back(
    engine: Engine, history: OffsetHistory, change: str
) -> None:
    history.seen.begin(PLACE, 3)
    with engine.connect() as connection:
        view = history.joined(connection)
        claim(view, 7)
        connection.execute(text(change))

        with pytest.raises(TransactionConflictError, match="has gone back"):
            settle(view, 7)

    assert history.seen.has_gone_back(PLACE)


def test_partitions_of_one_transaction_have_a_row_each(engine: Engine, history: OffsetHistory) -> None:
    drive(history.offsets().begin(PLACE.group, PLACE.topic, {1: Position(0)}))
    with engine.connect() as connection:
        view = history.joined(connection)
        uuids = [uuid_of(0, 1), uuid_of(3, 0), uuid_of(1, 1)]
        claims = drive(view.claim("book", uuids, "me"))
        wishes = [
            Settlement(uuid, one.fence, EntryOutcome.OK) for uuid, one in zip(uuids, claims, strict=True)
        ]
        assert all(drive(view.settle("book", wishes)))

    found = drive(history.offsets().read(PLACE.group, PLACE.topic, [0, 1]))
    assert found == {0: Position(4, ((5, 6),)), 1: Position(2)}


def entries(engine: Engine) -> int:
    count = text("SELECT COUNT(*) FROM doubtless_history WHERE trigger_name > ''")
    with engine.connect() as connection:
        return int(connection.execute(count).scalar_one())
