"""What a store may tell of its server for ``doubtless doctor``: what its account may not do, and the room."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable


class Capability(StrEnum):
    """What a history is used for, in words that follow "it may not"."""

    MESSAGES = "claim, renew and complete messages"
    PARKING = "park messages and decide about them"
    CONTROL = "report to operators and take their orders"
    UPKEEP = "purge what has expired"
    JOURNAL = "keep the journal"
    JOINING = "join messages"
    RESULTS = "keep results"
    FINGERPRINTS = "keep fingerprints"
    BATCHES = "claim batches of Spark and keep their progress"
    SECURITY = "keep the security log"
    LOOKING = "show and forget entries"


class Refusal(NamedTuple):
    """What an account may not do: ``doing`` in words, the commands or tables refused, and what to do."""

    doing: str
    refused: str
    remedy: str


@runtime_checkable
class TellingRefusals(Protocol):
    """A history that can be asked what its account may not do there."""

    async def refusals(self, trigger: str, capabilities: Collection[Capability]) -> Sequence[Refusal]:
        """Return what is refused, by capability, in the order of :class:`Capability`; nothing is written.

        Raises:
            UnavailableError: the server does not answer.
            NotPermittedError: the account may not ask.
        """
        ...


class Room(NamedTuple):
    """What one history opens, and what its server takes.

    ``server`` is its address, ``pool`` the most connections of one process. ``limit`` is the most that the
    role may have there, and ``why`` says what makes it so; None where a pooler stands between, which is not
    known. ``used`` are open now, whoever has them.
    """

    server: str
    pool: int
    limit: int | None
    why: str
    used: int


@runtime_checkable
class TellingRoom(Protocol):
    """What knows for how many connections there is room."""

    async def room(self) -> Room | None:
        """Return it; None where connections are not counted.

        Raises:
            UnavailableError: the server does not answer.
        """
        ...
