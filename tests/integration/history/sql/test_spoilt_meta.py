"""Others have changed or deleted the rows that describe the whole SQL database."""

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from history import ConfigurationError, Message, SqlHistory
from history.bridge import drive
from triggers.providers.sqljms.provider import SqlJms

TRIGGER = "book-order"
GONE = object()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A history that has granted three fences."""
    file = tmp_path / "history.db"
    store = SqlHistory.from_url(f"sqlite:///{file}")
    claims = drive(store.claim(TRIGGER, ["done", "held", "other"], "worker-1"))
    assert drive(store.complete(TRIGGER, "done", claims[0].fence))
    yield file
    drive(store.close())


def write(file: Path, table: str, name: str, value: object) -> None:
    connection = sqlite3.connect(file)
    with connection:
        if value is GONE:
            connection.execute(f"DELETE FROM {table} WHERE name = ?", (name,))  # noqa: S608
        else:
            connection.execute(f"UPDATE {table} SET value = ? WHERE name = ?", (value, name))  # noqa: S608
    connection.close()


@pytest.mark.parametrize("value", [GONE, "xx", b"\xff", 1e30, -4, 2**63 - 1])
def test_fences_go_on_above_all_that_were_granted(
    file: Path, caplog: pytest.LogCaptureFixture, value: object
) -> None:
    write(file, "doubtless_meta", "fence", value)
    store = SqlHistory.from_url(f"sqlite:///{file}")

    with caplog.at_level(logging.CRITICAL):
        done, held, first = drive(store.claim(TRIGGER, ["done", "held", "new"], "worker-2"))
        (second,) = drive(store.claim(TRIGGER, ["newer"], "worker-2"))

    assert done.found is not None
    assert held.found is not None
    assert first.fence > 1_700_000_000_000_000, "the microseconds since 1970"
    assert second.fence == first.fence + 1
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("the row fence of the table doubtless_meta must be the last fence, and ")
    assert drive(store.complete(TRIGGER, "new", first.fence))
    drive(store.close())


@pytest.mark.parametrize("value", [GONE, "xx", b"\xff", 1e30, -4])
def test_a_version_that_cannot_be_told_is_refused_with_what_puts_it_right(file: Path, value: object) -> None:
    write(file, "doubtless_meta", "schema", value)
    store = SqlHistory.from_url(f"sqlite:///{file}")

    with pytest.raises(ConfigurationError, match="the row schema of the table doubtless_meta") as refused:
        drive(store.claim(TRIGGER, ["done"], "worker-2"))

    connection = sqlite3.connect(file)
    with connection:
        connection.execute(refused.value.remedy.partition(": ")[2])
    connection.close()
    (done,) = drive(store.claim(TRIGGER, ["done"], "worker-2"))
    assert done.found is not None
    drive(store.close())


@pytest.mark.parametrize("name", ["version", "identity"])
async def test_a_row_of_sql_jms_that_is_no_number_is_named(tmp_path: Path, name: str) -> None:
    url = f"sqlite:///{tmp_path}/messages.db"
    provider = SqlJms.from_url(url)
    await provider.send("queue://orders", [Message(body="")])
    await provider.close()
    write(tmp_path / "messages.db", "dms_schema", name, "xx")
    provider = SqlJms.from_url(url)

    with pytest.raises(ConfigurationError, match=f"the row {name} of the table dms_schema .* says 'xx'"):
        await provider.send("queue://orders", [Message(body="")])

    await provider.close()
