"""Everything that a store with records keeps beside its entries."""

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, cast

from history.errors import ConfigurationError
from history.store.history import HistoryStore
from history.store.records import Records

if TYPE_CHECKING:
    from history.beside.charts import Charts
    from history.beside.comments import Comments
    from history.beside.control import Control
    from history.beside.filters import Filters
    from history.beside.fingerprints import Fingerprints
    from history.beside.joining import Joining, Lookup
    from history.beside.journal import Journal
    from history.beside.parking import Parking, Triggers
    from history.beside.progress import Progress
    from history.beside.results import Results
    from history.beside.security import SecurityLog
    from history.support.encryption import Cipher

    made_once = property  # so a store may override it by a property
    Store = HistoryStore
else:
    made_once, Store = cached_property, object  # a verb that a store lacks is missing, and does nothing wrong


class KeepsBeside(Store):
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

    @abstractmethod
    def for_asyncio(self) -> "KeepsBeside":
        """Return the same store through an asyncio driver, or itself if it never waits."""

    @property
    def records(self) -> Records:
        """The records beside the entries, in the same store."""
        return self._records

    @made_once
    def parking(self) -> "Parking":
        """Return the parking lot."""
        from history.beside.parking import Parking  # noqa: PLC0415  (as the class says)

        return Parking(self._records, self._sealed_by, triggers=self._triggers_there)

    @made_once
    def control(self) -> "Control":
        """Return commands, states and statistics."""
        from history.beside.control import Control  # noqa: PLC0415  (as the class says)

        return Control(self._records, self._address)

    @made_once
    def joining(self) -> "Joining":
        """Return the joins."""
        from history.beside.joining import Joining  # noqa: PLC0415  (as the class says)

        return Joining(self._records, self._sealed_by, lookup=self._lookup)

    @made_once
    def progress(self) -> "Progress":
        """Return the records of batches."""
        from history.beside.progress import Progress  # noqa: PLC0415  (as the class says)

        return Progress(self._records)

    @made_once
    def results(self) -> "Results":
        """Return the kept results."""
        from history.beside.results import Results  # noqa: PLC0415  (as the class says)

        return Results(self._records, self._sealed_by)

    @made_once
    def failures(self) -> "Results":
        """Return the kept failures of transacted runs."""
        from history.beside.results import FAILURES, Results  # noqa: PLC0415  (as the class says)

        return Results(self._records, self._sealed_by, FAILURES)

    @made_once
    def fingerprints(self) -> "Fingerprints":
        """Return the fingerprints of first bodies."""
        from history.beside.fingerprints import Fingerprints  # noqa: PLC0415  (as the class says)

        return Fingerprints(self._records)

    @made_once
    def journal(self) -> "Journal":
        """Return the journal of each trigger."""
        from history.beside.journal import Journal  # noqa: PLC0415  (as the class says)

        return Journal(self._records)

    @made_once
    def security_log(self) -> "SecurityLog":
        """Return the security log, which does not belong to a trigger."""
        from history.beside.security import SecurityLog  # noqa: PLC0415  (as the class says)

        return SecurityLog(self._records)

    @made_once
    def charts(self) -> "Charts":
        """Return the charts of each trigger."""
        from history.beside.charts import Charts  # noqa: PLC0415  (as the class says)

        return Charts(self._records)

    @made_once
    def comments(self) -> "Comments":
        """Return the comments on parked messages."""
        from history.beside.comments import Comments  # noqa: PLC0415  (as the class says)

        return Comments(self._records)

    @made_once
    def filters(self) -> "Filters":
        """Return the saved filters."""
        from history.beside.filters import Filters  # noqa: PLC0415  (as the class says)

        return Filters(self._records)


def beside_of(store: HistoryStore | None) -> KeepsBeside | None:
    """Return what a store keeps beside its entries; None without a store, or if it has no records.

    A store that passes all calls on to another one has its records, such as a test's store that fails.
    """
    return cast("KeepsBeside", store) if getattr(store, "records", None) is not None else None


def needed_beside(store: HistoryStore | None, setting: str, what: str) -> KeepsBeside:
    """Return what a store keeps beside its entries, because ``setting`` needs ``what`` of it.

    Raises:
        ConfigurationError: there is no store, or it has no records.
    """
    kept = beside_of(store)
    if kept is None:
        problem = "there is no history" if store is None else f"{store!r} keeps no {what}"
        raise ConfigurationError(setting, problem, "use Redis, SQL or memory as the history")
    return kept
