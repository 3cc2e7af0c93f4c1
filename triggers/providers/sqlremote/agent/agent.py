"""The agent of a link: reads, applies, reports and sends, again and again, one agent for a link at a time.

The trigger applies the work: :meth:`Agent.step` hands out an
:class:`~triggers.providers.sqlremote.protocol.inbox.Apply`, and continues after :meth:`Agent.applied` says
how far it was stored.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from history.errors import HistoryUnavailableError
from history.sql.links.history import Handing, saving
from history.sql.links.watermark import LinkLostError
from triggers.providers.provider import ProviderUnavailableError
from triggers.providers.sqlremote.agent.end import AgentState
from triggers.providers.sqlremote.agent.incoming import IncomingHalf
from triggers.providers.sqlremote.agent.outgoing import OutgoingHalf
from triggers.providers.sqlremote.protocol.inbox import Apply
from triggers.providers.sqlremote.protocol.subscriber import next_poll

_log = logging.getLogger(__name__)

#: How often an agent renews its lease, and checks whether its link was stopped.
LOOK: Final = timedelta(seconds=1)

#: How often old log is deleted, and the triggers are checked.
PRUNE: Final = timedelta(seconds=10)


@dataclass(slots=True)
class Agent:
    """Runs one end of a link; not safe between threads.

    With ``batch`` no further poll follows: missing messages are requested immediately. Unless it ``applies``
    or ``sends``, it only sends and receives reports.
    """

    end: AgentState
    applies: bool = True
    batch: bool = False
    sends: bool = True
    outgoing: OutgoingHalf = field(init=False)
    incoming: IncomingHalf = field(init=False)
    _polling: bool = False
    _due: datetime | None = None
    _looked: datetime | None = None
    _pruned: datetime | None = None
    _stepped: datetime | None = None

    def __post_init__(self) -> None:
        applies = self.applies and self.end.settings.direction != "send"
        self.outgoing = OutgoingHalf(self.end)
        self.incoming = IncomingHalf(self.end, self.outgoing, applies)

    @property
    def due(self) -> datetime:
        """When the next step has something to do."""
        now = self.end.clock()
        if self.end.stands_still:
            return now + LOOK
        if self._polling or self._due is None:
            return now
        held_until = self.incoming.held_until
        return self._due if held_until is None else min(self._due, held_until)

    async def step(self) -> Apply | None:
        """Continue until there is something to apply, or nothing to do before :attr:`due`.

        Raises:
            ProviderUnavailableError: database or carrier do not answer, or another agent has the link; call
                again.
            ConfigurationError: the link does not exist, or its triggers do not capture its tables.
        """
        self._heed_clock()
        async with self._anew_on_failure():
            if self.end.row is None:
                await self.end.open()
                self._polling, self._due = False, None
            await self._look()
            if self.end.stands_still or self.end.row is None:
                return None
            return await self._poll()

    async def applied(self, done: Apply) -> None:
        """Note that the database has committed work, with its columns.

        Raises:
            ProviderUnavailableError: as :meth:`step`.
        """
        async with self._anew_on_failure():
            self.incoming.alone = False
            await self.incoming.applied(done)

    async def store_alone(self, handing: Handing) -> None:
        """Store the watermark of work that was done, or parked, elsewhere.

        Raises:
            ProviderUnavailableError: as :meth:`step`.
        """
        async with self._anew_on_failure():
            await self.end.history.watermarks.run("moving a watermark", saving(handing))

    def hold(self, delay: timedelta) -> None:
        """Hand nothing out for a while, and then one transaction at a time; read and send meanwhile.

        The row is read again: a skipped transaction was stored, although it is given back.
        """
        self.end.row = None
        self.incoming.held_until = self.end.clock() + delay
        self.incoming.alone = True

    async def halt(self, reason: str) -> None:
        """Stop the link until somebody decides."""
        async with self._anew_on_failure():
            await self.end.halt(reason)

    async def close(self) -> None:
        """Leave the link and its carrier."""
        async with self._anew_on_failure():
            await self.end.close()

    def _heed_clock(self) -> None:
        """Begin again if the clock was set back: otherwise every pause would last so much longer."""
        now, last = self.end.clock(), self._stepped
        self._stepped = now
        if last is not None and now < last - LOOK:
            _log.warning(
                "link %s: the clock was set back by %s; the link begins again with its stored row",
                self.end.link,
                last - now,
                extra={"trigger": f"link:{self.end.link}"},
            )
            self.end.row = self._looked = self._pruned = self.incoming.held_until = None

    async def _look(self) -> None:
        now = self.end.clock()
        if self._looked is None or now - self._looked >= LOOK:
            await self.end.look()
            self._looked = now

    async def _poll(self) -> Apply | None:
        now = self.end.clock()
        if not self._polling:
            resumed = self.incoming.held_until is not None and self.incoming.held_until <= now
            if self._due is not None and now < self._due and not resumed:
                return None
            self.end.log_end = (await self.end.history.watermarks.end()).last
            await self.incoming.begin()
            self._polling = True
        transactions = await self.incoming.go_on()
        if transactions is None and not self.end.stands_still:
            await self._finish()
        return transactions

    async def _finish(self) -> None:
        await self.incoming.finish(final=self.batch)
        await self.outgoing.tick()
        more = await self.outgoing.send() if self.sends and self.end.stopped is None else False
        self._polling = False
        now = self.end.clock()
        self._due = now if more else next_poll(now, self.end.receiving)
        if self._pruned is None or now - self._pruned >= PRUNE:
            if self._pruned is not None:
                await self.end.check_capture()
            await self.outgoing.log.prune(self.end.settings.keep_log)
            self._pruned = now

    @asynccontextmanager
    async def _anew_on_failure(self) -> AsyncGenerator[None]:
        """Begin again with the stored row after any failure: the states may be ahead of it."""
        try:
            yield
        except (LinkLostError, HistoryUnavailableError) as error:
            self.end.row = None
            what = f"the database of link {self.end.link}"
            raise ProviderUnavailableError(what, "running it") from error
        except Exception:
            self.end.row = None
            raise
