"""The turn from one message to the next: settling and claiming in a single call, if a store can."""

from datetime import timedelta
from typing import NamedTuple, Protocol, runtime_checkable

from history.entry import Claim, Settlement

#: Stream, consumer group and entry of a message, to acknowledge it there.
Place = tuple[bytes, bytes, bytes]


class NextClaim(NamedTuple):
    """The terms of the next claim; see :meth:`~history.store.HistoryStore.claim`."""

    uuid: str
    owner: str
    lease: timedelta | None
    time_to_live: timedelta


class Turned(NamedTuple):
    """The result of a turn. The caller does the missing steps with the usual calls, which report the reason.

    ``settled`` means that the run was settled as asked, ``acknowledged`` that its message is acknowledged.
    ``claim`` is None if nothing was to be claimed.
    """

    settled: bool
    acknowledged: bool
    claim: Claim | None


@runtime_checkable
class Turning(Protocol):
    """A store that settles one run, acknowledges its message and claims the next, in one round trip."""

    @property
    def turns(self) -> bool:
        """Whether the present server can do it."""
        ...

    async def turn(
        self, trigger: str, done: Settlement | None, following: NextClaim | None, place: Place | None
    ) -> Turned:
        """Settle; if that succeeded or was not requested, acknowledge; then claim.

        It may be sent twice without harm, because each of the three may.

        Raises:
            HistoryUnavailableError: it is unknown which of them are done.
            ConfigurationError: with the server's settings it never will.
        """
        ...

    async def server(self) -> tuple[bytes, int] | None:
        """Return what identifies its server and the database there; None if that is unknown.

        Raises:
            HistoryUnavailableError: the server is unavailable.
        """
        ...
