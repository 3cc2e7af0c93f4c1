"""Reports of a store about its server: permissions, room, and about how many entries it has."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from history.store.history import HistoryStats, HistoryStore


class Capability(StrEnum):
    """A use of a history, in words that follow "it may not"."""

    MESSAGES = "claim, renew and complete messages"
    PARKING = "park messages and decide about them"
    CONTROL = "report to operators and get their commands"
    UPKEEP = "purge what has expired"
    JOURNAL = "keep the journal"
    JOINING = "join messages"
    RESULTS = "keep results"
    FINGERPRINTS = "keep fingerprints"
    BATCHES = "claim batches of Spark and keep their progress"
    CHARTS = "keep the dashboard's charts"
    DESK = "comment on parked messages, assign them and save filters"
    SECURITY = "keep the security log"
    LOOKING = "show and forget entries"


class Refusal(NamedTuple):
    """A refused use: ``doing`` in words, the refused commands or tables, and the remedy."""

    doing: str
    refused: str
    remedy: str


@runtime_checkable
class TellingRefusals(Protocol):
    """A history that can report what its account may not do there."""

    async def refusals(self, trigger: str, capabilities: Collection[Capability]) -> Sequence[Refusal]:
        """Return the refusals, by capability, in the order of :class:`Capability`; nothing is written.

        Raises:
            UnavailableError: the server does not answer.
            NotPermittedError: the account may not ask.
        """
        ...


class Room(NamedTuple):
    """How many connections one history opens, and how many its server accepts.

    ``server`` is its address, ``pool`` the most connections of one process. ``limit`` is the most that the
    role may have there, and ``why`` explains it; None behind a pooler, because then it is unknown. ``used``
    are open now, by all clients.
    """

    server: str
    pool: int
    limit: int | None
    why: str
    used: int


@runtime_checkable
class TellingRoom(Protocol):
    """A history that knows how many connections are still possible."""

    async def room(self) -> Room | None:
        """Return the room; None if connections are not counted.

        Raises:
            UnavailableError: the server does not answer.
        """
        ...


@runtime_checkable
class Estimating(Protocol):
    """A history that counts by reading entries, and can also estimate."""

    async def about(self, trigger: str) -> HistoryStats:
        """Estimate how many entries a trigger has, in the same time for any number of them.

        Raises:
            UnavailableError: the server does not answer.
        """
        ...


@runtime_checkable
class Migrating(Protocol):
    """A history whose tables an older version may have made."""

    async def migrate(self, *, dry: bool = False) -> Sequence[str]:
        """Bring the tables up to date; return the statements, which ``dry`` does not run.

        Raises:
            UnavailableError: the server does not answer.
            NotPermittedError: the account does not own the tables.
        """
        ...


async def size_of(store: HistoryStore, trigger: str) -> HistoryStats:
    """Return how many entries a trigger has, without reading them all.

    Raises:
        UnavailableError: the server does not answer.
    """
    return await (store.about(trigger) if isinstance(store, Estimating) else store.stats(trigger))
