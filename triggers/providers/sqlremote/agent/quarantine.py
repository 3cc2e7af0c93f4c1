"""Messages without a valid signature of the link: parked whole, with an event; never applied."""

import logging
import os
from dataclasses import dataclass

from history.message import Message
from history.shell import ThreadShell
from history.sql.links.history import LinkHistory
from history.store.parking import Parked, ParkedKind, encodable, parked_id, raw_fields
from triggers.events import Cause, RetrievalFailureEvent, publish

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Parks such messages in the link's database, each once: the carrier's name distinguishes equal ones."""

    history: LinkHistory
    link: str

    async def keep(self, name: str, data: bytes, problem: str) -> None:
        """Keep a message, and raise an event; when this returns it may be deleted from the carrier."""
        await self._keep({b"message": data, b"name": os.fsencode(name)}, problem)

    async def keep_name(self, name: str, kept: str, problem: str) -> None:
        """Note an unreadable message, by its name and the place where it is kept, and raise an event."""
        fields = {b"name": os.fsencode(name), b"kept": os.fsencode(kept)}
        await self._keep(fields, problem)

    async def _keep(self, raw: dict[bytes, bytes], problem: str) -> None:
        name = f"link:{self.link}"
        fields = raw_fields(raw)
        stand_in, problem = Message(body=dict(fields)), encodable(problem)
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
        await publish(event, ThreadShell())
        await self.history.parking.park([parked])
        _log.error(
            "link %s: a message was not accepted and is parked: %s",
            self.link,
            problem,
            extra={"trigger": name},
        )
