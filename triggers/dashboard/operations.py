"""The common objects of all pages: the history, the triggers, the counts, and the running jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from history.beside.kept import KeepsBeside, beside_of, needed_beside
from history.errors import ConfigurationError
from history.store import HistoryStore
from triggers.configuration import Configuration
from triggers.configuration.hiding import hidden
from triggers.consumer.options import AnyTrigger
from triggers.dashboard.charts.reading import Charts
from triggers.dashboard.jobs.jobs import Jobs
from triggers.dashboard.places import Places
from triggers.dashboard.pulse import Pulse, Source
from triggers.dashboard.questions import Questions
from triggers.dashboard.survey import Surveys
from triggers.operations.journals import Journals
from triggers.operations.looking import is_in_memory, open_to_look
from triggers.operations.sizes import STORES, StoreCost, bytes_of
from triggers.security.recorder import Recorder
from triggers.service.options import CONSUMERS_DEFAULT, ConsumersDefault, HistorySource

#: Where messages may be parked that the dashboard cannot show, and what to do.
IN_MEMORY = "in the memory of its consumer, which no other process can read"
IN_LOT_OF_CODE = "in a lot that its code made, which the dashboard cannot open"
IN_LOCAL_FILE = "in a local file of its machine: see doubtless parked list --local there"


@dataclass(frozen=True, slots=True)
class Forecast:
    """The size of entries if new messages keep coming at the present rate.

    ``size`` is in bytes, as ``doubtless size`` counts; None for an unknown kind of store.
    """

    entries: int
    size: int | None


@dataclass(frozen=True, slots=True)
class Operations:
    """The histories, and the knowledge about them; ``triggers`` can run messages, by name.

    ``store`` is the dashboard's history, which has the security log. For the messages of a trigger see
    :meth:`store_of`.
    """

    store: KeepsBeside
    address: str
    triggers: dict[str, AnyTrigger]
    surveyor: Surveys
    pulse: Pulse
    jobs: Jobs
    places: Places
    journals: Journals
    recorder: Recorder
    charts: Charts
    questions: Questions = field(default_factory=Questions)

    @classmethod
    def over(
        cls,
        store: HistoryStore,
        history: str,
        triggers: Sequence[AnyTrigger],
        providers: Sequence[str] = (),
        *,
        configuration: Configuration | None = None,
        background: bool = True,
        recorder: Recorder | None = None,
    ) -> "Operations":
        """Return the operations over an open history; ``history`` is its URL, ``providers`` are URLs.

        The configuration says where the journals of other triggers are. ``recorder`` writes the security log;
        by default to the history and the log.

        Raises:
            ConfigurationError: the history has no records, or a name stands for triggers of two histories.
        """
        _refuse_namesakes(history, store, triggers)
        kept = needed_beside(store, "history", "commands")
        here = [each.name for each in triggers if _is_here(each.history_source, history, store)]
        parks = [each.name for each in triggers if each.settings.parking == history]
        others = _others(history, store, triggers)
        pulse = Pulse(kept, names=here, parks=parks, others=others, background=background)
        surveyor = Surveys(pulse, background=background)
        by_name = {trigger.name: trigger for trigger in triggers}
        jobs = Jobs(pulse.store_of, pulse.lot_of, surveyor, by_name, history)
        places = Places(providers, triggers, background=background)
        journals = Journals(kept, triggers=triggers, configuration=configuration, store_of=pulse.store_of)
        recorder = recorder or Recorder(kept.security_log, background=background)
        address = kept.control.address
        charts = Charts(pulse, background=background)
        return cls(kept, address, by_name, surveyor, pulse, jobs, places, journals, recorder, charts)

    def store_of(self, trigger: str | None) -> KeepsBeside:
        """Return the store that has the messages of a trigger; the dashboard's for None.

        Raises:
            DoubtlessError: its history cannot be opened.
        """
        return self.store if trigger is None else self.pulse.store_of(trigger)

    def lot_of(self, trigger: str | None) -> KeepsBeside:
        """Return the store in which the messages of a trigger are parked; the dashboard's for None.

        Raises:
            DoubtlessError: it cannot be opened.
        """
        return self.store if trigger is None else self.pulse.lot_of(trigger)

    def sees_parked(self, trigger: str) -> bool:
        """Whether its messages are parked where the dashboard looks.

        They may also be in a file that does not exist on this machine, or where :meth:`unseen` says.
        """
        loaded = self.triggers.get(trigger)
        if loaded is not None and isinstance(loaded.settings.parking, str):
            lot = self.pulse.lot_source_of(trigger)
            return trigger in lot.parks and lot.store is not None
        return self.unseen(trigger) is None

    def unseen(self, trigger: str) -> str | None:
        """Say where its messages are parked if the dashboard can never look there; None if it can."""
        loaded = self.triggers.get(trigger)
        if loaded is None:
            return None
        parking = loaded.settings.parking
        if isinstance(parking, str):
            return None if trigger in self.pulse.lot_source_of(trigger).parks else IN_MEMORY
        if parking is not None:
            return IN_LOT_OF_CODE
        return None if loaded.has_history else IN_LOCAL_FILE

    def parked(self, trigger: str, counts: Mapping[str, int]) -> int | None:
        """Return how many messages of a trigger are parked; None if that is not known."""
        counted_at = self.surveyor.counted_at(self.pulse.lot_source_of(trigger))
        return counts.get(trigger, 0 if counted_at is not None and self.sees_parked(trigger) else None)

    def bytes_of(self, entries: Mapping[str, float]) -> int | None:
        """Return about how many bytes the entries of triggers take; None for an unknown kind of store."""
        costs = {name: self._cost_of(name) for name in entries}
        sizes = [count * cost.entry for name, count in entries.items() if (cost := costs[name]) is not None]
        return round(sum(sizes)) if len(sizes) == len(entries) else None

    def forecast(self, trigger: str) -> Forecast | None:
        """Return the forecast of a trigger's entries; None if its settings or its rate are not known."""
        loaded, rates = self.triggers.get(trigger), self.pulse.rates(trigger)
        if loaded is None or rates is None:
            return None
        entries = rates["new"] * loaded.settings.history_time_to_live.total_seconds()
        cost = self._cost_of(trigger)
        return Forecast(round(entries), None if cost is None else round(bytes_of(cost, entries, None)))

    def _cost_of(self, trigger: str) -> StoreCost | None:
        address = self.pulse.source_of(trigger).address
        scheme = address.partition(":")[0].split()[0]  # "redis cluster" is a Redis
        return next((cost for cost in STORES if cost.name == scheme), None)

    def close(self) -> None:
        """Finish the present step; nothing reads the history afterwards."""
        self.jobs.close()
        self.surveyor.close()
        self.places.close()
        self.charts.close()
        self.pulse.close()
        self.journals.close()
        self.recorder.close()


