"""Everything that a store with records keeps beside its entries."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from history.store.records import Records

if TYPE_CHECKING:
    from history.beside.joining import Lookup
    from history.beside.parking import Triggers
    from history.store.control import Control
    from history.store.fingerprints import Fingerprints
    from history.store.joining import Joining
    from history.store.journal import Journal
    from history.store.parking import Parking
    from history.store.progress import Progress
    from history.store.results import Results
    from history.store.security import SecurityLog
    from history.support.encryption import Cipher

    made_once = property  # pyright does not accept a cached_property as a property of a protocol
else:
    made_once = cached_property


class KeepsBeside:
    """A store that keeps everything in its records: its constructor calls :meth:`keep_beside`.

    Each part is loaded at its first use: a worker of Spark only claims.
    """

    def keep_beside(
        self,
        records: Records,
        cipher: "Cipher | None" = None,
        *,
        triggers: "Triggers",
        lookup: "Lookup",
        address: Callable[[], str],
    ) -> None:
        """Keep everything in these records, encrypted if there is a cipher.

        ``triggers`` and ``lookup`` are the store's, and ``address`` is the server's.
        """
        self._records = records
        self._sealed_by, self._triggers_there, self._lookup, self._address = cipher, triggers, lookup, address

    @property
    def records(self) -> Records:
        """The records beside the entries, in the same store."""
        return self._records

    @made_once
    def parking(self) -> "Parking":
        """Return the parking lot, in the same store."""
        from history.beside.parking import RecordedParking  # noqa: PLC0415  (as the class says)

        return RecordedParking(self._records, self._sealed_by, triggers=self._triggers_there)

    @made_once
    def control(self) -> "Control":
        """Return commands, states and statistics, in the same store."""
        from history.beside.control import RecordedControl  # noqa: PLC0415  (as the class says)

        return RecordedControl(self._records, self._address)

    @made_once
    def results(self) -> "Results":
        """Return the kept results."""
        from history.beside.results import RecordedResults  # noqa: PLC0415  (as the class says)

        return RecordedResults(self._records, self._sealed_by)

    @made_once
    def fingerprints(self) -> "Fingerprints":
        """Return the fingerprints of first bodies."""
        from history.beside.fingerprints import RecordedFingerprints  # noqa: PLC0415  (as the class says)

        return RecordedFingerprints(self._records)

    @made_once
    def journal(self) -> "Journal":
        """Return the journal of each trigger."""
        from history.beside.journal import RecordedJournal  # noqa: PLC0415  (as the class says)

        return RecordedJournal(self._records)

    @made_once
    def security_log(self) -> "SecurityLog":
        """Return the security log, which does not belong to a trigger."""
        from history.beside.journal import RecordedSecurityLog  # noqa: PLC0415  (as the class says)

        return RecordedSecurityLog(self._records)

    @made_once
    def progress(self) -> "Progress":
        """Return the records of batches."""
        from history.beside.progress import RecordedProgress  # noqa: PLC0415  (as the class says)

        return RecordedProgress(self._records)

    @made_once
    def joining(self) -> "Joining":
        """Return the joins, in the same store."""
        from history.beside.joining import RecordedJoining  # noqa: PLC0415  (as the class says)

        return RecordedJoining(self._records, self._sealed_by, lookup=self._lookup)
