"""PostgreSQL as the ground of a chaos soak: a primary with a standby, behind PgBouncer."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chaos.ground import Trouble
from benchmarks.chaos.remembering import Losses, Memory
from benchmarks.soak_fleet import Fleet
from tests.fixtures.servers.pgbouncer import PgBouncer
from tests.fixtures.servers.postgres_pair import PostgresPair
from tests.fixtures.waiting import eventually
from triggers.testing.postgres_server import PostgresServer

#: For how long the standby does not follow before its primary dies, in seconds.
BEHIND = 0.5

#: For how long a primary is stopped, in seconds.
STALL = 3.0

#: What the first consumer on a promoted standby says: something may be lost.
MOVED = "completion did not reach it are NEW again"

#: Of how many backends one is ended, on average.
ONE_IN = 2

_END_SOME = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() * %s < 1"""


@dataclass(frozen=True, slots=True)
class PostgresGround:
    """A primary and its standby; consumers reach the primary through PgBouncer, in transaction mode."""

    pair: PostgresPair
    bouncer: PgBouncer

    @property
    def history(self) -> str:
        """The URL of the history."""
        return f"postgresql://anybody@{self.bouncer.address}/postgres"

    @property
    def supposed(self) -> str | None:
        """What is said after each failover."""
        return MOVED

    @property
    def troubles(self) -> Mapping[str, Trouble]:
        """What may happen here."""
        return {
            "backends ended": self._end_backends,
            "pooler restarted": self._restart_pooler,
            "stalled primary": self._stall,
            "crashed primary": self._crash,
            "failover": self._fail_over,
            "failover that loses": self._fail_over_and_lose,
        }

    def _end_backends(self, _fleet: Fleet, _chance: random.Random, _uuids: Sequence[str]) -> Losses:
        with self.pair.connect(self.pair.leader) as client:
            client.execute(_END_SOME, [ONE_IN])
        return Losses()

    def _restart_pooler(self, _fleet: Fleet, chance: random.Random, _uuids: Sequence[str]) -> Losses:
        self.bouncer.stop()
        time.sleep(chance.uniform(0, 1))
        self.bouncer.start()
        return Losses()

    def _stall(self, _fleet: Fleet, chance: random.Random, _uuids: Sequence[str]) -> Losses:
        stopped = self.pair.leader.backends
        _signal(stopped, signal.SIGSTOP)
        time.sleep(chance.uniform(0, STALL))
        _signal(stopped, signal.SIGCONT)
        return Losses()

    def _crash(self, _fleet: Fleet, chance: random.Random, _uuids: Sequence[str]) -> Losses:
        """Kill the primary, and start it again on its data."""
        self.pair.leader.kill()
        time.sleep(chance.uniform(0, 0.5))
        self.pair.leader.start()
        return Losses()

    def _fail_over(self, fleet: Fleet, _chance: random.Random, uuids: Sequence[str]) -> Losses:
        """End the primary in order: the standby gets all it has, and is promoted."""
        self.pair.leader.stop()
        self.pair.promote()
        return self._go_on(fleet, uuids)

    def _fail_over_and_lose(self, fleet: Fleet, chance: random.Random, uuids: Sequence[str]) -> Losses:
        """Let the primary take more writes than its standby has, kill it, and promote the standby."""
        self.pair.standby.kill()
        time.sleep(chance.uniform(0, BEHIND))
        self.pair.fail_over()
        return self._go_on(fleet, uuids)

    def _go_on(self, fleet: Fleet, uuids: Sequence[str]) -> Losses:
        """Lead the consumers to the new primary, tell what the old one knew, and make it a standby."""
        said = fleet.log().count(MOVED)
        self.bouncer.lead_to(self.pair.url_of(self.pair.leader))
        # The first one who comes says so: it must be a consumer, and not who looks here.
        eventually(lambda: fleet.log().count(MOVED) > said)
        after = Memory.of(self.pair.url_of(self.pair.leader), uuids)
        with PostgresServer(self.pair.standby.folder, fsync="off") as once_more:
            before = Memory.of(self.pair.url_of(once_more), uuids)
        self.pair.follow()
        return before.lost_in(after)


def _signal(processes: Sequence[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


@contextlib.contextmanager
def postgres_ground(folder: Path) -> Generator[PostgresGround]:
    """Start the servers."""
    own = folder / "pgbouncer"
    own.mkdir()
    folder.chmod(0o755)
    pair = PostgresPair(folder)
    try:
        pair.follow()
        with PgBouncer(own, pair.url_of(pair.leader)) as bouncer:
            yield PostgresGround(pair, bouncer)
    finally:
        pair.kill()
