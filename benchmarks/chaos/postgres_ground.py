"""PostgreSQL as the ground of a chaos soak: a primary, its standby, and PgBouncer before them."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from benchmarks.chaos.ground import Rules, Trouble, stalled
from benchmarks.chaos.remembering import Losses, Memory
from benchmarks.soak_fleet import Fleet
from tests.fixtures.servers.pgbouncer import PgBouncer
from tests.fixtures.waiting import eventually
from triggers.testing.postgres_server import UNPRIVILEGED_USER, PostgresServer, find_programs

#: A standby is cut off for at most so many seconds before its primary dies.
CUT_OFF = 0.4

#: Servers are stopped for at most so many seconds.
STALL = 1.0

#: One backend in so many is terminated, at random.
SPARED = 2


@dataclass(slots=True)
class PostgresGround:
    """Two servers: ``primary`` takes writes, ``standby`` follows it. A pooler is in front of the primary.

    If the standby is ``synchronous``, it has a commit before the primary answers. Both servers have the same
    superuser, ``account``.
    """

    primary: PostgresServer
    standby: PostgresServer
    pooler: PgBouncer
    account: str
    synchronous: bool
    atomic: bool

    @property
    def rules(self) -> Rules:
        """The promises that hold here: if the database loses rows, it also loses the effects in them."""
        return Rules(loses=not self.synchronous and not self.atomic, announces_all=True, atomic=self.atomic)

    @property
    def history(self) -> str:
        """The URL of the history, by way of the pooler."""
        return f"postgresql://anybody@127.0.0.1:{self.pooler.port}/postgres"

    @property
    def direct(self) -> str:
        """The URL of the primary."""
        return self.url_of(self.primary)

    def url_of(self, server: PostgresServer) -> str:
        """Return the URL of one of the servers."""
        return f"postgresql://{self.account}@127.0.0.1:{server.port}/postgres"

    @property
    def troubles(self) -> Mapping[str, Trouble]:
        """The troubles that can happen here, by name."""
        return {
            "failover": self._fail_over,
            "failover that loses": self._fail_over_and_lose,
            "primary killed": self._kill,
            "primary stalled": self._stall,
            "backends terminated": self._terminate,
            "pooler restarted": self._restart_pooler,
            "pooler stalled": self._stall_pooler,
        }

    def follow(self) -> None:
        """Copy the primary to the standby, and let the standby follow."""
        shutil.rmtree(self.standby.folder / "data", ignore_errors=True)
        programs = find_programs()
        assert programs is not None
        as_root = os.geteuid() == 0
        if as_root:
            shutil.chown(self.standby.folder, UNPRIVILEGED_USER)
        copy: list[str | Path] = [programs / "pg_basebackup", "-D", self.standby.folder / "data"]
        subprocess.run(
            [*copy, "-R", "-c", "fast", "--no-sync", "-d", self.direct],
            check=True,
            user=UNPRIVILEGED_USER if as_root else None,
            cwd=self.standby.folder,
        )
        self.standby.start()
        eventually(self._is_followed)
        if self.synchronous:
            self._wait_for("*")

    def _is_followed(self) -> bool:
        """Whether the standby has all commits so far."""
        ((now,),) = self.ask("SELECT pg_current_wal_lsn()::text")
        return bool(self.ask("SELECT 1 FROM pg_stat_replication WHERE replay_lsn >= %s::pg_lsn", now))

    def _wait_for(self, standbys: str) -> None:
        """Set the standbys that a commit waits for."""
        self.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{standbys}'")
        self.ask("SELECT pg_reload_conf()")

    def ask(self, statement: str, *values: object) -> Sequence[tuple[Any, ...]]:
        """Ask the primary."""
        with psycopg.connect(self.direct, autocommit=True) as admin:
            cursor = admin.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else ()

    def _fail_over(self, _fleet: Fleet, _chance: random.Random, uuids: Sequence[str]) -> Losses:
        eventually(self._is_followed)
        self.primary.kill()
        return self._replace(uuids)

    def _fail_over_and_lose(self, _fleet: Fleet, chance: random.Random, uuids: Sequence[str]) -> Losses:
        """Cut the standby off, let the primary take more writes, and kill it."""
        eventually(self._is_followed)
        self.standby.stop()
        time.sleep(chance.uniform(0, CUT_OFF))
        self.primary.kill()
        self.standby.start()
        return self._replace(uuids)

    def _replace(self, uuids: Sequence[str]) -> Losses:
        """Promote the standby, and return what only the dead primary knew. It becomes the new standby.

        Clients of a pooler would not notice the new server behind it, so the pooler restarts. It is down
        while the dead primary is read. Otherwise clients would go on there, and nobody would count that.
        """
        self.primary, self.standby = self.standby, self.primary
        self.ask("SELECT pg_promote()")
        eventually(lambda: self.ask("SELECT pg_is_in_recovery()") == [(False,)])
        self._wait_for("")
        after = self._look_unseen(uuids)
        self.pooler.kill()
        self.standby.start()
        before = Memory.of(self.url_of(self.standby), uuids)
        self.standby.kill()
        self.pooler.start(self.direct)
        self.follow()
        return before.lost_in(after)

    def _look_unseen(self, uuids: Sequence[str]) -> Memory:
        """Read the new primary's memory, but let the consumers notice that it is another server."""
        ((noted,),) = self.ask("SELECT value FROM doubtless_meta WHERE name = 'lineage'")
        ((fence,),) = self.ask("SELECT last_value FROM doubtless_fences")
        memory = Memory.of(self.direct, uuids)
        self.ask("UPDATE doubtless_meta SET value = %s WHERE name = 'lineage'", noted)
        self.ask("SELECT setval('doubtless_fences', %s)", fence)
        return memory

    def _kill(self, _fleet: Fleet, chance: random.Random, _uuids: Sequence[str]) -> Losses:
        self.primary.kill()
        time.sleep(chance.uniform(0, STALL))
        self.primary.start()
        eventually(self._is_followed)
        return Losses()

    def _stall(self, _fleet: Fleet, chance: random.Random, _uuids: Sequence[str]) -> Losses:
        """Stop all server processes that clients wait for."""
        pids = [int(pid) for (pid,) in self.ask("SELECT pid FROM pg_stat_activity")]
        _signal_all(pids, signal.SIGSTOP)
        time.sleep(chance.uniform(0, STALL))
        _signal_all(pids, signal.SIGCONT)
        return Losses()

    def _terminate(self, _fleet: Fleet, chance: random.Random, _uuids: Sequence[str]) -> Losses:
        pids = self.ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'")
        for (pid,) in pids:
            if chance.randrange(SPARED) == 0:
                self.ask("SELECT pg_terminate_backend(%s)", pid)
        return Losses()

    def _restart_pooler(self, _fleet: Fleet, _chance: random.Random, _uuids: Sequence[str]) -> Losses:
        self._restart()
        return Losses()

    def _restart(self) -> None:
        self.pooler.kill()
        self.pooler.start(self.direct)

    def _stall_pooler(self, _fleet: Fleet, chance: random.Random, _uuids: Sequence[str]) -> Losses:
        stalled(self.pooler.pid, chance.uniform(0, STALL))
        return Losses()


def _signal_all(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@contextlib.contextmanager
def postgres_ground(
    _folder: Path, *, synchronous: bool = False, atomic: bool = False
) -> Generator[PostgresGround]:
    """Start the servers in folders that their user can reach."""
    settings = {"fsync": "off", "max_connections": "200", "wal_retrieve_retry_interval": "200ms"}
    with contextlib.ExitStack() as running:
        folders = [
            Path(running.enter_context(tempfile.TemporaryDirectory(prefix=f"doubtless-{name}-")))
            for name in ("first", "second", "pooler")
        ]
        first, second = (PostgresServer(node, **settings) for node in folders[:2])
        pooler = PgBouncer(folders[2], backends=30)
        for server in (first, second):
            running.push(server)
        running.callback(pooler.kill)
        first.start()
        account = urlsplit(first.url).netloc.rpartition("@")[0]
        ground = PostgresGround(first, second, pooler, account, synchronous, atomic)
        ground.follow()
        pooler.start(ground.direct)
        yield ground
