"""Claims whose answer never came: the entry may stand, and nobody runs under it.

So it is, too, with a claim whose task was cancelled before its service was called.

Whoever claimed knows that: the token in the entry is unique to the attempt. So when the message comes again
its own claim is taken over, and not mistaken for that of a run that died; and when the history answers again,
what is left of such claims is released, for the message may be delivered elsewhere.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from history.entry import Entry, Settlement, State
from history.message import Uuid
from history.store import HistoryStore

#: How many uuids are remembered for one trigger; the oldest is forgotten first, and may be In Doubt then.
MOST = 10_000

#: How many tokens are remembered of one uuid: a message claimed again while no answers came may stand
#: under that of any attempt, of the first above all.
TOKENS = 16

#: How many of them are looked at in one call.
LOOKED_AT = 200


@dataclass(slots=True)
class UndecidedClaims:
    """The tokens of a trigger's undecided claims, by uuid; safe between threads."""

    _tokens: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    _unseen: set[str] = field(default_factory=set[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def known(self) -> bool:
        """Whether there are any: asked with every message, of which nearly none has one."""
        return bool(self._tokens)

    def note(self, token: str, uuids: Sequence[str]) -> None:
        """Remember that these were claimed under a token, or not."""
        with self._lock:
            for uuid in uuids:
                first, *others = *self._tokens.pop(uuid, ()), token
                self._tokens[uuid] = (first, *others[-(TOKENS - 1) :])
                self._unseen.add(uuid)
            while len(self._tokens) > MOST:
                oldest = next(iter(self._tokens))
                del self._tokens[oldest]
                self._unseen.discard(oldest)

    def is_ours(self, uuid: str | None, found: Entry | None) -> bool:
        """Whether an entry is what an undecided claim has left."""
        if uuid is None or found is None or found.state is not State.STARTED:
            return False
        return found.owner in self._tokens.get(uuid, ())

    def forget(self, uuids: Sequence[str]) -> None:
        """Forget those that have been decided."""
        with self._lock:
            for uuid in uuids:
                self._tokens.pop(uuid, None)
                self._unseen.discard(uuid)

    async def release_in(self, store: HistoryStore, trigger: str, *, on_their_way: bool = False) -> None:
        """Release what is left of undecided claims, some in each call, by a store that answers again.

        What is not there yet may come: a server that stood still carries out what it had received when it
        goes on. So it stays known; and where the calls were made just now, is looked for another time, too.

        Raises:
            Exception: whatever the store does; it is done another time.
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
            found = {settlement.uuid for settlement in left}
            again = [uuid for uuid in some if on_their_way and uuid not in found]
        finally:
            with self._lock:
                self._unseen.update(uuid for uuid in again if uuid in self._tokens)