def _refuse_namesakes(history: str, store: HistoryStore, triggers: Sequence[AnyTrigger]) -> None:
    """Refuse a name in two histories: the service of one would run on the parked messages of the other."""
    first: dict[str, HistorySource] = {}
    for trigger in triggers:
        source = history if _is_here(trigger.history_source, history, store) else trigger.history_source
        if first.setdefault(trigger.name, source) != source:
            problem = "triggers of this name have different histories"
            raise ConfigurationError(
                f"trigger {trigger.name}", problem, "serve a dashboard for each, or give each its own name="
            )


def _is_here(source: HistorySource, history: str, store: HistoryStore) -> bool:
    return source in (CONSUMERS_DEFAULT, history) or source is store


def _others(history: str, store: HistoryStore, triggers: Sequence[AnyTrigger]) -> list[Source]:
    """Return the histories of triggers, and where these park, that are not the dashboard's."""
    others: dict[str | int, Source] = {}
    for trigger in triggers:
        source = trigger.history_source
        if source is None or isinstance(source, ConsumersDefault) or _is_here(source, history, store):
            continue
        key = source if isinstance(source, str) else id(source)
        if key not in others:
            others[key] = _at(source) if isinstance(source, str) else _given(source)
        others[key].names.append(trigger.name)
    for trigger in triggers:
        parking = trigger.settings.parking
        if isinstance(parking, str) and parking != history and not is_in_memory(parking):
            others.setdefault(parking, _lot_at(parking)).parks.append(trigger.name)
    return list(others.values())


def _at(url: str) -> Source:
    return Source(hidden(url), partial(open_to_look, "history", url))


def _lot_at(url: str) -> Source:
    """Return a place for parked messages. Triggers make its file with the first message that they park."""
    return Source(hidden(url), partial(open_to_look, "parking", url, dry=True))


def _given(store: HistoryStore) -> Source:
    """Return a history that the module opened, and closes."""
    kept = beside_of(store)
    address = type(store).__name__ if kept is None else kept.control.address
    return Source(address, partial(_usable, store), is_given=True)


def _usable(store: HistoryStore) -> KeepsBeside:
    kept = needed_beside(store, "history", "commands")
    if getattr(kept, "is_for_asyncio", False):
        problem = "the store of these triggers needs an event loop, which the dashboard does not have"
        raise ConfigurationError("history", problem, "give the triggers a URL, or a blocking store")
    return kept
