"""Parked messages in groups: by cause, and by the host whose worker had begun them."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from itertools import takewhile
from typing import NamedTuple

from history.store.parking import Evidence, ParkedKind, ParkedLabel
from triggers.cli.parked.choosing import host_of

#: How many messages a survey keeps a line of; the others are only counted.
LISTED = 250_000

#: How much of a reason and of an error a line keeps.
REASON_TEXT, ERROR_TEXT = 240, 120

#: How many texts messages of one row and error may be kept for; where there are more, they are one group.
MOST_TEXTS = 20

_ROW = re.compile(r" \(row (\d{1,3})\)$")
_QUOTED = re.compile(r"""(?<!\w)(?:'[^']*'|"[^"]*"|`[^`]*`)(?!\w)""")
_DIGIT = re.compile(r"\d")


class Cause(NamedTuple):
    """Why messages are parked: a row of the decision table, None where none is named; and a reason.

    The reason is without what differs from message to message.
    """

    row: int | None
    text: str


def cause_of(reason: str) -> Cause:
    """Return why a message is parked, without its numbers, uuids, tokens and quoted values."""
    found = _ROW.search(reason)
    row, text = (None, reason) if found is None else (int(found[1]), reason[: found.start()])
    words = (_plain(word) for word in _QUOTED.sub("…", text).split())
    return Cause(row, " ".join(words))


def _plain(word: str) -> str:
    if _DIGIT.search(word) is None:
        return word
    return "…" + word[len(word.rstrip(".,;:)")) :]


class Line(NamedTuple):
    """What a list shows of a parked message, and what a decision about it needs."""

    id: str
    uuid: str | None
    parked_at: datetime
    copies: int
    owner: str | None
    fence: int | None
    reason: str
    error: str | None


@dataclass(frozen=True, slots=True)
class Group:
    """Parked messages of one trigger and kind; ``lines`` are the oldest first.

    They are kept for one cause, which is ``reason``; or a worker on one ``host`` had begun all of them.
    """

    key: str
    trigger: str
    kind: ParkedKind
    reason: str
    error_class: str | None
    count: int
    oldest: datetime
    lines: Sequence[Line]
    host: str | None = None

    @property
    def example(self) -> Line | None:
        """Its oldest message, where that says more than the group."""
        line = next(iter(self.lines), None)
        return None if line is None or (line.reason == self.reason and line.error is None) else line

    def choose(self, ids: Collection[str] | None, until: datetime | None) -> list[Line]:
        """Return some of its messages: those of these ids, or all, that were parked until then."""
        return [
            line
            for line in self.lines
            if (ids is None or line.id in ids) and (until is None or line.parked_at <= until)
        ]

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
            parked_at=line.parked_at,
            copies=line.copies,
        )

    def without(self, ids: Collection[str]) -> "Group | None":
        """Return what is left of it without these messages; None when nothing is."""
        lines = [line for line in self.lines if line.id not in ids]
        count = self.count - (len(self.lines) - len(lines))
        if count <= 0:
            return None
        return replace(self, lines=lines, count=count, oldest=lines[0].parked_at if lines else self.oldest)


@dataclass(frozen=True, slots=True)
class Host:
    """What the workers on one host had begun: a group for each trigger and kind, the largest first."""

    name: str
    groups: Sequence[Group]

    @property
    def count(self) -> int:
        """How many messages these are."""
        return sum(group.count for group in self.groups)

    @property
    def listed(self) -> int:
        """How many of them there is a line of."""
        return sum(len(group.lines) for group in self.groups)

    @property
    def oldest(self) -> datetime:
        """When the oldest of them was parked."""
        return min(group.oldest for group in self.groups)


