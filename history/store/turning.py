"""The turn from one message to the next: what a store does in one call that can settle and claim at once."""

from datetime import timedelta
from typing import NamedTuple, Protocol, runtime_checkable

from history.entry import Claim, Settlement

#: Stream, consumer group and entry of a message: where it is acknowledged.
Place = tuple[bytes, bytes, bytes]

#: No message is acknowledged.
NOWHERE: Place = (b"", b"", b"")


class NextClaim(NamedTuple):
    """What is to be claimed; see :meth:`~history.store.HistoryStore.claim`."""

    uuid: str
    owner: str
    lease: timedelta | None
    time_to_live: timedelta


class Turned(NamedTuple):
    """What a turn has done. What it has not done is to be done by the usual calls, which know why.

    ``settled`` says that the run was settled as asked, ``acknowledged`` that its message is acknowledged;
    ``claim`` is None where nothing was to be claimed.
    """

    settled: bool
    acknowledged: bool
    claim: Claim | None


@runtime_checkable
class Turning(Protocol):
    """A store that settles one run, acknowledges its message and claims the next, in one round trip."""

    @property
    def turns(self) -> bool:
        """Whether it does that on the server that it has."""
        ...

    async def turn(
        self, trigger: str, done: Settlement | None, following: NextClaim | None, place: Place | None
    ) -> Turned:
        """Settle, then acknowledge if that succeeded or was not asked for, then claim.

        It may be sent twice without harm, as each of the three may be.

        Raises:
            HistoryUnavailableError: nobody knows which of them are done.
            ConfigurationError: it never will be, as the server is set.
        """
        ...

    async def server(self) -> tuple[bytes, int] | None:
        """Return what its server and the database in it are known by; None where that is not known.

        Raises:
            HistoryUnavailableError: the server is away.
        """
        ...
