"""Refuse unknown names: after a typing error, "there is none" would be the wrong answer.

A command calls this only after it found nothing, so the check costs nothing in other cases. It reads the
names of triggers, which stores keep apart from their entries. It never looks through entries.
"""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from history.bridge import drive
from history.errors import ConfigurationError
from history.store import HistoryStore
from history.store.control import Overview
from triggers.cli.shared.journals import Journals
from triggers.configuration.nearest import cut, instead_of

if TYPE_CHECKING:
    from triggers.consumer.options import AnyTrigger

#: How many labels of parked messages are read for the names of their triggers.
LOOKED_AT = 200


class UnknownNameError(ConfigurationError):
    """The user gave an unknown name."""

    def __init__(self, setting: str, what: str, name: str, known: Collection[str]) -> None:
        super().__init__(setting, f"there is no {what} {cut(name)!r}", instead_of(name, known))


def refuse_unknown(setting: str, what: str, name: str | None, known: Collection[str]) -> None:
    """Refuse an unknown name. If no name is known at all, nothing is refused.

    Raises:
        UnknownNameError: it is not among the known names.
    """
    if name is not None and known and name not in known:
        raise UnknownNameError(setting, what, name, known)


def refuse_unknown_trigger(
    store: HistoryStore,
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
    if trigger is None or trigger in (loaded := {one.name for one in triggers}):
        return
    recorded = recorded_triggers(store)
    if recorded and not _left_a_trace(store, trigger, journals or Journals(store)):
        refuse_unknown(setting, "trigger", trigger, recorded | loaded)


def recorded_triggers(store: HistoryStore) -> set[str]:
    """Name the triggers with entries, parked messages, decisions, counts or commands in a history."""
    parked = drive(store.parking.labels(limit=LOOKED_AT)).labels
    return {*known_triggers(store, drive(store.control.overview())), *(one.trigger_name for one in parked)}


def known_triggers(store: HistoryStore, overview: Overview) -> list[str]:
    """Name the triggers that have entries or decisions, consumers, counts or commands, sorted."""
    return sorted({*overview.triggers(), *drive(store.triggers())})


def _left_a_trace(store: HistoryStore, trigger: str, journals: Journals) -> bool:
    """Whether a parked message or the journal contains the trigger, which no list names."""
    return bool(drive(store.parking.count(trigger=trigger)) or journals.read_or_say(trigger, limit=1)[0])
