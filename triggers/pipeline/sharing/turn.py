"""The turn from one message to the next, in one round trip if the history supports it.

A worker that has received several messages runs one at a time. After the service of a message has succeeded,
one call completes its entry, acknowledges the message, and claims the next received message. So a message
costs one round trip, and an entry is STARTED only when its message is the next to run. A process that dies
leaves at most one message In Doubt for each worker. The other messages that it had received are NEW.

=====================  ===========================================================================
what happens           what exists, and what is done
=====================  ===========================================================================
dies before the turn   STARTED, as after any run; the next message is NEW
dies after the turn    COMPLETED and acknowledged; the next message is STARTED and In Doubt
no answer              unknown: the run is settled again, which is harmless; the claim is noted as
                       undecided (:mod:`triggers.pipeline.undecided`), and the message claimed again
next one runs still    the answer is dropped, and the claim is made again before the message runs:
                       it may be a copy of this one
fence lost             nothing is acknowledged; the run is settled as usual, which finds the reason
next one not begun     its claim is released, before it is given back to the provider
=====================  ===========================================================================

Every unusual case takes the usual way, call by call: failures, and messages that need a look before their
claim.
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
    """The claim of the message that runs next, and when it was requested, by the monotonic clock."""

    uuid: str
    owner: str
    claim: Claim
    asked_at: float


def _is_final(claim: Claim) -> bool:
    """Whether a claim stays true a moment later; the claim of a run that may end until then does not."""
    return claim.found is None or claim.found.state is State.COMPLETED


def turns_are_safe(settings: Settings) -> bool:
    """Whether only the claim decides about the next message, and the answer is the usual one."""
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
    settings: Settings, store: HistoryStore | None, undecided: UndecidedClaims, goes_on: Callable[[], bool]
) -> "Turns | None":
    """Return the turns of one worker; None if its history or its settings do not support them."""
    if not isinstance(store, Turning) or not store.turns or not turns_are_safe(settings):
        return None
    return Turns(settings=settings, store=store, turning=store, undecided=undecided, goes_on=goes_on)


@dataclass(slots=True, kw_only=True)
class Turns:
    """One worker's knowledge of its message and the next one; for one thread or task at a time.

    ``goes_on`` returns whether another message may begin. ``receiver`` is None if only the provider itself
    can acknowledge messages.
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
        """Note the worker's present message, and its next one."""
        self._acknowledged = False
        self._current = current if isinstance(current, Arrival) else None
        self._following = None if following is None else self._uuid_to_claim(following)

    def _uuid_to_claim(self, received: Received) -> str | None:
        """Return the uuid of a message if its claim is the first step."""
        if not isinstance(received, Arrival):
            return None
        message = received.message
        if message.expiration is not None or message.delivery_count > self.settings.policy.max_delivery_count:
            return None
        return message.uuid

    def take(self, uuids: Sequence[str]) -> ClaimedAhead | None:
        """Return the claim that was made ahead, for the caller that claims this message now."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and uuids != [ahead.uuid]:
            self._ahead = ahead
            return None
        return ahead

    async def settle(self, settlements: Sequence[Settlement]) -> bool:
        """Settle the run of a success with all steps that belong to it; False to settle it the usual way."""
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
        """Do everything in one call; None if it failed, and each part must be done separately."""
        following = self._next_claim()
        if self._refused or (following is None and self.receiver is None):
            return None
        left_at = None if self.receiver is None else self.receiver.leave_at(current)
        asked_at = monotonic()
        try:
            turned = await self.turning.turn(self.settings.name, done, following, left_at)
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
        """Use the usual way for this message, or for all messages if the server will never support turns."""
        self._following = None
        if not isinstance(error, HistoryUnavailableError):
            self._refused = True
            _log.warning(
                "slower from now on: each message is completed, acknowledged and claimed in separate calls, "
                "because one call for all of these steps failed: %s",
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
            # It is known as ours if the message comes again, and released after the history answers again.
            self.undecided.note(ahead.owner, [ahead.uuid])
            if not isinstance(error, Exception):
                raise
            extra = {"trigger": self.settings.name, "uuid": ahead.uuid}
            _log.warning("a claim could not be released yet: %s", text_of(error), extra=extra)
