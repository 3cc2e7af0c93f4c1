"""Whether a database has room for the connections of all processes that a configuration starts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from history.bridge import drive
from history.store.inspection import Room, TellingRoom
from triggers.cli.checks.findings import CheckFinding, Level

#: A process needs these at one server in addition to its running messages: for reports, leases and sweeps.
BESIDE = 3


@dataclass(slots=True)
class _Server:
    """The connections of one process to one server, and the room there."""

    room: Room
    pools: int = 0
    users: dict[str, int] = field(default_factory=dict[str, int])


class Rooms:
    """Adds up the connections to each server while the stores of a configuration are checked."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._servers: dict[str, _Server] = {}
        self._has_shared = False
        self._reported_to: set[object] = set()

    def noted(
        self, store: object, user: str, at_a_time: int, *, shared: bool = False, reports_to: object = None
    ) -> Iterable[CheckFinding]:
        """Note that ``user`` uses this many connections of a store at a time; it is not a finding yet.

        All ``shared`` ones have one pool, the pool of the consumer's own history. All that report their
        counts to one history, ``reports_to``, have one more connection to it.

        Raises:
            UnavailableError: the server does not answer.
        """
        if not isinstance(store, TellingRoom) or (room := drive(store.room())) is None:
            return ()
        server = self._servers.setdefault(room.server, _Server(room))
        if not (shared and self._has_shared):
            server.pools += room.pool
        self._has_shared = self._has_shared or shared
        if reports_to is not None and reports_to not in self._reported_to:
            self._reported_to.add(reports_to)
            server.pools += 1
        server.users[user] = min(at_a_time, room.pool)
        return ()

    def findings(self) -> Iterator[CheckFinding]:
        """Compare the sums with the room."""
        for address, server in self._servers.items():
            yield self._of_server(f"connections to {address}", server)

    def _of_server(self, of: str, server: _Server) -> CheckFinding:
        room, processes = server.room, self._processes
        needed = processes * min(server.pools, sum(server.users.values()) + BESIDE)
        most = processes * server.pools
        who = "1 process" if processes == 1 else f"{processes} processes"
        text = f"{who} may need {needed} at a time, and never open more than {most}"
        if room.limit is None:
            return CheckFinding(
                of,
                Level.OK,
                f"{text}; {room.why}, and its limits were not asked",
                f"let its pool_size be {needed} or more, and its max_client_conn {most}",
            )
        text += f"; there is room for {room.limit} ({room.why}), of which {room.used} are in use now"
        if needed <= room.limit:
            return CheckFinding(of, Level.OK, text)
        remedy = "raise that limit, put PgBouncer between, or lower concurrency or --processes"
        return CheckFinding(of, Level.WARNING, text, remedy)
