"""Redis as the ground of a chaos soak: watched by Sentinels, and as a Cluster."""

import contextlib
import random
import shutil
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chaos.ground import Rules, Trouble, stalled
from benchmarks.chaos.remembering import Losses, Memory
from benchmarks.soak_fleet import Fleet
from benchmarks.soak_service import NAME
from tests.fixtures.backups import backup_of
from tests.fixtures.servers.redis import connected
from tests.fixtures.servers.redis_cluster import SlotMove, cluster_client, cluster_of_three, is_ready
from tests.fixtures.servers.redis_sentinel import Watched, watched_redis
from tests.fixtures.waiting import eventually
from triggers.testing.redis_server import RedisServer

#: Sentinels elect another master after so many milliseconds of silence. This is long enough that they do not
#: elect one without a fault on a busy machine.
DOWN_AFTER = 2_000

#: A master is stopped for at most so many seconds.
UNNOTICED = 0.8

#: A replica is cut off for at most so many seconds before its master dies.
CUT_OFF = 0.4

#: The jumps of the servers' clocks, in seconds. A lease of the soak is one second.
JUMP = 20


@dataclass(frozen=True, slots=True)
class SentinelGround:
    """A master, its replica and three Sentinels. The test may make the servers' clocks jump.

    With ``confirmed`` writes a failover loses no write that was answered, because a replica has each of them.
    Then the test does not restore backups, which are older.
    """

    folder: Path
    watched: Watched
    jumps: bool
    confirmed: bool = False

    @property
    def rules(self) -> Rules:
        """The promises that hold here."""
        return Rules(loses=not self.confirmed)

    @property
    def history(self) -> str:
        """The URL of the history."""
        return self.watched.url + ("?durability=replicas:1" if self.confirmed else "")

    @property
    def direct(self) -> str:
        """The URL without the option ``durability``."""
        return self.watched.url

    @property
    def troubles(self) -> Mapping[str, Trouble]:
        """The troubles that can happen here, by name."""
        troubles: dict[str, Trouble] = {
            "failover": self._fail_over,
            "failover that loses": self._fail_over_and_lose,
            "stalled master": self._stall,
        }
        if not self.confirmed:
            troubles["restored backup"] = self._restore
        return {**troubles, "clock jump": self._jump} if self.jumps else troubles

    def _fail_over(self, _fleet: Fleet, _chance: random.Random, uuids: Sequence[str]) -> Losses:
        return self._replace(self.watched.fail_over(), uuids)

    def _fail_over_and_lose(self, _fleet: Fleet, chance: random.Random, uuids: Sequence[str]) -> Losses:
        """Cut the replica off, let the master take more writes, and kill it."""
        with connected(self.watched.leader.url) as client:
            # It comes back by itself, about once a second.
            client.client_kill_filter(_type="replica")
        time.sleep(chance.uniform(0, CUT_OFF))
        return self._replace(self.watched.kill_master(), uuids)

    def _replace(self, dead: RedisServer, uuids: Sequence[str]) -> Losses:
        """Bring the dead server back, and return what it knew and the new master does not."""
        after = Memory.of(self.watched.leader.url, uuids)
        grave = self.folder / "grave"
        shutil.copytree(dead.folder, grave)
        with RedisServer(grave) as once_more:
            before = Memory.of(once_more.url, uuids)
        shutil.rmtree(grave)
        self.watched.bring_back(dead)
        return before.lost_in(after)

    def _stall(self, _fleet: Fleet, chance: random.Random, _uuids: Sequence[str]) -> Losses:
        stalled(self.watched.leader.pid, chance.uniform(0, UNNOTICED))
        return Losses()

    def _restore(self, fleet: Fleet, chance: random.Random, uuids: Sequence[str]) -> Losses:
        """Restore the data of half a second ago."""
        url = self.watched.leader.url
        with fleet.paused():
            restore = backup_of(url)
        time.sleep(chance.uniform(0.1, 1))
        with fleet.paused():
            before = Memory.of(url, uuids)
            restore()
            after = Memory.of(url, uuids)
        return before.lost_in(after)

    def _jump(self, _fleet: Fleet, chance: random.Random, _uuids: Sequence[str]) -> Losses:
        """Move both servers' clocks. In between, Sentinels consider their link down, and elect nobody."""
        seconds = chance.randint(-JUMP, JUMP)
        set_clock(self.folder / "clock", seconds)
        eventually(lambda: all(abs(_ahead(server) - seconds) < 1 for server in self.watched.servers))
        return Losses()


