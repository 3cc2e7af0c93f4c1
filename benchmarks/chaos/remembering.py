"""The entries that a document history remembers, and the entries that a server lost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from benchmarks.soak_service import NAME
from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.entry import Entry
from history.opening import open_history

#: How many uuids one call looks up.
_PIECE = 5000


@dataclass(slots=True)
class Losses:
    """The uuids of entries or parked messages that a server forgot.

    ``forgotten``: nothing is left of the entry.
    """

    uuids: set[str] = field(default_factory=set[str])
    parked: set[str] = field(default_factory=set[str])
    forgotten: int = 0

    def add(self, other: Self) -> None:
        """Add another loss."""
        self.uuids |= other.uuids
        self.parked |= other.parked
        self.forgotten += other.forgotten


#: A completed entry in Redis distinguishes so many fences.
_FENCES = 2**24


@dataclass(frozen=True, slots=True)
class Memory:
    """The entries of the soak's trigger, and the uuids of its parked messages."""

    entries: dict[str, Entry]
    parked: frozenset[str]

    @classmethod
    def of(cls, url: str, uuids: Sequence[str]) -> Self:
        """Read the entries of ``uuids`` in the history at ``url``."""
        store = open_history(url)
        try:
            return cls(dict(_entries(store, uuids)), parked_uuids(store, len(uuids)))
        finally:
            drive(store.close())

    def lost_in(self, later: "Memory") -> Losses:
        """Return the entries that are older in ``later`` than here. An entry that went on is not lost."""
        uuids = {uuid for uuid, entry in self.entries.items() if _is_lost(entry, later.entries.get(uuid))}
        return Losses(uuids, set(self.parked - later.parked), len(self.entries.keys() - later.entries.keys()))


def parked_uuids(store: KeepsBeside, most: int) -> frozenset[str]:
    """Return the uuids of the parked messages of a history. Copies of one document are parked once."""
    return frozenset(parked.uuid or "" for parked in drive(store.parking.list(trigger=NAME, limit=2 * most)))


def _entries(store: KeepsBeside, uuids: Sequence[str]) -> Iterable[tuple[str, Entry]]:
    for begin in range(0, len(uuids), _PIECE):
        piece = uuids[begin : begin + _PIECE]
        for uuid, entry in zip(piece, drive(store.lookup(NAME, piece)), strict=True):
            if entry is not None:
                yield uuid, entry


def _is_lost(entry: Entry, later: Entry | None) -> bool:
    """Return whether ``later`` lost a fact of ``entry``: its owner, or its end."""
    # Redis keeps the low bits of a completed entry's fence, and guesses the rest by the last one it granted:
    # if one of two servers has skipped fences, both show the same entry with different guesses.
    if later is None or (later.fence - entry.fence) % _FENCES:
        return True
    return entry.outcome is not None and later.outcome is not entry.outcome
