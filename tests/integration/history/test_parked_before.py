"""What an older version has parked: without labels, without their tables, under ids of another make."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from history import Parked, open_history
from history.bridge import drive
from history.contract.parking import labels_once, parked
from history.redis.connection.client import keys_of
from history.sql.database.engine import open_engine
from history.store import Decided, DecisionKind, OperatorDecision
from tests.fixtures.histories import with_store
from tests.fixtures.servers.redis import connected

OLD = [parked(number, reason=f"reason {number}") for number in range(30)]


def park_in_redis(url: str, messages: list[Parked]) -> None:
    """Do as older versions do."""
    with connected(url) as client:
        client.sadd("doubtless:triggers", "book-order")
        whole, order = keys_of("book-order", "parked", "parked:order")
        client.zadd(order, {message.id: message.parked_at.timestamp() for message in messages})
        client.hset(
            whole, mapping={message.id: message.model_dump_json(exclude={"copies"}) for message in messages}
        )


@pytest.fixture(params=["redis", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        url = str(request.getfixturevalue("redis_url"))
        park_in_redis(url, OLD)
        return url
    url = (
        f"sqlite:///{tmp_path}/history.db"
        if request.param == "sqlite"
        else str(request.getfixturevalue("postgres_url"))
    )
    with_store(url, lambda store: store.parking.park(OLD))
    engine = open_engine(url, asyncio=False)
    assert isinstance(engine, Engine)
    with engine.begin() as connection:
        for table in ("doubtless_parked_labels", "doubtless_decisions", "doubtless_parked_uuids"):
            connection.execute(text(f"DROP TABLE {table}"))
    engine.dispose()
    return url


def test_what_older_versions_have_parked_is_listed_walked_counted_and_decided(place: str) -> None:
    store = open_history(place)

    labels = drive(labels_once(store))
    listed = drive(store.parking.list())
    drive(store.parking.park([OLD[1]]))
    decision = OperatorDecision(kind=DecisionKind.DISCARD, by="ops")
    answers = drive(store.parking.decide("book-order", decision, [Decided(OLD[0].id, None)]))

    assert [(label.id, label.reason) for label in labels] == [(one.id, one.reason) for one in OLD]
    assert (list(listed), list(answers)) == (OLD, [True])
    assert [label.id for label in drive(labels_once(store))] == [one.id for one in OLD[1:]]
    drive(store.close())


def test_what_older_versions_have_parked_is_found_by_its_uuid_beside_what_is_parked_now(place: str) -> None:
    store = open_history(place)
    drive(store.parking.park([OLD[1]]))

    for old in OLD[:3]:
        assert [label.id for label in drive(store.parking.of_uuid(old.uuid or ""))] == [old.id]
    drive(store.close())


def test_a_copy_that_an_older_worker_replaced_is_shown_as_it_is_now(redis_url: str) -> None:
    store = open_history(redis_url)
    drive(store.parking.park([OLD[0]]))
    newer = OLD[0].model_copy(update={"reason": "again", "parked_at": OLD[5].parked_at})
    park_in_redis(redis_url, [newer])

    (label,) = drive(labels_once(store))

    assert (label.reason, label.parked_at) == ("again", newer.parked_at)
    drive(store.close())
