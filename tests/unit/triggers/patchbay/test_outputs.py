"""Messages of a service are stored in its own transaction, if it uses the same database as the limbo."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from sqlalchemy import Connection, create_engine, event

from history.bridge import drive
from history.shell import ThreadShell
from triggers.patchbay.outputs import Outputs
from triggers.providers.sqljms.tables import create, identity_of, known_identity

NOTHING = cast("Any", None)


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def outputs_at(identity: int | None) -> Outputs:
    return Outputs(NOTHING, {}, None, ThreadShell(), NOTHING, _identity=identity)


def test_a_connection_to_another_database_is_checked_once(connection: Connection) -> None:
    asked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    event.listen(connection, "before_cursor_execute", note)
    outputs = outputs_at(7)

    here = [drive(outputs.is_here(connection)) for _ in range(3)]

    assert (here, len(asked)) == ([False] * 3, 1), asked


def test_a_connection_that_was_asked_before_the_limbo_was_made_is_asked_again(connection: Connection) -> None:
    before = drive(known_identity(connection))
    drive(create(connection))

    outputs = outputs_at(drive(identity_of(connection)))

    assert (before, drive(outputs.is_here(connection))) == (None, True)
