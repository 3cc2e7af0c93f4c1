"""Ordered triggers: which process receives.

``@trigger(..., ordered=True)`` runs the messages of one group (JMSXGroupID) one after the other, in the order
of the destination, and different groups concurrently. ``groups.py`` decides which message may run next.
``handover.py`` passes it from the worker that receives to the workers that run messages (``workers.py``).

If the provider divides the groups among its consumers (``DividingGroups``), every process receives. Otherwise
there is one active consumer, and the others stand by. The right to receive is a lease in the trigger's own
document history, under a uuid that no message has. A holder that could not renew it in time stops before the
lease ends; a holder that ends gives it back. The next holder first takes over its predecessor's unanswered
messages, so that nothing newer runs before them.
"""

import asyncio
import logging
import threading
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Protocol

from history.bridge import drive
from history.entry import Fence, State
from history.errors import ConfigurationError
from history.memory.history import MemoryHistory
from history.message import Message, Uuid
from history.shell import Shell
from history.store import HistoryStore
from history.store.owners import owner_token
from triggers.declaration.decorator import Trigger
from triggers.detection.table import HistoryUse
from triggers.pipeline.finding import Finding
from triggers.pipeline.leases import LeaseKeeper
from triggers.pipeline.protocol import Pipeline
from triggers.pipeline.run import Run
from triggers.providers.provider import RECEIVE_WAIT, DividingGroups

_log = logging.getLogger(__name__)

#: How long the active consumer is presumed alive without a renewal.
LEASE = timedelta(seconds=10)

#: The uuid, in each ordered trigger's history, of the entry that the active consumer owns. It is the empty
#: uuid, the only one that no message has.
ACTIVE_CONSUMER = ""

#: The part of a lease, at its end, in which nothing begins and nothing is received.
SAFETY = 0.2

#: How long that entry exists at least: nobody else may get it meanwhile. If a history forgot it, two
#: consumers could be active.
TIME_TO_LIVE = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Keeping:
    """Renews the right: a keeper, and the store that was opened for the keeper, if any."""

    keeper: LeaseKeeper
    own_store: HistoryStore | None
    on_loop: bool

    def close(self) -> None:
        """Stop renewing."""
        if self.on_loop:
            # Its thread may be waiting for this very event loop.
            threading.Thread(target=self.keeper.close, daemon=True).start()
            return
        self.keeper.close()
        if self.own_store is not None:
            drive(self.own_store.close())


class Turn(Protocol):
    """Whether this process may receive for an ordered trigger."""

    @property
    def active(self) -> bool:
        """Whether it may begin a message."""
        ...

    @property
    def longest_wait(self) -> timedelta:
        """How long the provider may wait for messages."""
        ...

    async def acquire(self) -> bool:
        """Become active, if no other process is."""
        ...

    async def release(self) -> None:
        """Let others be active."""
        ...

    def close(self) -> None:
        """End for good."""
        ...


class EveryConsumer:
    """All processes are active, because the provider divides the groups among them.

    When a group moves, its old process may begin another message of it before it notices. It claims the
    message in the history, as the new process does. Neither claims the next message before this message is
    done, so the order stays.
    """

    active = True
    longest_wait = RECEIVE_WAIT

    async def acquire(self) -> bool:
        """Return immediately."""
        return True

    async def release(self) -> None:
        """Do nothing: the provider does it."""

    def close(self) -> None:
        """Do nothing."""


