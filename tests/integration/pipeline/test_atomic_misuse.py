"""What a service may do to the session or connection that it is given, and what becomes of its message.

Whatever it does, its neighbours are booked once, the trigger is not suspended, and the message is never taken
for done without its effect.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.orm import Session

from history.entry import EntryOutcome
from tests.integration.helpers.atomic_shop import INSERT, Make, Shop
from triggers import Message

#: What a service does besides its effect: before it, or after it.
Deed = Callable[[Any], object]


def with_it(opened: Any) -> None:
    with opened:
        pass


def driver_of(connection: Connection) -> Any:
    return connection.connection.dbapi_connection


def swallowed(deed: Deed) -> Deed:
    def do(opened: Any) -> None:
        with suppress(Exception):
            deed(opened)

    return do


def run(statement: str) -> Deed:
    return lambda opened: opened.execute(text(statement))


SESSIONS: dict[str, Deed] = {
    "close": lambda session: session.close(),
    "with": with_it,
    "commit": lambda session: session.commit(),
    "rollback": lambda session: session.rollback(),
    "reset": lambda session: session.reset(),
    "invalidate": lambda session: session.invalidate(),
    "expunge": lambda session: session.expunge_all(),
    "commit of its connection": swallowed(lambda session: session.connection().commit()),
    "ROLLBACK": swallowed(run("ROLLBACK")),
    "an error that is swallowed": swallowed(run("INSERT INTO nowhere VALUES (1)")),
}

CONNECTIONS: dict[str, Deed] = {
    "close": lambda connection: connection.close(),
    "with": with_it,
    "commit": swallowed(lambda connection: connection.commit()),
    "rollback": swallowed(lambda connection: connection.rollback()),
    "invalidate": lambda connection: connection.invalidate(),
    "a driver's commit": lambda connection: driver_of(connection).commit(),
    "a driver's rollback": lambda connection: driver_of(connection).rollback(),
    "a driver's close": lambda connection: driver_of(connection).close(),
    "COMMIT": run("COMMIT"),
    "COMMIT that is refused": swallowed(run("/* mine */ COMMIT")),
    "ROLLBACK in the middle": swallowed(run("SELECT 1; ROLLBACK")),
    "release of our savepoint": swallowed(run("RELEASE SAVEPOINT doubtless_service")),
    "return to our savepoint": swallowed(run("ROLLBACK TO SAVEPOINT doubtless_service")),
    "a savepoint of its own": run("SAVEPOINT mine"),
    "an error that is swallowed": swallowed(run("INSERT INTO nowhere VALUES (1)")),
    "a history that is emptied": run("DELETE FROM doubtless_history"),
}

CASES = [
    # A rollback after the effect is the service's own word that it wants none.
    *((Session, name, "after") for name in SESSIONS if name != "rollback"),
    *((Session, name, "before") for name in SESSIONS),
    *((Connection, name, place) for name in CONNECTIONS for place in ("before", "after")),
]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0].__name__}: {case[1]} {case[2]} its effect")
def service(request: pytest.FixtureRequest) -> Callable[..., None]:
    kind, name, place = request.param
    deed = (SESSIONS if kind is Session else CONNECTIONS)[name]

    def book(message: Message, opened: Any) -> None:
        odd = str(message.uuid).startswith("odd")
        if odd and place == "before":
            deed(opened)
        opened.execute(INSERT, {"uuid": message.uuid})
        if odd and place == "after":
            deed(opened)

    book.__annotations__ = {"message": Message, "opened": kind, "return": None}
    return book


def is_settled(shop: Shop, uuid: str) -> bool:
    """Whether a message that is known as done has its effect, once; one that is parked may have it."""
    effects = shop.booked().count(uuid)
    return effects <= 1 and (shop.outcome(uuid) is not EntryOutcome.OK or effects == 1)


def test_handling_one_after_the_other_goes_on(shop: Shop, made: Make, service: Callable[..., None]) -> None:
    book = made(service)

    uuids = ("a", "odd", "b", "odd-2", "c")
    outcomes = {uuid: book.handle(Message(body={}, uuid=uuid, delivery_count=1)) for uuid in uuids}

    assert [outcomes[uuid].error for uuid in "abc"] == [None] * 3
    assert [uuid for uuid in shop.booked() if uuid in {*"abc"}] == ["a", "b", "c"]
    assert not any(outcome.suspend for outcome in outcomes.values())
    assert is_settled(shop, "odd")
    assert is_settled(shop, "odd-2")
