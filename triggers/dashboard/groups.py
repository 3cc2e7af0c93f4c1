"""Parked messages in groups: by cause, and by the host of the worker that had begun them."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple, overload

from history.store.parking import Evidence, ParkedKind, ParkedLabel
from triggers.operations.choosing import host_of

#: For how many messages a survey keeps a line; the others are only counted.
LISTED = 250_000

#: How much of a reason and of an error a line stores.
REASON_TEXT, ERROR_TEXT = 240, 120

#: The most different texts of messages of one row and error; with more, they are one group.
MOST_TEXTS = 20

#: How many lines are sorted in one step, which takes some milliseconds in which no other thread runs.
SORTED = 5_000

_ROW = re.compile(r" \(row (\d{1,3})\)$")
_QUOTED = re.compile(r"""(?<!\w)(?:'[^']*'|"[^"]*"|`[^`]*`)(?!\w)""")
_DIGIT = re.compile(r"\d")


class ParkedCause(NamedTuple):
    """Why messages are parked: a row of the decision table, None if none is named; and a reason.

    The reason is without the parts that differ from message to message.
    """

    row: int | None
    text: str


@lru_cache(maxsize=1_000)
def cause_of(reason: str) -> ParkedCause:
    """Return why a message is parked, without its numbers, uuids, tokens and quoted values."""
    prefix = _ROW.search(reason)
    row, text = (None, reason) if prefix is None else (int(prefix[1]), reason[: prefix.start()])
    parts = (_plain(word) for word in _QUOTED.sub("…", text).split())
    return ParkedCause(row, " ".join(parts))


def _plain(word: str) -> str:
    if _DIGIT.search(word) is None:
        return word
    return "…" + word[len(word.rstrip(".,;:)")) :]


class Line(NamedTuple):
    """The fields of a parked message that a list shows and a decision needs."""

    parked_at: datetime
    id: str
    uuid: str | None
    copies: int
    owner: str | None
    fence: int | None
    reason: str
    error: str | None


#: The stored form of a line: a plain tuple, without a class. Python's garbage collector soon ignores plain
#: tuples; a hundred thousand lines made it pass over all objects, for which all pages waited half a second.
_Kept = tuple[datetime, str, str | None, int, str | None, int | None, str, str | None]


class Lines(Sequence[Line]):
    """Lines, each made when it is read."""

    __slots__ = ("_kept",)

    def __init__(self, kept: Sequence[_Kept] = ()) -> None:
        self._kept = kept

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> "Lines": ...
    def __getitem__(self, index: int | slice) -> "Line | Lines":
        return Lines(self._kept[index]) if isinstance(index, slice) else Line._make(self._kept[index])

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Line]:
        return map(Line._make, self._kept)

    def some(self, ids: Collection[str] | None, until: datetime | None) -> "Lines":
        """Return the lines of these ids, or all, that were parked until then."""
        return Lines(
            [
                line
                for line in self._kept
                if (ids is None or line[1] in ids) and (until is None or line[0] <= until)
            ]
        )

    def matching(self, lets_through: Callable[[Line], bool]) -> "Lines":
        """Return the lines that a filter lets through."""
        return Lines([line for line in self._kept if lets_through(Line._make(line))])

    def others(self, ids: Collection[str]) -> "Lines":
        """Return the lines without these ids."""
        return Lines([line for line in self._kept if line[1] not in ids])