@contextlib.contextmanager
def sentinel_ground(folder: Path, *, confirmed: bool = False) -> Generator[SentinelGround]:
    """Start the servers. Their clocks jump if libfaketime is installed."""
    library, clock = _faketime(), folder / "clock"
    set_clock(clock, 0)
    with _watched(folder, _moved_by(library, clock)) as watched:
        yield SentinelGround(folder, watched, jumps=library is not None, confirmed=confirmed)


def _watched(folder: Path, environment: Mapping[str, str]) -> contextlib.AbstractContextManager[Watched]:
    return watched_redis(folder, down_after=DOWN_AFTER, environment=environment, appendfsync="everysec")


def _ahead(server: RedisServer) -> float:
    """Return the seconds by which the clock of a server differs from this machine's clock."""
    with connected(server.url) as client:
        seconds, microseconds = client.time()
    return float(seconds + microseconds / 1e6 - time.time())


def set_clock(clock: Path, seconds: int) -> None:
    """Set the time shift of the servers. Write it in one step, because they may read it at any moment."""
    new = clock.with_suffix(".new")
    new.write_text(f"{seconds:+d}\n")
    new.replace(clock)


def _faketime() -> Path | None:
    return next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)


def _moved_by(library: Path | None, clock: Path) -> Mapping[str, str]:
    """Return an environment in which the file ``clock`` shifts a process's clock, but not its durations."""
    if library is None:
        return {}
    return {
        # Use the C library's allocator: the allocator of Debian's Redis asks for the time too early.
        "LD_PRELOAD": f"{library} {library.parent.parent / 'libc.so.6'}",
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


@dataclass(frozen=True, slots=True)
class ClusterGround:
    """Three masters without replicas. Each writes to disk."""

    servers: Sequence[RedisServer]

    @property
    def history(self) -> str:
        """The URL of the history."""
        return "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    @property
    def rules(self) -> Rules:
        """The promises that hold here."""
        return Rules()

    @property
    def direct(self) -> str:
        """The URL of the history."""
        return self.history

    @property
    def troubles(self) -> Mapping[str, Trouble]:
        """The troubles that can happen here, by name."""
        return {"slot move": self._move, "node killed": self._kill, "stalled node": self._stall}

    def _move(self, _fleet: Fleet, _chance: random.Random, _uuids: Sequence[str]) -> Losses:
        """Move the trigger's slot to another node, key by key, while it is used."""
        # A new client, because a client that saw an earlier move may still use the slot's old node.
        with contextlib.closing(cluster_client(self.servers[0].port)) as client:
            move = SlotMove(client, f"doubtless:{{{NAME}}}:history")
            move.begin()
            # New keys appear while others move.
            while left := move.left:
                for key in left:
                    move.move(key)
            move.end()
        return Losses()

    def _kill(self, _fleet: Fleet, chance: random.Random, _uuids: Sequence[str]) -> Losses:
        server = chance.choice(self.servers)
        server.kill()
        time.sleep(chance.uniform(0, 0.5))
        server.start()
        eventually(lambda: is_ready(self.servers))
        return Losses()

    def _stall(self, _fleet: Fleet, chance: random.Random, _uuids: Sequence[str]) -> Losses:
        stalled(chance.choice(self.servers).pid, chance.uniform(0, 1))
        return Losses()


@contextlib.contextmanager
def cluster_ground(folder: Path) -> Generator[ClusterGround]:
    """Start three nodes."""
    folders = [folder / f"node-{number}" for number in range(3)]
    for node in folders:
        node.mkdir()
    with cluster_of_three(folders) as servers:
        yield ClusterGround(servers)
