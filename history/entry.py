"""The record that a trigger keeps of a uuid, and the only transitions that are legal.

The functions here are pure: callers pass time and fence. :class:`~history.memory.MemoryHistory` uses them
directly. The model checker in the tests drives them. The conformance suite checks that the Lua scripts and
the SQL statements give the same answers.

    absent --claim--> STARTED --settle(OK | FAILED)--> COMPLETED
                      STARTED --settle(None)---------> absent      (released)
                      STARTED --take over------------> STARTED     (new owner, greater fence)
                      STARTED --renew----------------> STARTED     (lease and life prolonged)
                      FAILED  --take over, failed=True> STARTED    (somebody decided to run it again)
                      OK      --fail-----------------> FAILED      (its join timed out)
                      any     --time to live over----> absent
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache, partial
from hashlib import blake2b
from typing import NamedTuple, NewType

from history.errors import ConfigurationError
from history.identity import Uuid

#: A number that grows with every claim of a uuid; an effect's target may refuse a smaller one.
Fence = NewType("Fence", int)

#: How long an entry is remembered if no setting says otherwise.
DEFAULT_TIME_TO_LIVE = timedelta(days=7)

#: The shortest and the longest lease or time to live: a store counts in milliseconds, and an instant plus
#: this time must still be a date. The longest is a hundred years.
SHORTEST, LONGEST = timedelta(milliseconds=1), timedelta(days=36_525)


class State(StrEnum):
    """Whether the service of an entry is known to have ended."""

    STARTED = "started"
    COMPLETED = "completed"


class EntryOutcome(StrEnum):
    """How a completed entry's service ended."""

    OK = "ok"
    FAILED = "failed"


