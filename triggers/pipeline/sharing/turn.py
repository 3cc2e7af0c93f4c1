"""The turn from one message to the next, in one round trip where the history can do that.

A worker that has received several messages runs one at a time. When the service of one has succeeded, one
call completes its entry, acknowledges the message, and claims the next one that was received. So a message
costs one round trip, and an entry is STARTED only when its message is the next to run: a process that dies
leaves at most one message In Doubt for each worker. What it had received besides is NEW.

=====================  ===========================================================================
what happens           what stands, and what is done
=====================  ===========================================================================
dies before the turn   STARTED, as after any run; the next message is NEW
dies after the turn    COMPLETED and acknowledged; the next message is STARTED and In Doubt
no answer              nobody knows: the run is settled again, which is harmless; the claim is noted as
                       undecided (:mod:`triggers.pipeline.undecided`), and the message claimed again
next one runs still    what was found is forgotten, and asked again when it is its turn: it may be a copy
                       of this one
fence lost             nothing is acknowledged; the run is settled as usual, which finds out why
next one not begun     its claim is released, before it is given back to the provider
=====================  ===========================================================================

Anything unusual goes the usual way, call by call: what did not succeed, and messages that must be looked at
before they are claimed.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

from history.circuit import CircuitOpenError
from history.entry import Claim, EntryOutcome, Settlement, State
from history.errors import HistoryUnavailableError
from history.message import Uuid
from history.store import HistoryStore
from history.store.owners import owner_token
from history.store.turning import NextClaim, Turned, Turning
from history.support.rendering import text_of
from triggers.pipeline.undecided import UndecidedClaims
from triggers.providers.provider import Arrival, Placing, Received
from triggers.service.settings import Settings

_log = logging.getLogger(__name__)


class ClaimedAhead(NamedTuple):
    """The claim of a message that is the next to run, and when it was asked for, by the monotonic clock."""

    uuid: str
    owner: str
    claim: Claim
    asked_at: float


def _is_final(claim: Claim) -> bool:
    """Whether a claim says the same a moment later, as it does not of a run that may end until then."""
    return claim.found is None or claim.found.state is State.COMPLETED


def turns_are_safe(settings: Settings) -> bool:
    """Whether nothing but the claim decides about the next message, and its answer is the usual one."""
    policy = settings.policy
    return (
        policy.detect_duplicates
        and policy.on_history_error == "suspend"
        and settings.acknowledge_mode == "client"
        and settings.prefetch > 1
        and settings.batch == 1
        and settings.join == "any"
        and not settings.ordered
        and not policy.transacted
        and not settings.shadow
        and settings.keep is None
        and settings.fingerprint is None
    )


def turns_of(
    settings: Settings,
    store: HistoryStore | None,
    undecided: UndecidedClaims,
    goes_on: Callable[[], bool],
) -> "Turns | None":
    """Return the turns of one worker; None where its history or its settings have none."""
    if not isinstance(store, Turning) or not store.turns or not turns_are_safe(settings):
        return None
    return Turns(settings=settings, store=store, turning=store, undecided=undecided, goes_on=goes_on)


@dataclass(slots=True, kw_only=True)
class Turns:
    """What one worker knows of its message and of the next; for one thread or task at a time.

    ``goes_on`` says whether another message may be begun. ``receiver`` is None where messages can only be
    acknowledged by the provider itself.
    """

    settings: Settings
    store: HistoryStore
    turning: Turning
    undecided: UndecidedClaims
    goes_on: Callable[[], bool]
    receiver: Placing | None = None
    _current: Arrival | None = None
    _following: str | None = None
    _ahead: ClaimedAhead | None = None
    _acknowledged: bool = False
    _refused: bool = False

    def look(self, current: Received, following: Received | None) -> None:
        """Note which message is the worker's, and which it will be given next."""
        self._acknowledged = False
        self._current = current if isinstance(current, Arrival) else None
        self._following = None if following is None else self._uuid_to_claim(following)

    def _uuid_to_claim(self, received: Received) -> str | None:
        """Return the uuid of a message that is claimed before anything else is done about it."""
        if not isinstance(received, Arrival):
            return None
        message = received.message
        if message.expiration is not None or message.delivery_count > self.settings.policy.max_delivery_count:
            return None
        return message.uuid

    def take(self, uuids: Sequence[str]) -> ClaimedAhead | None:
        """Return the claim that was made ahead, to whoever claims this message now."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and uuids != [ahead.uuid]:
            self._ahead = ahead
            return None
        return ahead

    async def settle(self, settlements: Sequence[Settlement]) -> bool:
        """Settle the run of a success, and do all that goes with it; False to settle it the usual way."""
        current = self._current
        if current is None or len(settlements) != 1:
            return False
        done = settlements[0]
        if done.outcome is not EntryOutcome.OK or done.uuid != current.message.uuid:
            return False
        turned = await self._turn(current, done)
        return turned is not None and turned.settled

    async def acknowledge(self, done: Sequence[Received]) -> bool:
        """Acknowledge the worker's message with the claim of the next; False to do it the usual way."""
        current = self._current
        if current is None or len(done) != 1 or done[0] is not current:
            return False
        if not self._acknowledged and self.receiver is not None and self._following is not None:
            await self._turn(current, None)
        return self._acknowledged

    async def _turn(self, current: Arrival, done: Settlement | None) -> Turned | None:
        """Do all of it in one call; None where it failed, and each part is to be done by itself."""
        following = self._next_claim()
        if self._refused or (following is None and self.receiver is None):
            return None
        place = None if self.receiver is None else self.receiver.leave_at(current)
        asked_at = monotonic()
        try:
            turned = await self.turning.turn(self.settings.name, done, following, place)
        except BaseException as error:
            if following is not None and not isinstance(error, CircuitOpenError):
                self.undecided.note(following.owner, [following.uuid])
            if self.receiver is not None:
                self.receiver.stay(current)
            if not isinstance(error, Exception):
                raise
            self._note_failure(error)
            return None
        self._following = None
        self._acknowledged = turned.acknowledged
        if following is not None and turned.claim is not None and _is_final(turned.claim):
            self._ahead = ClaimedAhead(following.uuid, following.owner, turned.claim, asked_at)
        if self.receiver is not None and not turned.acknowledged:
            self.receiver.stay(current)
        return turned

    def _next_claim(self) -> NextClaim | None:
        if self._following is None or self._ahead is not None or not self.goes_on():
            return None
        settings = self.settings
        return NextClaim(self._following, owner_token(), settings.lease, settings.history_time_to_live)

    def _note_failure(self, error: Exception) -> None:
        """Go the usual way for this message; for all, where the server will never do it."""
        self._following = None
        if not isinstance(error, HistoryUnavailableError):
            self._refused = True
            _log.warning(
                "each message is completed, acknowledged and claimed by calls of their own, for all in one "
                "failed: %s",
                text_of(error),
                extra={"trigger": self.settings.name},
            )

    async def give_back(self) -> None:
        """Release the claim of a message that is not begun after all."""
        ahead, self._ahead = self._ahead, None
        self._current = self._following = None
        if ahead is None or ahead.claim.found is not None:
            return
        release = Settlement(Uuid(ahead.uuid), ahead.claim.fence, None, ahead.owner)
        try:
            await self.store.settle(self.settings.name, [release])
        except BaseException as error:
            # It is known as ours when the message comes again, and released when the history answers again.
            self.undecided.note(ahead.owner, [ahead.uuid])
            if not isinstance(error, Exception):
                raise
            extra = {"trigger": self.settings.name, "uuid": ahead.uuid}
            _log.warning("a claim could not be released yet: %s", text_of(error), extra=extra)
