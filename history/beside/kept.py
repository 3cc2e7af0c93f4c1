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

    @cached_property
    def _parking(self) -> "Parking":
        from history.beside.parking import RecordedParking  # noqa: PLC0415  (as the class says)

        return RecordedParking(self._records, self._sealed_by, triggers=self._triggers_there)

    @property
    def parking(self) -> "Parking":
        """The parking lot, in the same store."""
        return self._parking

    @cached_property
    def _control(self) -> "Control":
        from history.beside.control import RecordedControl  # noqa: PLC0415  (as the class says)

        return RecordedControl(self._records, self._address)

    @property
    def control(self) -> "Control":
        """Commands, states and statistics, in the same store."""
        return self._control

    @cached_property
    def _results(self) -> "Results":
        from history.beside.results import RecordedResults  # noqa: PLC0415  (as the class says)

        return RecordedResults(self._records, self._sealed_by)

    @property
    def results(self) -> "Results":
        """The kept results."""
        return self._results

    @cached_property
    def _fingerprints(self) -> "Fingerprints":
        from history.beside.fingerprints import RecordedFingerprints  # noqa: PLC0415  (as the class says)

        return RecordedFingerprints(self._records)

    @property
    def fingerprints(self) -> "Fingerprints":
        """The fingerprints of first bodies."""
        return self._fingerprints

    @cached_property
    def _journal(self) -> "Journal":
        from history.beside.journal import RecordedJournal  # noqa: PLC0415  (as the class says)

        return RecordedJournal(self._records)

    @property
    def journal(self) -> "Journal":
        """The journal of each trigger."""
        return self._journal

    @cached_property
    def _security_log(self) -> "SecurityLog":
        from history.beside.journal import RecordedSecurityLog  # noqa: PLC0415  (as the class says)

        return RecordedSecurityLog(self._records)

    @property
    def security_log(self) -> "SecurityLog":
        """The security log, which does not belong to a trigger."""
        return self._security_log

    @cached_property
    def _progress(self) -> "Progress":
        from history.beside.progress import RecordedProgress  # noqa: PLC0415  (as the class says)

        return RecordedProgress(self._records)

    @property
    def progress(self) -> "Progress":
        """The records of batches."""
        return self._progress

    @cached_property
    def _joining(self) -> "Joining":
        from history.beside.joining import RecordedJoining  # noqa: PLC0415  (as the class says)

        return RecordedJoining(self._records, self._sealed_by, lookup=self._lookup)

    @property
    def joining(self) -> "Joining":
        """The joins, in the same store."""
        return self._joining