#: How many fences a completed entry can tell apart.
KEPT_FENCES = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One remembered uuid, as the store's server saw it at ``read_at``.

    ``owner`` is None if the store does not keep the owners of completed entries. ``lease_until`` is None for
    an entry that was claimed without a lease. If ``started_about`` is true, the store has rounded
    ``started_at`` down, to save memory. All instants are aware UTC and come from the store's clock.
    """

    state: State
    fence: Fence
    started_at: datetime
    expires_at: datetime
    read_at: datetime
    outcome: EntryOutcome | None = None
    owner: str | None = None
    lease_until: datetime | None = None
    batch: bool = False
    started_about: bool = False

    @property
    def lease_alive(self) -> bool:
        """Whether the owner was presumed alive when the entry was read."""
        return (
            self.state is State.STARTED and self.lease_until is not None and self.lease_until > self.read_at
        )

    def is_of(self, fence: int) -> bool:
        """Whether the claim with this fence made this entry.

        A store may keep only the low 24 bits of a completed entry's fence, as Redis does. The rest of
        ``fence`` is then a guess, and wrong after a restart of the server. So only these bits are compared.
        """
        if self.state is State.STARTED or self.batch:
            return self.fence == fence
        return (self.fence - fence) % KEPT_FENCES == 0

    @property
    def age(self) -> timedelta:
        """How old the entry was when it was read."""
        return self.read_at - self.started_at


# These are made for every message, and a named tuple is four times faster than a frozen dataclass.
class Claim(NamedTuple):
    """The answer to one claimed uuid.

    If the uuid is now STARTED by the claiming owner under ``fence``, ``found`` is None. Otherwise ``found``
    is the existing entry, and ``fence`` is that entry's.
    """

    found: Entry | None
    fence: Fence


class Settlement(NamedTuple):
    """How one claimed uuid ended: OK or FAILED complete it, None releases it (as if never claimed).

    ``owner`` is the owner that claimed it. A server that came back with older data may have granted a fence
    twice. Then only the owner distinguishes the claims. With None, only the fence counts.
    """

    uuid: Uuid
    fence: Fence
    outcome: EntryOutcome | None
    owner: str | None = None


class Renewal(NamedTuple):
    """A claimed uuid and its owner, to prolong the lease; ``owner`` as in a :class:`Settlement`."""

    uuid: Uuid
    fence: Fence
    owner: str | None = None


#: How many bytes a digest has.
DIGEST_SIZE = 16

#: How many of these bytes, the first ones, a store keeps at least for a completed entry, and a scan shows.
SHORT_DIGEST_SIZE = 10

_hash = partial(blake2b, digest_size=DIGEST_SIZE)


# A message is claimed and, a moment later, settled.
@lru_cache(maxsize=512)
def digest(uuid: str) -> bytes:
    """Return the 16 bytes under which a uuid of any length is stored.

    For completed entries, a store may keep only the first :data:`SHORT_DIGEST_SIZE` bytes. Fewer bytes risk a
    false duplicate, and a false duplicate is a lost message. With 80 bits and six billion remembered uuids,
    the chance is 5e-15 for each new message.
    """
    return _hash(uuid.encode("utf-8", "surrogatepass")).digest()


def short_digest(uuid: str) -> bytes:
    """Return the 10 bytes that a scan shows in place of a uuid."""
    return digest(uuid)[:SHORT_DIGEST_SIZE]


def digests(encoded: Iterable[bytes]) -> bytes:
    """Return the digests of uuids in UTF-8, one after the other."""
    return b"".join([_hash(uuid).digest() for uuid in encoded])


def current(entry: Entry | None, now: datetime) -> Entry | None:
    """Return ``entry`` as read at ``now``, or None once its time to live is over."""
    if entry is None or entry.expires_at <= now:
        return None
    if entry.read_at == now:
        return entry
    # As dataclasses.replace() does, in half the time: a duplicate is read like this.
    return Entry(
        state=entry.state,
        fence=entry.fence,
        started_at=entry.started_at,
        expires_at=entry.expires_at,
        read_at=now,
        outcome=entry.outcome,
        owner=entry.owner,
        lease_until=entry.lease_until,
        batch=entry.batch,
    )


def started(owner: str, fence: Fence, now: datetime, terms: "EntryTerms") -> Entry:
    """Return the entry that a claim or a take-over writes."""
    return Entry(
        state=State.STARTED,
        fence=fence,
        started_at=now,
        expires_at=now + terms.time_to_live,
        read_at=now,
        owner=owner,
        lease_until=None if terms.lease is None else now + terms.lease,
    )


@dataclass(frozen=True, slots=True)
class EntryTerms:
    """For how long a claim holds: the lease (None: no lease) and the entry's time to live.

    Raises:
        ConfigurationError: a store cannot hold such a long or short time.
    """

    lease: timedelta | None = None
    time_to_live: timedelta = DEFAULT_TIME_TO_LIVE

    def __post_init__(self) -> None:
        check_held("time_to_live", self.time_to_live)
        check_held("lease", self.lease)


def check_held(setting: str, duration: timedelta | None) -> None:
    """Refuse a lease or a time to live that no store can hold: it would end immediately, or never.

    Raises:
        ConfigurationError: it is less than ``SHORTEST`` or more than ``LONGEST``.
    """
    if duration is None or SHORTEST <= duration <= LONGEST:
        return
    raise ConfigurationError(
        setting, f"{duration} is out of range", f"use 1 millisecond to {LONGEST.days:,} days"
    )


def claim(
    entry: Entry | None, owner: str, *, fence: Fence, now: datetime, terms: EntryTerms
) -> tuple[Entry, Claim]:
    """Claim a uuid. If the entry already has this owner token, that is success: the claim was sent twice."""
    entry = current(entry, now)
    if entry is None:
        entry = started(owner, fence, now, terms)
        return entry, Claim(None, fence)
    if entry.state is State.STARTED and entry.owner == owner:
        return entry, Claim(None, entry.fence)
    return entry, Claim(entry, entry.fence)


def take_over(
    entry: Entry | None,
    owner: str,
    *,
    expected_fence: Fence,
    expected_owner: str | None = None,
    fence: Fence,
    now: datetime,
    terms: EntryTerms,
    failed: bool = False,
) -> tuple[Entry | None, Claim | None]:
    """Replace a STARTED entry that still has ``expected_fence``, and ``owner`` if given; else return None.

    With ``failed``, it may also be COMPLETED with a failure. An entry with this owner token is success.
    """
    entry = current(entry, now)
    if entry is None:
        return entry, None
    if entry.state is State.COMPLETED and not (failed and entry.outcome is EntryOutcome.FAILED):
        return entry, None
    if entry.state is State.STARTED and entry.owner == owner:
        return entry, Claim(None, entry.fence)
    if not _is_held(entry, expected_fence, expected_owner):
        return entry, None
    taken = started(owner, fence, now, terms)
    return taken, Claim(None, fence)


def _is_held(entry: Entry, fence: Fence, owner: str | None) -> bool:
    return entry.fence == fence and owner in {None, entry.owner}


def settle(
    entry: Entry | None,
    *,
    fence: Fence,
    outcome: EntryOutcome | None,
    now: datetime,
    owner: str | None = None,
    once: bool = False,
) -> tuple[Entry | None, bool]:
    """Complete or release a STARTED entry with exactly this fence, and with this owner if one is given.

    The owner of a completed entry is not compared: a store need not keep it. The answer is whether the entry
    is now as requested: the same settlement succeeds twice, unless ``once``. A stale one changes nothing.
    """
    entry = current(entry, now)
    if entry is None:
        return None, outcome is None and not once
    if entry.fence != fence:
        return entry, False
    if entry.state is State.COMPLETED:
        return entry, entry.outcome == outcome and not once
    if not _is_held(entry, fence, owner):
        return entry, False
    if outcome is None:
        return None, True
    return replace(entry, state=State.COMPLETED, outcome=outcome, lease_until=None), True


def fail(entry: Entry | None, *, fence: Fence, now: datetime) -> Entry | None:
    """Turn an entry that is COMPLETED ok with this fence into a failed one; return any other unchanged."""
    entry = current(entry, now)
    if entry is None or entry.batch or not entry.is_of(fence) or entry.outcome is not EntryOutcome.OK:
        return entry
    return replace(entry, outcome=EntryOutcome.FAILED)


def renew(
    entry: Entry | None, *, fence: Fence, lease: timedelta, now: datetime, owner: str | None = None
) -> tuple[Entry | None, bool]:
    """Prolong the lease of a STARTED entry with exactly this fence, and its life, which must outlast that.

    If an owner is given, an entry of another owner stays unchanged. An entry of a batch lives as long as its
    batch, as decided when that was opened. A lease that would outlive the batch is not granted.
    """
    entry = current(entry, now)
    if entry is None or entry.state is not State.STARTED or not _is_held(entry, fence, owner):
        return entry, False
    least = now + lease if entry.batch else outliving(entry.started_at, now + lease)
    if entry.batch and least > entry.expires_at:
        return entry, False
    return replace(entry, lease_until=now + lease, expires_at=max(entry.expires_at, least)), True


def outliving(started_at: datetime, lease_until: datetime) -> datetime:
    """Return the earliest time at which a run with a prolonged lease may be forgotten.

    That is twice the longest time that the run may have taken. So it is remembered for some time after it
    completed, and a copy then is a duplicate. A run that takes less than half its time to live keeps that.
    """
    return started_at + 2 * (lease_until - started_at)
