"""One consumer takes over all messages while others are in the middle of a receive."""

from typing import Any

import pytest
from sqlalchemy import Engine, event

from history import Message
from history.bridge import drive
from tests.fixtures.sqljms import Database, opened, received, send


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("destination", ["queue://orders", "orders"])
def test_a_consumer_that_saw_messages_before_the_takeover_does_not_claim_them_after_it(
    database: Database, destination: str
) -> None:
    provider = database.provider()
    slow, quick = (opened(provider, destination, name=name) for name in ("slow", "quick"))
    send(provider, destination, *(Message(body=number) for number in range(3)))
    seen: list[str] = []

    def take_over(_c: Any, _cursor: Any, statement: str, _v: Any, _x: Any, _many: Any) -> None:
        if not seen and statement.lstrip().startswith("SELECT 1 FROM dms_") and "exclusive" in statement:
            seen.append(statement)
            drive(quick.take_over_all())

    event.listen(Engine, "after_cursor_execute", take_over)
    try:
        robbed = received(slow, 2)
    finally:
        event.remove(Engine, "after_cursor_execute", take_over)

    assert len(seen) == 1
    assert robbed == []
    assert [delivery.message.body for delivery in received(quick)] == [0, 1, 2]
