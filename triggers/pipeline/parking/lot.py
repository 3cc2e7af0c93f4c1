"""Where a trigger parks: the lot beside its history, and a local file if no server can take the message."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from history.beside.kept import KeepsBeside
from history.beside.parking import Parking
from history.bridge import drive
from history.errors import UnavailableError
from history.opening import local_parking_file, open_local_parking
from history.store import HistoryStore
from history.store.control import Trouble, TroubleKind
from history.store.parking import Parked, ParkedKind, raw_fields
from history.support.encryption import Cipher
from history.support.private_files import make_folder, make_private
from history.support.rendering import reason_of, text_of
from triggers.providers.provider import Unreadable

#: A larger delivery may be too large for a store, in bytes.
LARGE = 1024 * 1024

#: How many of its fields are kept then, and how much of each, in bytes.
MOST_FIELDS, MOST_BYTES = 100, 2048

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Episode:
    """Messages that could not be parked where they belong, since when by the monotonic clock, and why."""

    kind: TroubleKind
    cause: str
    since: float
    count: int

    def trouble(self) -> Trouble:
        elapsed = max(0.0, time.monotonic() - self.since)
        return Trouble(kind=self.kind, cause=self.cause, elapsed=elapsed, count=self.count)


class ParkingLot:
    """Parks in ``primary``, or in a SQLite file of this machine if ``primary`` is unavailable or None.

    The file is the last resort for a message that must be acknowledged while its history is unavailable. It
    is as durable as its disk, and only this user may read it. ``doubtless parked list --local`` shows it. It
    is encrypted in the same way as ``primary``. ``owned`` is a history that was opened only for its lot;
    :meth:`close` closes it.
    """

    def __init__(
        self, primary: Parking | None, local_file: Path | None = None, *, owned: HistoryStore | None = None
    ) -> None:
        self._primary = primary
        self._local_file = local_file
        self._local: KeepsBeside | None = None
        self._owned = owned
        self._refused: _Episode | None = None
        self._kept: _Episode | None = None
        #: How often a message could be parked nowhere, since the start.
        self.refusals = 0
        #: How many messages of the trigger the local file has, as :meth:`look` found.
        self.kept_locally = 0

    @property
    def primary(self) -> Parking | None:
        """The lot beside the history, or the lot that the trigger names."""
        return self._primary

    async def park(self, parked: Sequence[Parked]) -> bool:
        """Park messages; False if nothing could take them, so that they must not be acknowledged."""
        cause = "there is no history beside which to park"
        if self._primary is not None:
            try:
                await self._primary.park(parked)
            except Exception as error:  # noqa: BLE001  (any error of a lot: the message must go somewhere)
                cause = f"the lot: {_cause_of(error)}"
                _log.warning("%s: parking %d messages in a local file", text_of(error), len(parked))
            else:
                self._refused = None
                return True
        return self._park_locally(parked, cause)

    def _park_locally(self, parked: Sequence[Parked], cause: str) -> bool:
        try:
            drive(self._open_local().parking.park(parked))
        except Exception as error:  # noqa: BLE001  (as above)
            both = f"{cause}; the local file: {_cause_of(error)}"
            _log.critical(
                "NOT PARKED: %d messages, which are delivered again later. %s. Make room on the disk of %s "
                "and let this user write there, or name another local_parking_file",
                len(parked),
                both,
                self._local_file or local_parking_file(),
            )
            self.refusals += len(parked)
            self._refused = _longer(self._refused, TroubleKind.NOT_PARKED, both, len(parked))
            return False
        self._refused = None
        self._kept = _longer(self._kept, TroubleKind.PARKED_LOCALLY, cause, len(parked))
        self.kept_locally = self._kept.count
        return True

    def look(self, trigger: str) -> None:
        """Count what the local file has of a trigger; an earlier process may have parked it."""
        path = self._local_file or local_parking_file()
        if self._local is None and not path.exists():
            return
        with suppress(Exception):  # any error of a file: the next call may succeed
            self.kept_locally = drive(self._open_local().parking.count(trigger=trigger))
            self._kept = self._kept if self.kept_locally else None

    def troubles(self) -> Iterator[Trouble]:
        """Yield what is wrong with parking now."""
        if (refused := self._refused) is not None:
            yield refused.trouble()
        if self.kept_locally:
            kept = self._kept or _Episode(
                TroubleKind.PARKED_LOCALLY, "an earlier process parked them", time.monotonic(), 0
            )
            yield kept.trouble().model_copy(update={"count": self.kept_locally})

    def _open_local(self) -> KeepsBeside:
        if self._local is None:
            cipher = getattr(self._primary, "cipher", None)  # a user's own lot has none
            self._local = _open_local(self._local_file, cipher)
        return self._local

    async def close(self) -> None:
        """Close the connections that were opened only for parking."""
        opened, self._local = (self._owned, self._local), None
        for store in opened:
            if store is not None:
                await store.close()


def _longer(before: _Episode | None, trouble_kind: TroubleKind, cause: str, more: int) -> _Episode:
    since, count = (time.monotonic(), 0) if before is None else (before.since, before.count)
    return _Episode(trouble_kind, cause, since, count + more)


def _cause_of(error: Exception) -> str:
    """Return why a place did not take a message; a driver's own words say that a disk is full."""
    return reason_of(error.__cause__) if isinstance(error, UnavailableError) else text_of(error)


