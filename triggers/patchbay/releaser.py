"""The release loop: sends delayed messages when they are due. Several processes may run it concurrently."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from history.bridge import settled
from history.errors import ConfigurationError
from history.shell import ThreadShell
from history.store.parking import Parked, ParkedKind, parked_id
from history.support.outage import Outage
from history.support.rendering import class_of, exception_info, text_of
from triggers.events import RetrievalFailureEvent, publish
from triggers.patchbay.failures import short_text
from triggers.patchbay.outputs import Outputs
from triggers.pipeline.parking.lot import ParkingLot, park_raw
from triggers.providers.provider import ProviderUnavailableError, Unreadable

if TYPE_CHECKING:
    from triggers.providers.sqljms.limbo.limbo import InLimbo, OddWaiting

_log = logging.getLogger(__name__)

#: How many messages one step takes.
BATCH = 100

#: The pause after the first failure to send a message; each further failure doubles it, up to the longest.
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=1), timedelta(minutes=10)


@dataclass(slots=True, kw_only=True)
class Releaser:
    """Releases due messages until it is over.

    A message that its port or provider refuses is tried again with growing pauses, and parked after
    ``release_attempts`` of them. While a provider is unavailable its messages wait, and this does not count.
    """

    outputs: Outputs
    lot: ParkingLot

    async def run(
        self, *, over: Callable[[], bool], pause: Callable[[float], Awaitable[None] | None]
    ) -> None:
        """Release, then wait for ``release_interval``; an unavailable database is tried again."""
        interval = max(self.outputs.file.patchbay.release_interval.total_seconds(), 0.01)
        outage = Outage(_log, "delayed messages are not released", "delayed messages are released again", {})
        while not over():
            wait = interval
            try:
                wait = 0.0 if await self.release_due() >= BATCH else interval
                outage.end()
            except Exception as error:  # noqa: BLE001  (nobody else releases: they would wait for ever)
                wait = max(interval, outage.note(error))
            if wait:
                await settled(pause(wait))

    async def release_due(self) -> int:
        """Release one batch of due messages; return how many were due.

        Raises:
            ProviderUnavailableError: the limbo's database did not answer.
        """
        if self.outputs.limbo is None:
            return 0
        await self.outputs.prepare()
        due, odd = await self.outputs.limbo.take_all(limit=BATCH)
        for row in odd:
            await self._park_odd(row)
        alive = [entry for entry in due if not _has_expired(entry)]
        if len(alive) < len(due):
            await self._drop([entry for entry in due if _has_expired(entry)])
        for _, group in groupby(alive, key=lambda entry: (entry.component, entry.port)):
            await self._release(list(group))
        return len(due) + len(odd)

    async def _release(self, group: Sequence["InLimbo"]) -> None:
        """Release messages of one port together; if that fails, separately, so that no failure spreads."""
        try:
            await self.outputs.release(group)
        except ProviderUnavailableError as error:
            for entry in group:
                await self._put_off(entry, error, counted=False)
        except Exception as error:  # noqa: BLE001  (any error of a provider: they must not be lost)
            if len(group) == 1:
                await self._refused(group[0], error)
                return
            for entry in group:
                await self._release([entry])

    async def _refused(self, entry: "InLimbo", error: Exception) -> None:
        if entry.failures + 1 < self.outputs.file.patchbay.release_attempts:
            await self._put_off(entry, error, counted=True)
            return
        name = f"{entry.component}.{entry.port}"
        parked = Parked(
            id=parked_id(name, entry.message),
            trigger_name=name,
            kind=ParkedKind.REJECTED,
            reason=f"it could not be sent {entry.failures + 1} times",
            uuid=entry.message.uuid,
            destination=name,
            message=entry.message,
            error_class=class_of(error),
            error_message=text_of(error),
        )
        if await self.lot.park([parked]) and self.outputs.limbo is not None:
            await self.outputs.limbo.take_out([entry])
            _log.error("message parked: %s: %s", parked.reason, text_of(error), extra=_extra(entry))

    async def _park_odd(self, row: "OddWaiting") -> None:
        """Park a row that is not a message, whole, with its event, so that it is not taken again."""
        limbo, name = self.outputs.limbo, "limbo"
        assert limbo is not None  # noqa: S101  (it was in it)
        problem = f"message {row.id} in limbo is unreadable: {row.problem}"
        unreadable = Unreadable(row.fields, problem, row, delivery_id=f"limbo:{row.id}")
        if not await park_raw(self.lot, unreadable, trigger=name, destination=name):
            return  # taken again when its lease is over
        event = RetrievalFailureEvent.of_unreadable(name, name, problem)
        await publish(event, ThreadShell())  # its loop has a separate thread
        await limbo.take_out([row])
        _log.error("message parked: %s", problem, extra={"trigger": name})

    async def _put_off(self, entry: "InLimbo", error: Exception, *, counted: bool) -> None:
        limbo = self.outputs.limbo
        assert limbo is not None  # noqa: S101  (it was in it)
        pause = min(FIRST_PAUSE * 2 ** min(entry.failures, 30), LONGEST_PAUSE)
        expected = isinstance(error, ConfigurationError | ProviderUnavailableError)
        info = None if expected else exception_info(error)
        _log.warning(
            "message not sent, next attempt in %s: %s",
            pause,
            text_of(error),
            exc_info=info,
            extra=_extra(entry),
        )
        await limbo.put_off(entry, pause, error=short_text(error), failed=counted)

    async def _drop(self, expired: Sequence["InLimbo"]) -> None:
        limbo = self.outputs.limbo
        assert limbo is not None  # noqa: S101  (they were in it)
        for entry in expired:
            _log.warning("message dropped: it expired before its delivery time", extra=_extra(entry))
        await limbo.take_out(expired)


def _has_expired(entry: "InLimbo") -> bool:
    expiration = entry.message.expiration
    return expiration is not None and expiration <= datetime.now(UTC)


def _extra(entry: "InLimbo") -> dict[str, object]:
    return {"trigger": f"{entry.component}.{entry.port}", "uuid": entry.message.uuid}