def hosts_of(groups: Iterable[Group]) -> list[Host]:
    """Put groups by host together, the host with the most messages first."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        if group.host is not None:
            found.setdefault(group.host, []).append(group)
    return sorted((Host(*one) for one in found.items()), key=lambda host: (-host.count, host.name))


#: Trigger, kind, row and class of the error.
_Facts = tuple[str, ParkedKind, int | None, str | None]


@dataclass(slots=True)
class _Heap:
    """Messages of one group while they are counted."""

    count: int = 0
    oldest: datetime | None = None
    lines: dict[str, Line] = field(default_factory=dict[str, Line])

    def add(self, label: ParkedLabel, line: Line | None) -> None:
        self.count += 1
        self.oldest = label.parked_at if self.oldest is None else min(self.oldest, label.parked_at)
        if line is not None:
            self.lines[line.id] = line


class Counting:
    """Counts and groups labels, one after the other; of the first :data:`LISTED` it keeps a line each."""

    def __init__(self) -> None:
        self._causes: dict[_Facts, dict[str, _Heap]] = {}
        self._hosts: dict[tuple[str, ParkedKind, str], _Heap] = {}
        self._known: dict[str, Cause] = {}
        self._listed = 0

    def add(self, label: ParkedLabel) -> bool:
        """Count a message; False when it was counted before."""
        cause = self._known.get(label.reason) or self._known.setdefault(label.reason, cause_of(label.reason))
        facts = label.trigger_name, label.kind, cause.row, label.error_class
        heap = self._causes.setdefault(facts, {}).setdefault(cause.text, _Heap())
        if label.id in heap.lines:
            return False
        line = _line(label) if self._listed < LISTED else None
        self._listed += line is not None
        heap.add(label, line)
        if (host := host_of(label)) is not None:
            self._hosts.setdefault((label.trigger_name, label.kind, host), _Heap()).add(label, line)
        return True

    def by_cause(self) -> list[Group]:
        """Return the groups by cause, the largest first."""
        return _in_order(group for facts, texts in self._causes.items() for group in _groups(facts, texts))

    def by_host(self) -> list[Group]:
        """Return the groups by host, the largest first."""
        return _in_order(
            _group(("host", *facts), facts[:2], f"a worker on {facts[2]} had begun it", [heap], host=facts[2])
            for facts, heap in self._hosts.items()
        )


def _groups(facts: _Facts, texts: dict[str, _Heap]) -> Iterator[Group]:
    trigger, kind, row, error_class = facts
    if len(texts) > MOST_TEXTS:
        reason = _in_row(f"{_beginning(texts)}…", row)
        yield _group((*facts, None), (trigger, kind), reason, list(texts.values()), error_class=error_class)
        return
    for text, heap in texts.items():
        reasons = {line.reason for line in heap.lines.values()}
        reason = reasons.pop() if len(reasons) == 1 else _in_row(text, row)
        yield _group((*facts, text), (trigger, kind), reason, [heap], error_class=error_class)


def _beginning(texts: Iterable[str]) -> str:
    """Return the parts of sentences that all texts begin with."""
    columns = zip(*(text.split("; ") for text in texts), strict=False)
    return "".join(f"{column[0]}; " for column in takewhile(lambda column: len(set(column)) == 1, columns))


def _in_row(text: str, row: int | None) -> str:
    return text if row is None else f"{text} (row {row})"


def _group(
    facts: tuple[object, ...],
    of: tuple[str, ParkedKind],
    reason: str,
    heaps: Sequence[_Heap],
    *,
    error_class: str | None = None,
    host: str | None = None,
) -> Group:
    lines = sorted((line for heap in heaps for line in heap.lines.values()), key=_age)
    count, oldest = sum(heap.count for heap in heaps), min(heap.oldest for heap in heaps if heap.oldest)
    return Group(_key(facts), *of, reason, error_class, count, oldest, lines, host)


def _in_order(groups: Iterable[Group]) -> list[Group]:
    return sorted(groups, key=lambda group: (-group.count, group.key))


def _line(label: ParkedLabel) -> Line:
    error = None if label.error_message is None else label.error_message[:ERROR_TEXT]
    evidence, reason = label.evidence, label.reason[:REASON_TEXT]
    return Line(
        label.id, label.uuid, label.parked_at, label.copies, evidence.owner, evidence.fence, reason, error
    )


def _age(line: Line) -> tuple[datetime, str]:
    return line.parked_at, line.id


def _key(facts: tuple[object, ...]) -> str:
    words = [None if fact is None else str(fact) for fact in facts]
    return blake2b(repr(words).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
