"""Everything that a store with records keeps beside its entries."""

from collections.abc import Callable

from history.beside.control import RecordedControl
from history.beside.fingerprints import FINGERPRINTS, RecordedFingerprints
from history.beside.joining import Lookup, RecordedJoining
from history.beside.journal import RecordedJournal, RecordedSecurityLog
from history.beside.parking import RecordedParking, Triggers
from history.beside.progress import RecordedProgress
from history.beside.results import RESULTS, RecordedResults
from history.store.control import Control
from history.store.fingerprints import Fingerprints
from history.store.joining import Joining
from history.store.journal import Journal
from history.store.parking import Parking
from history.store.progress import Progress
from history.store.records import Records
from history.store.results import Results
from history.store.security import SecurityLog
from history.support.encryption import Cipher

#: The kinds that have the digest of a uuid as key: they are forgotten with its entry.
OF_ENTRIES = (RESULTS, FINGERPRINTS)


class KeepsBeside:
    """A store that keeps everything in its records: its constructor calls :meth:`keep_beside`."""

    def keep_beside(
        self,
        records: Records,
        cipher: Cipher | None = None,
        *,
        triggers: Triggers,
        lookup: Lookup,
        address: Callable[[], str],
    ) -> None:
        """Keep everything in these records, encrypted if there is a cipher.

        ``triggers`` and ``lookup`` are the store's, and ``address`` is the server's.
        """
        self._records = records
        self._parking: Parking = RecordedParking(records, cipher, triggers=triggers)
        self._control: Control = RecordedControl(records, address)
        self._results: Results = RecordedResults(records, cipher)
        self._fingerprints: Fingerprints = RecordedFingerprints(records)
        self._journal: Journal = RecordedJournal(records)
        self._security_log: SecurityLog = RecordedSecurityLog(records)
        self._progress: Progress = RecordedProgress(records)
        self._joining: Joining = RecordedJoining(records, cipher, lookup=lookup)

    @property
    def records(self) -> Records:
        """The records beside the entries, in the same store."""
        return self._records

    @property
    def parking(self) -> Parking:
        """The parking lot, in the same store."""
        return self._parking

    @property
    def control(self) -> Control:
        """Commands, states and statistics, in the same store."""
        return self._control

    @property
    def results(self) -> Results:
        """The kept results."""
        return self._results

    @property
    def fingerprints(self) -> Fingerprints:
        """The fingerprints of first bodies."""
        return self._fingerprints

    @property
    def journal(self) -> Journal:
        """The journal of each trigger."""
        return self._journal

    @property
    def security_log(self) -> SecurityLog:
        """The security log, which does not belong to a trigger."""
        return self._security_log

    @property
    def progress(self) -> Progress:
        """The records of batches."""
        return self._progress

    @property
    def joining(self) -> Joining:
        """The joins, in the same store."""
        return self._joining
