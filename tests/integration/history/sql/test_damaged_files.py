"""A SQLite file that is damaged while a process uses it: messages wait, and ``handle`` does not raise."""

from pathlib import Path

import pytest
from sqlalchemy import Connection

from history import HistoryUnavailableError
from triggers import Message, trigger


def damage(file: Path) -> None:
    for part in file.parent.glob(f"{file.name}*"):
        part.write_bytes(b"x" * part.stat().st_size)


@pytest.mark.parametrize("asyncio", [False, True], ids=["blocking", "asyncio"])
async def test_a_file_that_is_damaged_later_is_an_unavailable_history(
    tmp_path: Path, *, asyncio: bool
) -> None:
    file = tmp_path / "history.sqlite3"

    @trigger("queue", name="orders", history=f"sqlite:///{file}")
    def run(_message: Message) -> None:
        pass

    async def handle(uuid: str) -> object:
        message = Message(body={}, uuid=uuid)
        return (await run.ahandle(message) if asyncio else run.handle(message)).error

    assert await handle("u1") is None
    damage(file)

    assert isinstance(await handle("u2"), HistoryUnavailableError)
    assert isinstance(await handle("u1"), HistoryUnavailableError)
    await run.aclose()


def test_a_transacted_trigger_recovers_as_well(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite3"

    @trigger("queue", name="orders", history=f"sqlite:///{file}", transacted=True)
    def run(_message: Message, _connection: Connection) -> None:
        pass

    assert run.handle(Message(body={}, uuid="u1")).executed
    damage(file)
    outcome = run.handle(Message(body={}, uuid="u2"))

    assert isinstance(outcome.error, HistoryUnavailableError)
    assert (outcome.row, outcome.acknowledge, outcome.suspend) == (13, False, True)
