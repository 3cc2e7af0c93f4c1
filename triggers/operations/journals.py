"""Where the journals of triggers are: in their history, unless code or configuration names another place."""

from collections.abc import Callable, Collection, Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from history.beside.journal import JournalLine
from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.errors import ConfigurationError, UnavailableError
from history.store.control import Overview
from history.support.rendering import text_of
from triggers.configuration.hiding import hidden
from triggers.configuration.nearest import cut, instead_of
from triggers.operations.looking import open_to_look

if TYPE_CHECKING:
    from triggers.configuration import Configuration
    from triggers.consumer.options import AnyTrigger


class Journals:
    """Reads the journals of triggers beside a history; another place is opened at its first use.

    ``everywhere`` names the place of all of them, if it is given. ``triggers`` are triggers with known code
    and their configured settings; for others only the configuration counts. ``store_of`` returns the history
    of a trigger if there are several. Safe for several threads.
    """

    def __init__(
        self,
        store: KeepsBeside,
        *,
        everywhere: str | None = None,
        triggers: "Iterable[AnyTrigger]" = (),
        configuration: "Configuration | None" = None,
        store_of: Callable[[str], KeepsBeside] | None = None,
    ) -> None:
        self._store, self._known_store_of = store, store_of
        self._everywhere = everywhere
        self._triggers = {trigger.name: trigger for trigger in triggers}
        self._configuration = configuration
        self._opened: dict[str, KeepsBeside] = {}
        self._lock = Lock()

    def url_of(self, trigger: str) -> str | None:
        """Return where the journal of a trigger is; None for its history."""
        if self._everywhere is not None:
            return self._everywhere
        loaded = self._triggers.get(trigger)
        said = self._configured(trigger) if loaded is None else loaded.settings.journal
        return said if isinstance(said, str) else None

    def place_of(self, trigger: str) -> str | None:
        """Return where the journal of a trigger is, as it may be shown; None for its history."""
        url = self.url_of(trigger)
        return None if url is None else hidden(url)

    def read(self, trigger: str, uuid: str | None = None, *, limit: int = 100) -> Sequence[JournalLine]:
        """Return the last lines, the oldest first.

        Raises:
            UnavailableError: its server is unavailable.
            ConfigurationError: it is in no place that can be read.
        """
        return drive(self._store_of(trigger).journal.read(trigger, uuid, limit=limit))

    def read_or_say(
        self, trigger: str, uuid: str | None = None, *, limit: int = 100
    ) -> tuple[Sequence[JournalLine], str | None]:
        """Return the last lines; none, and why, if a place cannot be read that the user did not name."""
        try:
            return self.read(trigger, uuid, limit=limit), None
        except (ConfigurationError, UnavailableError) as error:
            journal_place = self.place_of(trigger)
            if journal_place is None or self._everywhere is not None:
                raise
            why = error.problem if isinstance(error, ConfigurationError) else text_of(error)
            return [], f"the journal of {trigger} at {journal_place} cannot be read: {why}"

    def close(self) -> None:
        """Close the opened stores; the history stays open."""
        with self._lock:
            opened, self._opened = list(self._opened.values()), {}
        for store in opened:
            drive(store.close())

    def _store_of(self, trigger: str) -> KeepsBeside:
        url = self.url_of(trigger)
        if url is None:
            return self._store if self._known_store_of is None else self._known_store_of(trigger)
        with self._lock:
            if url not in self._opened:
                self._opened[url] = open_to_look("journal" if self._everywhere is None else "--journal", url)
            return self._opened[url]

    def _configured(self, trigger: str) -> object:
        if self._configuration is None:
            return None
        setting = self._configuration.of_trigger(trigger).get("journal") or self._configuration.find(
            "journal"
        )
        return None if setting is None else setting.value


class UnknownNameError(ConfigurationError):
    """The user gave an unknown name."""

    def __init__(self, setting: str, what: str, name: str, offered: Collection[str]) -> None:
        super().__init__(setting, f"there is no {what} {cut(name)!r}", instead_of(name, offered))


def refuse_unknown(setting: str, what: str, name: str | None, offered: Collection[str]) -> None:
    """Refuse an unknown name. If no name is known at all, nothing is refused.

    Raises:
        UnknownNameError: it is not among the known names.
    """
    if name is not None and offered and name not in offered:
        raise UnknownNameError(setting, what, name, offered)


def refuse_unknown_trigger(
    store: KeepsBeside,
    trigger: str | None,
    *,
    triggers: "Iterable[AnyTrigger]" = (),
    journals: Journals | None = None,
    setting: str = "--trigger",
) -> None:
    """Refuse a trigger that is unknown to the history, its journal and the loaded ``triggers``.

    Raises:
        UnknownNameError: it is unknown, and something is recorded of others.
    """
    if trigger is None or trigger in (loaded := {loaded_trigger.name for loaded_trigger in triggers}):
        return
    recorded = recorded_triggers(store)
    if recorded and not _left_a_trace(store, trigger, journals or Journals(store)):
        refuse_unknown(setting, "trigger", trigger, recorded | loaded)


def recorded_triggers(store: KeepsBeside) -> set[str]:
    """Name the triggers with entries, parked messages, decisions, counts or commands in a history."""
    return set(known_triggers(store, drive(store.control.overview())))


def known_triggers(store: KeepsBeside, overview: Overview) -> list[str]:
    """Name the triggers with entries, parked messages, decisions, consumers, counts or commands, sorted."""
    return sorted({*overview.triggers(), *drive(store.triggers())})


def _left_a_trace(store: KeepsBeside, trigger: str, journals: Journals) -> bool:
    """Whether a parked message or the journal contains the trigger, which no list names."""
    return bool(drive(store.parking.count(trigger=trigger)) or journals.read_or_say(trigger, limit=1)[0])
