"""The messages of a join that did not become complete in time: each is parked and raises an event."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from history.shell import Shell
from history.store.joining import JoinPart, Period
from history.store.parking import Evidence, Parked, ParkedKind, parked_id
from triggers.detection.causes import Cause
from triggers.detection.table import Count, Facts, HistoryUse, Policy, decide
from triggers.events import RetrievalFailureEvent, publish
from triggers.pipeline.parking.lot import ParkingLot
from triggers.pipeline.run import UNPARKED_DELAY
from triggers.service.outcome import Outcome
from triggers.service.settings import Settings

_log = logging.getLogger(__name__)

#: The row of the decision table that each of these messages met when it came.
_ROW_NEW = decide(Facts(count=Count.FIRST, history=HistoryUse.ON), Policy()).row


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOut:
    """Parks messages that waited too long. webMethods discards them; here an operator can still run them."""

    settings: Settings
    lot: ParkingLot
    shell: Shell

    async def give_up(self, period: Period) -> Sequence[Outcome]:
        """Publish an event for each message, and park it; the store has already failed their entries.

        If a process dies in between, the events are published twice; copies in the parking lot replace each
        other.
        """
        reason = self._reason(period)
        events = [self._event(part, reason) for part in period.parts.values()]
        for event in events:
            await publish(event, self.shell)
        parked = await self.lot.park([self._copy(part, reason) for part in period.parts.values()])
        _log.warning("%s: %s", "parked" if parked else "kept", reason, extra={"trigger": self.settings.name})
        return [
            Outcome(
                status=None,
                executed=False,
                acknowledge=parked,
                reason=reason,
                row=_ROW_NEW,
                rejected=parked,
                parked=parked,
                recover_after=0.0 if parked else UNPARKED_DELAY.total_seconds(),
                event=event,
                uuid=part.uuid,
            )
            for part, event in zip(period.parts.values(), events, strict=True)
        ]

    def _reason(self, period: Period) -> str:
        missing = [name for name in self.settings.destinations if name not in period.parts]
        return (
            f"the join of activation {period.activation!r} timed out: "
            f"no message came from {', '.join(missing) or 'a destination it has no more'}"
        )

    def _event(self, part: JoinPart, reason: str) -> RetrievalFailureEvent:
        names = self.settings.destinations
        return RetrievalFailureEvent(
            trigger_name=self.settings.name,
            destination=part.destination,
            destination_index=names.index(part.destination) if part.destination in names else 0,
            delivery_count=part.message.delivery_count,
            exception_message=reason,
            cause=Cause.JOIN_TIMED_OUT,
            message=part.message,
        )

    def _copy(self, part: JoinPart, reason: str) -> Parked:
        name = self.settings.name
        return Parked(
            id=parked_id(name, part.message),
            trigger_name=name,
            kind=ParkedKind.REJECTED,
            reason=reason,
            uuid=part.uuid,
            destination=part.destination,
            message=part.message,
            evidence=Evidence(delivery_count=part.message.delivery_count, fence=part.fence),
        )
