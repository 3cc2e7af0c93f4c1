"""What all pages work on: the history, the triggers, what is counted, and what is being done."""

from collections.abc import Sequence
from dataclasses import dataclass

from history.store import HistoryStore
from triggers.cli.shared.journals import Journals
from triggers.configuration import Configuration
from triggers.consumer.options import AnyTrigger
from triggers.dashboard.jobs import Jobs
from triggers.dashboard.places import Places
from triggers.dashboard.pulse import Pulse
from triggers.dashboard.survey import Surveyor


@dataclass(frozen=True, slots=True)
class Operations:
    """One history and what is known of it; ``triggers`` are those that messages can be run with, by name."""

    store: HistoryStore
    address: str
    triggers: dict[str, AnyTrigger]
    surveyor: Surveyor
    pulse: Pulse
    jobs: Jobs
    places: Places
    journals: Journals

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
    ) -> "Operations":
        """Return the operations over an open history; ``history`` is its URL, ``providers`` are URLs.

        The configuration says where the journals of triggers are that are not among these.
        """
        surveyor = Surveyor(store, background=background)
        by_name = {trigger.name: trigger for trigger in triggers}
        jobs = Jobs(store, surveyor, by_name, history)
        places = Places(providers, triggers, background=background)
        journals = Journals(store, triggers=triggers, configuration=configuration)
        return cls(store, store.control.address, by_name, surveyor, Pulse(store), jobs, places, journals)

    def close(self) -> None:
        """Finish the step that is being done; nothing looks into the history afterwards."""
        self.jobs.close()
        self.surveyor.close()
        self.places.close()
        self.journals.close()
