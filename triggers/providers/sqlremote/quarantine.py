"""Messages that nobody of the link has signed: kept aside, whole, with an event; never applied."""

import logging
from dataclasses import dataclass

from history.message import Message
from history.parking import Parked, ParkedKind, parked_id, raw_fields
from history.sql_links import LinkHistory
from triggers.events import Cause, RetrievalFailureEvent, publish

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Parks such messages in the link's database; the same bytes once, however often they come."""

    history: LinkHistory
    link: str

    async def keep(self, data: bytes, problem: str) -> None:
        """Keep a message, and tell of it; when this returns it may be deleted from the carrier."""
        name = f"link:{self.link}"
        fields = raw_fields({b"message": data})
        stand_in = Message(body=fields["message"])
        parked = Parked(
            id=parked_id(name, stand_in),
            trigger_name=name,
            kind=ParkedKind.UNREADABLE,
            reason=problem,
            destination=name,
            raw=fields,
        )
        event = RetrievalFailureEvent(
            trigger_name=name,
            destination=name,
            destination_index=0,
            delivery_count=-1,
            exception_message=problem,
            cause=Cause.UNREADABLE,
        )
        await publish(event, blocking=True)
        await self.history.parking.park([parked])
        _log.error("a message on link %s is kept aside: %s", self.link, problem, extra={"trigger": name})
