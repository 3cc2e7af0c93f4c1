"""Claims that never got an answer: the entry may exist, and nobody runs under it.

The same is true for the claim of a task that was cancelled before the call of its service.

The process that claimed can recognise the entry: its token is unique to the attempt. So when the message
comes again, this process takes over its own claim and does not mistake it for the claim of a run that died.
After the history answers again, the remaining claims are released, because the message may be delivered
elsewhere.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from history.entry import Entry, Settlement, State
from history.message import Uuid
from history.store import HistoryStore
from history.support.forks import forkable_lock

#: How many uuids are remembered for one trigger; the oldest is forgotten first, and may be In Doubt then.
MOST = 10_000

#: How many tokens are remembered for one uuid. A message that is claimed again while no answers come may have
#: an entry under the token of any attempt, most likely the first.
TOKENS = 16

#: How many uuids one call looks at.
LOOKED_AT = 200


@dataclass(slots=True)
class UndecidedClaims:
    """The tokens of a trigger's undecided claims, by uuid; safe between threads."""

    _tokens: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    _unseen: set[str] = field(default_factory=set[str])
    _lock: threading.Lock = field(default_factory=forkable_lock)

    @property
    def known(self) -> bool:
        """Whether there are any. Called for every message, and nearly always False."""
        return bool(self._tokens)

    def note(self, token: str, uuids: Sequence[str]) -> None:
        """Remember that these uuids may have been claimed under a token."""
        with self._lock:
            for uuid in uuids:
                first, *others = *self._tokens.pop(uuid, ()), token
                self._tokens[uuid] = (first, *others[-(TOKENS - 1) :])
                self._unseen.add(uuid)
            while len(self._tokens) > MOST:
                oldest = next(iter(self._tokens))
                del self._tokens[oldest]
                self._unseen.discard(oldest)

    def is_ours(self, uuid: str | None, entry: Entry | None) -> bool:
        """Whether an entry was left by an undecided claim."""
        if uuid is None or entry is None or entry.state is not State.STARTED:
            return False
        return entry.owner in self._tokens.get(uuid, ())

    def forget(self, uuids: Sequence[str]) -> None:
        """Forget the uuids that have been decided."""
        with self._lock:
            for uuid in uuids:
                self._tokens.pop(uuid, None)
                self._unseen.discard(uuid)

    async def release_in(self, store: HistoryStore, trigger: str, *, on_their_way: bool = False) -> None:
        """Release the remains of undecided claims, some in each call, in a store that answers again.

        An entry that is absent may still come: a server that was stopped still carries out received calls
        when it goes on. So the claim stays known. If ``on_their_way``, the calls were made just now, and the
        entry is looked for another time.

        Raises:
            Exception: any error of the store; the work is repeated another time.
        """
        if not self._unseen:
            return
        with self._lock:
            some = list(self._unseen)[:LOOKED_AT]
            self._unseen.difference_update(some)
        again = some
        try:
            entries = await store.lookup(trigger, some)
            left = [
                Settlement(Uuid(uuid), entry.fence, None, entry.owner)
                for uuid, entry in zip(some, entries, strict=True)
                if entry is not None and self.is_ours(uuid, entry)
            ]
            if left:
                await store.settle(trigger, left)
            uuids = {settlement.uuid for settlement in left}
            again = [uuid for uuid in some if on_their_way and uuid not in uuids]
        finally:
            with self._lock:
                self._unseen.update(uuid for uuid in again if uuid in self._tokens)