class ActiveConsumer:
    """One process's claim to be the receiver for an ordered trigger.

    :meth:`acquire` and :meth:`release` belong to one thread or task; :attr:`active` is safe anywhere.
    """

    def __init__(self, trigger: str, store: HistoryStore, keeping: Keeping, lease: timedelta) -> None:
        self._trigger = trigger
        self._store = store
        self._keeping = keeping
        self._lease = lease
        self._token: str | None = None
        self._claimed: Run | None = None

    @property
    def active(self) -> bool:
        """Whether this process may begin a message; False if its lease has nearly ended."""
        claimed = self._claimed
        if claimed is None or claimed.taken_by is not None:
            return False
        return monotonic() < claimed.alive_until - self._lease.total_seconds() * SAFETY

    @property
    def longest_wait(self) -> timedelta:
        """How long the provider may wait for messages, so that the wait ends before the lease."""
        return self._lease * SAFETY / 2

    async def acquire(self) -> bool:
        """Become the active consumer, if no other process is.

        Raises:
            HistoryUnavailableError: nobody knows; call again.
        """
        # The same token until the result of the claim is known: its answer may be lost.
        self._token = self._token or owner_token()
        fence = await self._claim(self._token)
        if fence is None:
            self._token = None
            return False
        # Finding one's own claim extends nothing, so the lease counts from here.
        asked = monotonic()
        token = self._token
        if not await self._store.renew(self._trigger, ACTIVE_CONSUMER, fence, self._lease, owner=token):
            self._token = None
            return False
        message = Message(body="").model_copy(update={"uuid": Uuid(ACTIVE_CONSUMER)})
        self._claimed = Run(message, Finding(HistoryUse.ON, fence=fence, owner=self._token))
        self._keeping.keeper.hold([self._claimed], asked)
        self._token = None
        _log.info("trigger %s: now the active consumer, fence %d", self._trigger, fence, extra=self._extra)
        return True

    async def _claim(self, token: str) -> Fence | None:
        """Claim the entry, or take it over after its lease has ended; return its fence."""
        store, name = self._store, self._trigger
        [claim] = await store.claim(name, [ACTIVE_CONSUMER], token, self._lease, time_to_live=TIME_TO_LIVE)
        if claim.found is None:
            return claim.fence
        if claim.found.lease_alive or claim.found.state is not State.STARTED:
            return None
        _log.warning(
            "trigger %s: the lease of the active consumer %s has run out: taking over",
            self._trigger,
            claim.found.owner,
            extra=self._extra,
        )
        taken = await store.take_over(
            name,
            ACTIVE_CONSUMER,
            token,
            self._lease,
            claim.fence,
            time_to_live=TIME_TO_LIVE,
            expected_owner=claim.found.owner,
        )
        return None if taken is None else taken.fence

    async def release(self) -> None:
        """Let another process become active: now, or if the history is unavailable, when the lease ends."""
        claimed, self._claimed = self._claimed, None
        if claimed is None:
            return
        self._keeping.keeper.let_go([claimed])
        try:
            await self._store.release(self._trigger, ACTIVE_CONSUMER, claimed.fence or 0, owner=claimed.owner)
        except Exception as error:  # noqa: BLE001  (any error of a store: the lease ends by itself)
            _log.warning(
                "trigger %s: could not give back the right to receive: another consumer has it in %d s: %s",
                self._trigger,
                self._lease.total_seconds(),
                error,
                extra=self._extra,
            )

    def close(self) -> None:
        """Stop renewing for good."""
        self._keeping.close()

    @property
    def _extra(self) -> dict[str, object]:
        return {"trigger": self._trigger}


def turn_of(trigger: Trigger[..., object], pipeline: Pipeline, dividing: DividingGroups | None) -> Turn:
    """Return the object that lets this process receive for an ordered trigger.

    Raises:
        ConfigurationError: it has no history, or the provider keeps no order with these settings.
    """
    store = pipeline.store
    if store is None:
        raise ConfigurationError(
            f"trigger {trigger.name}",
            "is ordered, and has no document history to decide which process receives",
            "give it one, such as history='redis://...', or leave ordered out",
        )
    if dividing is not None:
        dividing.check_order()
        return EveryConsumer()
    keeping = _keeping(trigger, store, pipeline.shell)
    return ActiveConsumer(trigger.name, store, keeping, LEASE)


def _keeping(trigger: Trigger[..., object], used: HistoryStore, shell: Shell) -> Keeping:
    """Renew over a blocking store if possible, so that a busy event loop does not delay it."""
    if shell.blocking or isinstance(used, MemoryHistory):
        return Keeping(LeaseKeeper(trigger.name, LEASE, used), None, on_loop=False)
    opened = trigger.open_store()
    if opened is None or opened is used:
        loop = asyncio.get_running_loop()
        return Keeping(LeaseKeeper(trigger.name, LEASE, used, loop), None, on_loop=True)
    own = opened if trigger.opens_its_history else None
    return Keeping(LeaseKeeper(trigger.name, LEASE, opened), own, on_loop=False)