@dataclass(frozen=True, slots=True)
class Group:
    """Parked messages of one trigger and kind; ``lines`` are the oldest first.

    They have one cause, which is ``reason``; or a worker on one ``host`` had begun all of them.
    """

    key: str
    trigger: str
    kind: ParkedKind
    reason: str
    error_class: str | None
    count: int
    oldest: datetime
    lines: Lines
    host: str | None = None
    error_place: str | None = None

    @property
    def example(self) -> Line | None:
        """Its oldest message, if that says more than the group."""
        line = next(iter(self.lines), None)
        return None if line is None or (line.reason == self.reason and line.error is None) else line

    def choose(self, ids: Collection[str] | None, until: datetime | None) -> Lines:
        """Return some of its messages: those of these ids, or all, that were parked until then."""
        return self.lines.some(ids, until)

    def label(self, line: Line) -> ParkedLabel:
        """Return the label of one of its messages."""
        return ParkedLabel(
            id=line.id,
            trigger_name=self.trigger,
            kind=self.kind,
            reason=line.reason,
            uuid=line.uuid,
            evidence=Evidence(owner=line.owner, fence=line.fence),
            error_class=self.error_class,
            error_message=line.error,
            error_place=self.error_place,
            parked_at=line.parked_at,
            copies=line.copies,
        )

    def without(self, ids: Collection[str]) -> "Group | None":
        """Return the rest of it without these messages; None if nothing is left."""
        lines = self.lines.others(ids)
        count = self.count - (len(self.lines) - len(lines))
        if count <= 0:
            return None
        return replace(self, lines=lines, count=count, oldest=lines[0].parked_at if lines else self.oldest)


@dataclass(frozen=True, slots=True)
class Host:
    """The messages that workers on one host had begun: a group for each trigger and kind, largest first."""

    name: str
    groups: Sequence[Group]

    @property
    def count(self) -> int:
        """How many messages these are."""
        return sum(group.count for group in self.groups)

    @property
    def listed(self) -> int:
        """How many of them have a line."""
        return sum(len(group.lines) for group in self.groups)

    @property
    def oldest(self) -> datetime:
        """When the oldest of them was parked."""
        return min(group.oldest for group in self.groups)


def hosts_of(groups: Iterable[Group]) -> list[Host]:
    """Put groups by host together, the host with the most messages first."""
    by_host: dict[str, list[Group]] = {}
    for group in groups:
        if group.host is not None:
            by_host.setdefault(group.host, []).append(group)
    return sorted((Host(*host) for host in by_host.items()), key=lambda host: (-host.count, host.name))


_LAST = datetime.max.replace(tzinfo=UTC)

#: Trigger, kind, row, class and place of the error.
_Facts = tuple[str, ParkedKind, int | None, str | None, str | None]


@dataclass(slots=True)
class _Heap:
    """Messages of one group during the count."""

    count: int = 0
    oldest: datetime = _LAST
    lines: dict[str, _Kept] = field(default_factory=dict[str, _Kept])

    def add(self, label: ParkedLabel, line: _Kept | None) -> None:
        self.count += 1
        self.oldest = min(self.oldest, label.parked_at)
        if line is not None:
            self.lines[label.id] = line

    def take_in(self, other: "_Heap") -> None:
        self.count += other.count
        self.oldest = min(self.oldest, other.oldest)
        self.lines |= other.lines


@dataclass(slots=True)
class _Texts:
    """The messages of one row, error and place by their texts; if there are too many texts, in one heap.

    All texts of that heap begin with the ``common`` parts of sentences.
    """

    heaps: defaultdict[str, _Heap] = field(default_factory=lambda: defaultdict(_Heap))
    common: Sequence[str] | None = None

    def heap(self, text: str) -> _Heap:
        """Return the heap in which a message with this text is counted."""
        if self.common is None and text not in self.heaps and len(self.heaps) == MOST_TEXTS:
            self._put_together()
        if self.common is None:
            return self.heaps[text]
        self.common = _both_begin(self.common, text)
        return self.heaps[""]

    def _put_together(self) -> None:
        whole, texts = _Heap(), list(self.heaps)
        for heap in self.heaps.values():
            whole.take_in(heap)
        self.heaps, self.common = defaultdict(_Heap, {"": whole}), texts[0].split("; ")
        for text in texts:
            self.common = _both_begin(self.common, text)


def _both_begin(common: Sequence[str], text: str) -> Sequence[str]:
    """Return the parts of sentences with which a text also begins."""
    parts = text.split("; ", len(common))
    same = 0
    while same < min(len(common), len(parts)) and common[same] == parts[same]:
        same += 1
    return common[:same]


