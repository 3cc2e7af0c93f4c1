"""Where the journals of triggers are: in their history, unless code or configuration names another place."""

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from history.bridge import drive
from history.errors import ConfigurationError, UnavailableError
from history.store import HistoryStore
from history.store.journal import JournalLine, journal_of
from history.support.rendering import text_of
from triggers.cli.shared.options import open_to_look
from triggers.configuration.hiding import hidden

if TYPE_CHECKING:
    from triggers.configuration import Configuration
    from triggers.consumer.options import AnyTrigger


class Journals:
    """Reads the journals of triggers beside a history; another place is opened at its first use.

    ``everywhere`` names the place of all of them, if it is given. ``triggers`` are triggers with known code
    and their configured settings; for others only the configuration counts. Safe for several threads.
    """

    def __init__(
        self,
        store: HistoryStore,
        *,
        everywhere: str | None = None,
        triggers: "Iterable[AnyTrigger]" = (),
        configuration: "Configuration | None" = None,
    ) -> None:
        self._store = store
        self._everywhere = everywhere
        self._triggers = {trigger.name: trigger for trigger in triggers}
        self._configuration = configuration
        self._opened: dict[str, HistoryStore] = {}
        self._lock = Lock()

    def url_of(self, trigger: str) -> str | None:
        """Return where the journal of a trigger is; None for its history."""
        if self._everywhere is not None:
            return self._everywhere
        known = self._triggers.get(trigger)
        said = self._configured(trigger) if known is None else known.settings.journal
        return said if isinstance(said, str) else None

    def place_of(self, trigger: str) -> str | None:
        """Return where the journal of a trigger is, as it may be shown; None for its history."""
        url = self.url_of(trigger)
        return None if url is None else hidden(url)

    def read(self, trigger: str, uuid: str | None = None, *, limit: int = 100) -> Sequence[JournalLine]:
        """Return the last lines, the oldest first; none if the store keeps no journal.

        Raises:
            UnavailableError: its server is unavailable.
            ConfigurationError: it is in no place that can be read.
        """
        journal = journal_of(self._store_of(trigger))
        return [] if journal is None else drive(journal.read(trigger, uuid, limit=limit))

    def read_or_say(
        self, trigger: str, uuid: str | None = None, *, limit: int = 100
    ) -> tuple[Sequence[JournalLine], str | None]:
        """Return the last lines; none, and why, if a place cannot be read that the user did not name."""
        try:
            return self.read(trigger, uuid, limit=limit), None
        except (ConfigurationError, UnavailableError) as error:
            place = self.place_of(trigger)
            if place is None or self._everywhere is not None:
                raise
            why = error.problem if isinstance(error, ConfigurationError) else text_of(error)
            return [], f"the journal of {trigger} at {place} cannot be read: {why}"

    def close(self) -> None:
        """Close the opened stores; the history stays open."""
        with self._lock:
            opened, self._opened = list(self._opened.values()), {}
        for store in opened:
            drive(store.close())

    def _store_of(self, trigger: str) -> HistoryStore:
        url = self.url_of(trigger)
        if url is None:
            return self._store
        with self._lock:
            if url not in self._opened:
                self._opened[url] = open_to_look("journal" if self._everywhere is None else "--journal", url)
            return self._opened[url]

    def _configured(self, trigger: str) -> object:
        if self._configuration is None:
            return None
        found = self._configuration.of_trigger(trigger).get("journal") or self._configuration.find("journal")
        return None if found is None else found.value
