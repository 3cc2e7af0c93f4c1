"""Records and logs in memory."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from history.store.records import (
    NO_TRIGGER,
    Append,
    Change,
    Delete,
    Expects,
    Fail,
    Get,
    Kind,
    Log,
    LogLine,
    LogPage,
    Now,
    Put,
    Record,
    Settle,
    View,
    end_of,
    is_done,
    is_refused,
    wrong_cursor,
)

#: Whether an entry of a trigger can be changed; with ``True``, change it.
ChangeEntry = Callable[[str, Settle | Fail, bool], bool]


def _no_entries(_: str, __: Settle | Fail, ___: bool) -> bool:  # noqa: FBT001
    return False


@dataclass(frozen=True, slots=True)
class _Kept:
    record: Record
    until: datetime | None


class MemoryRecords:
    """Records and logs that end with their process; threads may share them.

    ``lock`` and ``change_entry`` are those of the history beside them; separate records have no entries.
    """

    def __init__(
        self,
        clock: Callable[[], datetime],
        lock: "threading.RLock | None" = None,
        change_entry: ChangeEntry = _no_entries,
    ) -> None:
        self._clock = clock
        self._lock = lock or threading.RLock()
        self._change_entry = change_entry
        self._kept: defaultdict[tuple[str, Kind], dict[bytes, _Kept]] = defaultdict(dict)
        self._logs: defaultdict[tuple[str, Log], dict[str, tuple[datetime, Append]]] = defaultdict(dict)

    async def apply(
        self, trigger: str, changes: Sequence[Change], *, each: bool = False
    ) -> Sequence[Record | None]:
        """Make changes under one lock; see :class:`~history.store.records.Records`."""
        return self.apply_now(trigger, changes, each=each)

    def apply_now(
        self, trigger: str, changes: Sequence[Change], *, each: bool = False
    ) -> Sequence[Record | None]:
        """Do the same as :meth:`apply`, for the history that settles in the same step."""
        with self._lock:
            now = self._clock()
            answers = [self._outlook(trigger, change, now) for change in changes]
            if each or is_done(changes, answers):
                for change, answer in zip(changes, answers, strict=True):
                    if not is_refused(change, answer):
                        self._change(trigger, change, answer, now)
            return answers

    def _outlook(self, trigger: str, change: Change, now: datetime) -> Record | None:
        """Return the record that a change will leave: the new record, unless the change is refused."""
        if isinstance(change, Get):
            return self._held(trigger, change.kind, change.key, now)
        if isinstance(change, Settle):
            may = self._change_entry(trigger, change, False)  # noqa: FBT003
            return Record(b"", b"") if may else None
        if isinstance(change, Now):
            return Record(b"", b"", at=now)
        if not isinstance(change, Put):
            return None
        before, new = self._held(trigger, change.kind, change.record.key, now), replace(change.record, at=now)
        version = 0 if before is None else before.version
        if change.expects is Expects.COUNTED:
            return replace(new, version=version + 1)
        refused = {
            Expects.ANY: False,
            Expects.NOT_NEWER: version > new.version,
            Expects.FOLLOWS: version != new.version - 1,
        }[change.expects]
        return before if refused else new

    def _change(self, trigger: str, change: Change, answer: Record | None, now: datetime) -> None:
        match change:
            case Put(kind, record, _, time_to_live):
                record = answer or record
                until = None if time_to_live is None else now + time_to_live
                kept = self._kept[trigger, kind]
                before = kept.pop(record.key, None)  # so that the oldest come first
                if before is not None and before.record == record and _is_longer(before.until, until):
                    until = before.until
                kept[record.key] = _Kept(replace(record, at=now), until)
                while kept and _is_over(kept[oldest := next(iter(kept))], now):
                    del kept[oldest]
            case Delete(kind, key, last):
                kept = self._kept[trigger, kind]
                for other in [other for other in kept if key <= other <= (last or key)]:
                    del kept[other]
            case Append(log, id_):
                lines = self._logs[trigger, log]
                lines.setdefault(id_, (now, change))
                while log.most is not None and len(lines) > log.most:
                    del lines[next(iter(lines))]
            case Settle() | Fail():
                self._change_entry(trigger, change, True)  # noqa: FBT003
            case Get() | Now():
                pass

    async def get(self, trigger: str, kind: Kind, keys: Sequence[bytes]) -> Sequence[Record | None]:
        """Return the record of each key."""
        with self._lock:
            now = self._clock()
            return [self._held(trigger, kind, key, now) for key in keys]

    async def page(
        self, trigger: str, kind: Kind, *, prefix: bytes = b"", before: bytes | None = None, limit: int = 100
    ) -> Sequence[Record]:
        """Return some records, the greatest key first."""
        with self._lock:
            now, end = self._clock(), before or end_of(prefix)
            records = self._listed(trigger, kind, now)
            return list(islice((record for record in records if prefix <= record.key < end), limit))

    async def view(self, trigger: str, kinds: Sequence[Kind]) -> View:
        """Return all records of some kinds, under one lock."""
        with self._lock:
            now = self._clock()
            return View(now, [list(self._listed(trigger, kind, now)) for kind in kinds])

    def _listed(self, trigger: str, kind: Kind, now: datetime) -> Iterator[Record]:
        """Yield the records of a kind, the greatest key first."""
        keys = sorted(self._kept[trigger, kind], reverse=True)
        records = (self._held(trigger, kind, key, now) for key in keys)
        return (record for record in records if record is not None)

    async def count(self, trigger: str, kind: Kind) -> int:
        """Count the records of a kind."""
        return len(await self.page(trigger, kind, limit=len(self._kept[trigger, kind])))

    async def log(
        self,
        trigger: str,
        log: Log,
        *,
        about: bytes | None = None,
        before: datetime | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> LogPage:
        """Return some lines, the newest first; the cursor is the id of the last one."""
        with self._lock:
            newest = reversed(list(self._logs[trigger, log].values()))
        older = ((at, line) for at, line in newest if before is None or at < before)
        if cursor is not None and not any(line.id == cursor for _, line in older):
            raise wrong_cursor()
        wanted = ((at, appended) for at, appended in older if about in {None, appended.about})
        lines = [LogLine(appended.line, at, appended.id) for at, appended in islice(wanted, limit)]
        return LogPage(lines, lines[-1].cursor if len(lines) == limit else None)

    async def forget(self, trigger: str, kind: Kind | Log, age: timedelta) -> int:
        """Delete records or lines that have not changed for longer than this."""
        with self._lock:
            oldest = self._clock() - age
            if isinstance(kind, Log):
                lines = self._logs[trigger, kind]
                old_lines = [id_ for id_, (at, _) in lines.items() if at < oldest]
                for id_ in old_lines:
                    del lines[id_]
                return len(old_lines)
            kept = self._kept[trigger, kind]
            old = [key for key, each in kept.items() if each.record.at < oldest]
            for key in old:
                del kept[key]
            return len(old)

    def take(self, trigger: str, kinds: Sequence[Kind], key: bytes) -> bool:
        """Delete the records of a key; False if there was none."""
        with self._lock:
            now = self._clock()
            records = [self._held(trigger, kind, key, now) for kind in kinds]
            for kind in kinds:
                self._kept[trigger, kind].pop(key, None)
            return any(record is not None for record in records)

    async def triggers(self) -> Sequence[str]:
        """Name the triggers with lasting records, or with a log that keeps all lines."""
        with self._lock:
            lasting = {name for (name, kind), kept in self._kept.items() if kind.lasting and kept}
            kept = {name for (name, log), lines in self._logs.items() if log.most is None and lines}
            return sorted((lasting | kept) - {NO_TRIGGER})

    def _held(self, trigger: str, kind: Kind, key: bytes, now: datetime) -> Record | None:
        kept = self._kept[trigger, kind].get(key)
        return None if kept is None or _is_over(kept, now) else kept.record


def _is_over(kept: _Kept, now: datetime) -> bool:
    return kept.until is not None and kept.until <= now


def _is_longer(until: datetime | None, other: datetime | None) -> bool:
    return until is None or (other is not None and until > other)