def _nothing() -> None:
    """Do not rest."""


class Counting:
    """Counts and groups labels, one after the other; it keeps a line for each of the first :data:`LISTED`.

    ``rest`` is called between pieces of long work at the end.
    """

    def __init__(self, rest: Callable[[], None] = _nothing) -> None:
        self._causes: defaultdict[_Facts, _Texts] = defaultdict(_Texts)
        self._hosts: defaultdict[tuple[str, ParkedKind, str], _Heap] = defaultdict(_Heap)
        self._listed = 0
        self._rest = rest

    def add(self, label: ParkedLabel) -> bool:
        """Count a message; False if it was counted before."""
        cause = cause_of(label.reason)
        facts = label.trigger_name, label.kind, cause.row, label.error_class, label.error_place
        heap = self._causes[facts].heap(cause.text)
        if label.id in heap.lines:
            return False
        line = _line(label) if self._listed < LISTED else None
        self._listed += line is not None
        heap.add(label, line)
        if (host := host_of(label)) is not None:
            self._hosts[label.trigger_name, label.kind, host].add(label, line)
        return True

    def by_cause(self) -> list[Group]:
        """Return the groups by cause, the largest first."""
        return _in_order(
            group for facts, texts in self._causes.items() for group in self._groups(facts, texts)
        )

    def by_host(self) -> list[Group]:
        """Return the groups by host, the largest first."""
        return _in_order(
            self._group(
                ("host", *facts), facts[:2], f"a worker on {facts[2]} had begun it", heap, host=facts[2]
            )
            for facts, heap in self._hosts.items()
        )

    def _groups(self, facts: _Facts, texts: _Texts) -> Iterator[Group]:
        trigger, kind, row, error_class, where = facts
        for text, heap in texts.heaps.items():
            if texts.common is None:
                reasons = {reason for *_, reason, _ in heap.lines.values()}
                reason = reasons.pop() if len(reasons) == 1 else _in_row(text, row)
            else:
                beginning = "".join(f"{part}; " for part in texts.common)
                reason = _in_row(f"{beginning}…", row)
            key = (*facts, text if texts.common is None else None)
            yield self._group(key, (trigger, kind), reason, heap, error_class=error_class, error_place=where)

    def _group(
        self,
        facts: tuple[object, ...],
        of: tuple[str, ParkedKind],
        reason: str,
        heap: _Heap,
        *,
        error_class: str | None = None,
        error_place: str | None = None,
        host: str | None = None,
    ) -> Group:
        lines = Lines(_sorted(heap.lines, self._rest))
        return Group(_key(facts), *of, reason, error_class, heap.count, heap.oldest, lines, host, error_place)


def _sorted(kept: Mapping[str, _Kept], rest: Callable[[], None]) -> Sequence[_Kept]:
    """Sort lines by their age, with rests: first pieces, then pairs of sorted pieces."""
    lines = list(kept.values())
    pieces = [lines[start : start + SORTED] for start in range(0, len(lines), SORTED)]
    for piece in pieces:
        rest()
        piece.sort()
    while len(pieces) > 1:
        rest()
        pieces.append(sorted(pieces.pop(0) + pieces.pop(0)))
    return pieces[0] if pieces else ()


def _in_row(text: str, row: int | None) -> str:
    return text if row is None else f"{text} (row {row})"


def _in_order(groups: Iterable[Group]) -> list[Group]:
    return sorted(groups, key=lambda group: (-group.count, group.key))


def _line(label: ParkedLabel) -> _Kept:
    error = None if label.error_message is None else label.error_message[:ERROR_TEXT]
    evidence, reason = label.evidence, label.reason[:REASON_TEXT]
    return (
        *(label.parked_at, label.id, label.uuid, label.copies),
        *(evidence.owner, evidence.fence, reason, error),
    )


def _key(facts: tuple[object, ...]) -> str:
    texts = [None if fact is None else str(fact) for fact in facts]
    return blake2b(repr(texts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
