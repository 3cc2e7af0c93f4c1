"""Extract and load are killed before and after their commit: no row is lost, and none is there twice."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from history.bridge import drive
from history.errors import ConfigurationError
from history.store.watermark import Watermark
from tests.fixtures.waiting import patience
from tests.integration.providers.sqlremote.link_ends import Side, both, linked
from triggers.providers.sqlremote.extraction.extract import extract
from triggers.providers.sqlremote.extraction.load import load

pytestmark = [pytest.mark.crash, pytest.mark.prove]


def keep(operations: list[Any], connection: Connection) -> None:
    for operation in operations:
        connection.execute(text("INSERT INTO orders VALUES (:id)"), {"id": operation})


def order(side: Side, name: str) -> None:
    with side.engine.begin() as connection:
        keep([name], connection)
    side.commit(name)


def ids(side: Side) -> list[str]:
    return [row.id for row in side.query("SELECT id FROM orders ORDER BY id")]


def killed(side: Side, folder: Path, moment: str, what: str, file: Path) -> Watermark:
    """Let a process of this end die; return the watermark of the link's row after that."""
    settings = folder / f"{side.name}.toml"
    settings.write_text(
        f'database = "{side.url}"\n[links.orders]\ncarrier = "file:///nowhere"\ninbox = "{side.name}"\n'
        f'outbox = "{side.peer}"\ntables = ["orders"]\n'
    )
    command = [sys.executable, "-m", "tests.crash.victims.extracting", moment, what, str(settings), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(120.0), check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return side.row().watermark


def test_who_extracts_or_loads_may_die_at_any_moment(link_databases: Sequence[str], tmp_path: Path) -> None:
    with linked(link_databases, tables=["orders"]) as (x, y):
        for side in (x, y):
            side.service = keep
            side.execute("CREATE TABLE orders (id VARCHAR(9) PRIMARY KEY)")
        order(x, "a")
        both(x, y, rounds=2)
        x.execute("INSERT INTO orders VALUES ('b')")  # which y was never sent
        file = tmp_path / "orders.extract"
        before, theirs = x.row().watermark, y.row().watermark

        assert killed(x, tmp_path, "inside", "extract", file) == before
        assert killed(x, tmp_path, "behind", "extract", file) != before
        assert not file.exists(), "the process died before the file was complete"
        drive(extract(x.links, "orders", file))
        order(x, "c")

        assert killed(y, tmp_path, "inside", "load", file) == theirs
        assert ids(y) == ["a"]
        assert killed(y, tmp_path, "behind", "load", file) != theirs
        assert ids(y) == ["a", "b"]
        with pytest.raises(ConfigurationError, match="was loaded already"):
            drive(load(y.links, "orders", file))

        for side in (x, y):
            side.leave()
            side.restart()
        order(y, "d")
        both(x, y, rounds=4)
        assert ids(x) == ids(y) == ["a", "b", "c", "d"]
        assert (x.row().stopped, y.row().stopped) == (None, None)
