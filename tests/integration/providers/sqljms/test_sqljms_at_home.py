"""doubtless asks the server whether the history is in the queue's database. The server may end meanwhile."""

from typing import Any

import pytest

from history.opening import open_history
from history.sql.database.engine import execute
from history.sql.statements.dialects import statement as statement_of
from triggers.providers.sqljms.provider import SqlJms
from triggers.providers.sqljms.receiving import connection as receiving
from triggers.providers.sqljms.tables import identity_of

QUEUE = "queue://orders"

DIE = statement_of("SELECT pg_terminate_backend(pg_backend_pid())")


async def test_a_backend_that_ends_while_it_is_asked_is_no_answer_and_the_next_one_is(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dying(connection: Any) -> int | None:
        await execute(connection, DIE)
        return await identity_of(connection)

    provider, history = SqlJms.from_url(postgres_url), open_history(postgres_url)
    receiver = await provider.open_receiver(QUEUE, subscription="book", name="one")
    with monkeypatch.context() as patched:
        patched.setattr(receiving, "identity_of", dying)
        assert await receiver.shares(history) is False

    assert await receiver.shares(history) is True
    await receiver.close()
    await history.close()
    await provider.close()