def _open_local(file: Path | None, cipher: Cipher | None) -> KeepsBeside:
    path = file or local_parking_file()
    make_folder(path.parent)
    make_private(path)
    return open_local_parking(path, cipher)


async def park_raw(lot: ParkingLot, unreadable: Unreadable, *, trigger: str, destination: str) -> bool:
    """Park a delivery that is not a message; False if nothing could, so that it must not be acknowledged.

    It is parked whole or, if no store can take that, as a piece of limited size.
    """
    for parked in copies_of(unreadable, trigger=trigger, destination=destination):
        if await lot.park([parked]):
            return True
    return False


def copies_of(unreadable: Unreadable, *, trigger: str, destination: str) -> Iterator[Parked]:
    """Yield the copy to park of a delivery that is not a message; then, of a large one, a piece."""
    for copy in _copies(unreadable):
        try:
            yield Parked(
                id=_id(unreadable, trigger, destination),
                trigger_name=trigger,
                kind=ParkedKind.UNREADABLE,
                reason=unreadable.problem,
                destination=destination,
                raw=raw_fields(dict(copy)),
            )
        except MemoryError as error:
            _log.warning("an unreadable delivery is too large: %r", error, extra={"trigger": trigger})


def _copies(unreadable: Unreadable) -> Iterator[Mapping[bytes, bytes]]:
    fields = unreadable.fields
    yield fields
    if sum(len(name) + len(value) for name, value in fields.items()) > LARGE:
        yield {_piece(name): _piece(value) for name, value in list(fields.items())[:MOST_FIELDS]}


def _piece(value: bytes) -> bytes:
    """Return the beginning of a long value, and what distinguishes it from others."""
    if len(value) <= MOST_BYTES:
        return value
    digest = blake2b(value, digest_size=16).hexdigest()
    return b"%s ... (%d bytes in all, blake2b %s)" % (value[:MOST_BYTES], len(value), digest.encode())


def _id(unreadable: Unreadable, trigger: str, destination: str) -> str:
    """Return the id of the copy: the same for each redelivery, and different for any other delivery."""
    digest = blake2b(digest_size=12)
    for word in (trigger, "unreadable", destination):
        _add(digest, word.encode("utf-8", "surrogatepass"))
    if unreadable.delivery_id is not None:
        _add(digest, unreadable.delivery_id.encode("utf-8", "surrogatepass"))
    else:
        for name, value in sorted(unreadable.fields.items()):
            _add(digest, name)
            _add(digest, value)
    return digest.hexdigest()


def _add(digest: blake2b, part: bytes) -> None:
    digest.update(b"%d:" % len(part))
    digest.update(part)
