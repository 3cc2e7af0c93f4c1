"""The parked messages of a command: by ids, or all that match the filters."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from heapq import nsmallest

from history.beside.parking import Parking, label_pages
from history.beside.sealing import why_locked
from history.bridge import drive, drive_each
from history.errors import ConfigurationError, DoubtlessError
from history.store.parking import Parked, ParkedKind, ParkedLabel, each_once, oldest_first
from triggers.configuration.nearest import listed

#: How many labels one call reads.
PAGE = 500

#: How many messages a question names.
NAMED = 5


class KindWord(StrEnum):
    """The kinds, as they are written on a command line."""

    IN_DOUBT = "in-doubt"
    REJECTED = "rejected"
    UNREADABLE = "unreadable"


_KINDS = {word: ParkedKind[word.name] for word in KindWord}


class NotParkedError(DoubtlessError):
    """No parked message has this id."""

    def __init__(self, parked_id: str) -> None:
        super().__init__(f"PARKED_ID: {parked_id} is not parked; see: doubtless parked list")


@dataclass(frozen=True, slots=True)
class Selection:
    """The filters of a command; ``trigger`` without others is also a filter."""

    trigger: str | None = None
    kind: KindWord | None = None
    uuid: str | None = None
    containing: str | None = None
    host: str | None = None
    older: timedelta | None = None
    newer: timedelta | None = None
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def filters(self) -> bool:
        """Whether it leaves out any of the trigger's messages."""
        filters = (self.kind, self.uuid, self.containing, self.host, self.older, self.newer)
        return any(value is not None for value in filters)

    def lets_through(self, label: ParkedLabel) -> bool:
        """Whether a message matches."""
        age = self.now - label.parked_at
        error = (label.error_class, label.error_message, label.error_place)
        texts = "\n".join([label.reason, *(text for text in error if text is not None)])
        return (
            (self.kind is None or label.kind is _KINDS[self.kind])
            and (self.uuid is None or fnmatchcase(label.uuid or "", self.uuid.replace("[", "[[]")))
            and (self.containing is None or self.containing.lower() in texts.lower())
            and (self.host is None or host_of(label) == self.host)
            and (self.older is None or age > self.older)
            and (self.newer is None or age <= self.newer)
        )


def chosen(lot: Parking, parked_ids: Sequence[str] | None, selection: Selection) -> Sequence[ParkedLabel]:
    """Find each message once, before any of them is changed: by ids, or else by filters.

    Raises:
        ConfigurationError: neither is given, or both, or an id is not unique.
        NotParkedError: the message does not exist.
    """
    is_filtered = selection.filters or selection.trigger is not None
    if parked_ids and is_filtered:
        raise ConfigurationError("PARKED_ID", "ids and filters exclude each other", "give only one of them")
    if is_filtered:
        return oldest_first(walk(lot, selection))
    if not parked_ids:
        problem, remedy = "is missing", "give ids, or filters such as --trigger and --kind"
        raise ConfigurationError("PARKED_ID", problem, remedy)
    return each_once(ParkedLabel.of(get(lot, parked_id)) for parked_id in parked_ids)


def oldest(lot: Parking, selection: Selection, limit: int) -> tuple[Sequence[ParkedLabel], int]:
    """Return the oldest labels that match, at most ``limit``, and how many match; hold no others."""
    total = 0

    def counted() -> Iterator[ParkedLabel]:
        nonlocal total
        for label in walk(lot, selection):
            total += 1
            yield label

    labels = nsmallest(limit, counted(), key=lambda label: (label.parked_at, label.id))
    return labels, total


def walk(lot: Parking, selection: Selection) -> Iterator[ParkedLabel]:
    """Yield the labels that match the filters, in no particular order; a label may come twice."""
    for page in drive_each(label_pages(lot, selection.trigger, limit=PAGE)):
        yield from filter(selection.lets_through, page.labels) if selection.filters else page.labels


def get(lot: Parking, parked_id: str) -> Parked:
    """Return one message by the beginning of its id.

    Raises:
        ConfigurationError: several ids begin like this, or it is the uuid of a parked message.
        NotParkedError: none does.
    """
    parked = drive(lot.get(parked_id)) if parked_id else None
    if parked is not None:
        return parked
    if matching := drive(lot.beginning(parked_id, limit=NAMED + 1)):
        problem, remedy = f"{parked_id!r} is not unique: {_some(matching)}", "give more of it"
    elif of_uuid := drive(lot.of_uuid(parked_id)):
        problem, remedy = f"{parked_id!r} is a uuid, not the id of a parked message", f"give {_some(of_uuid)}"
    else:
        raise NotParkedError(parked_id)
    raise ConfigurationError("PARKED_ID", problem, remedy)


def _some(labels: Iterable[ParkedLabel]) -> str:
    """Return the ids of messages as text; only the first ones if there are many."""
    ids = {label.id for label in labels}
    return ", ".join(sorted(ids)[:NAMED]) + (", ..." if len(ids) > NAMED else "")


def nothing_like(lot: Parking, selection: Selection, *, local: bool) -> str:
    """Report that no message matches, and which hosts, or triggers of a local file, have messages.

    A host or a trigger of this machine may have nothing parked, and nobody keeps a list of them: so neither
    is refused.
    """
    said = "no parked message matches" if selection.filters else "nothing is parked"
    if selection.host is None and (selection.trigger is None or not local):
        return said
    names = {(host_of(label), label.trigger_name) for label in walk(lot, Selection())}
    hosts = {host for host, _ in names if host is not None}
    triggers = {name for _, name in names}
    if selection.host is not None and selection.host not in hosts:
        said += f"; hosts with parked messages: {listed(hosts)}"
    if local and selection.trigger is not None and selection.trigger not in triggers:
        said += f"; triggers with parked messages in the local file: {listed(triggers)}"
    return said


def summary(labels: Sequence[ParkedLabel]) -> str:
    """Return the number of messages by trigger and kind, and name some."""
    groups: dict[tuple[str, str], list[str]] = {}
    for label in labels:
        groups.setdefault((label.trigger_name, label.kind.value), []).append(label.uuid or label.id)
    parts: list[str] = []
    for (trigger, label_kind), names in groups.items():
        some = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
        parts.append(f"{trigger}: {len(names)} {label_kind} ({some})")
    return "; ".join(parts)


def host_of(label: ParkedLabel) -> str | None:
    """Return the host that started a message; tokens of owners begin with it, except those of batches."""
    host, colon, _ = (label.evidence.owner or "").removeprefix("decided:").partition(":")
    return host if host and colon else None


def without_message(parked: Parked, setting: str, problem: str) -> ConfigurationError:
    """Return the error for a parked copy without a message to run."""
    if (locked := why_locked(parked)) is not None:
        return ConfigurationError(setting, f"{parked.id} cannot be read", locked)
    return ConfigurationError(setting, problem, "send it corrected, or discard it")
