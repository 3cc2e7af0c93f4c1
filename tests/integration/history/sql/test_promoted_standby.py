"""A standby that is promoted without the last commits of its primary: noticed, and no fence comes twice."""

import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from history.bridge import drive
from history.contract.common import TRIGGER
from history.sql import SqlHistory
from triggers.testing.postgres_server import UNPRIVILEGED_USER, PostgresServer, find_programs

#: More than the fences that PostgreSQL logs ahead.
MANY = 100


class Pair:
    """A primary, and a standby that has stopped to follow it."""

    def __init__(self, folder: Path) -> None:
        own = folder / "standby"
        own.mkdir()
        if os.geteuid() == 0:
            shutil.chown(folder, UNPRIVILEGED_USER)
            shutil.chown(own, UNPRIVILEGED_USER)
        self.primary = PostgresServer(folder, fsync="off").start()
        self.standby = PostgresServer(own, fsync="off")
        account = urlsplit(self.primary.url).netloc.partition("@")[0]
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        self.url = f"postgresql://{account}@{hosts}/postgres?target_session_attrs=read-write"
        self._folder = own

    def copy(self) -> None:
        """Make the standby as the primary is now."""
        programs = find_programs()
        assert programs is not None
        words = [str(programs / "pg_basebackup"), "-D", str(self._folder / "data"), "-R", "-c", "fast"]
        user = UNPRIVILEGED_USER if os.geteuid() == 0 else None
        subprocess.run([*words, "-d", self.primary.url], check=True, user=user, cwd=self._folder)

    def fail_over(self) -> None:
        """Kill the primary, and promote the standby."""
        self.primary.kill()
        self.standby.start()
        url = self.primary.url.replace(str(self.primary.port), str(self.standby.port))
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("SELECT pg_promote()")


@pytest.fixture
def pair(postgres_folder: Path) -> Iterator[Pair]:
    pair = Pair(postgres_folder)
    yield pair
    for server in (pair.primary, pair.standby):
        if server.running:
            server.kill()


@pytest.mark.parametrize("client", ["new", "old"])
def test_no_fence_is_granted_again_after_a_promotion(
    pair: Pair, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqlHistory.from_url(pair.url)
    (kept,) = drive(store.claim(TRIGGER, ["kept"], "worker"))
    assert drive(store.complete(TRIGGER, "kept", kept.fence))
    pair.copy()
    lost = drive(store.claim(TRIGGER, [f"lost-{n}" for n in range(MANY)], "worker"))
    pair.fail_over()
    if client == "new":
        drive(store.close())
        store = SqlHistory.from_url(pair.url)

    with caplog.at_level(logging.WARNING):
        claims = drive(store.claim(TRIGGER, ["lost-1", "kept"], "worker-2"))

    assert [claim.found is None for claim in claims] == [True, False]
    assert claims[0].fence > max(claim.fence for claim in lost)
    assert "on another server than before" in caplog.text
    drive(store.close())


def test_a_server_that_only_restarts_is_the_same(
    private_postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    def fence(uuid: str) -> int:
        store = SqlHistory.from_url(private_postgres.url)
        (claim,) = drive(store.claim(TRIGGER, [uuid], "worker"))
        drive(store.close())
        return claim.fence

    first = fence("u1")
    private_postgres.restart()

    with caplog.at_level(logging.WARNING):
        assert fence("u2") == first + 1
    assert "another server" not in caplog.text
