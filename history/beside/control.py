"""Control: one record for each consumer's report, each command in force, and the counts of former consumers.

The statistics of a trigger are these counts and those of all stored reports. A sweep adds the counts of the
reports that it deletes, in one step. These records do not belong to a trigger, so one call reads them all.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict

from history.entry import DIGEST_SIZE, digest
from history.errors import HistoryUnavailableError
from history.store.control import (
    FORGOTTEN_AFTER,
    GONE_AFTER,
    LOST_AFTER,
    LOST_FOR,
    Beat,
    Counts,
    Heard,
    Order,
    Overview,
    Report,
    Verb,
    standing_hold,
)
from history.store.records import (
    NO_TRIGGER,
    Change,
    Delete,
    Expects,
    Get,
    Kind,
    Put,
    Record,
    Records,
    clock_of,
    is_done,
)
from history.store.times import milliseconds_of
from history.support.spoilt import readable

#: The last reports. The key is the digest of the trigger, then the digest of the consumer's token.
REPORTS = Kind("report", listed=True)

#: The commands in force. The key is the digest of the trigger, then "lasts" or "passes".
COMMANDS = Kind("command", listed=True)

#: The counts of former consumers. The key is the digest of the trigger.
FORMER = Kind("counted", listed=True)

#: The number of the last command. A random token makes each record different.
NUMBER = Kind("number")
_LAST = b"last"

_EACH = (True, False)

#: How often a call that others overtake begins again.
ATTEMPTS = 100


class Former(BaseModel):
    """The counts of a trigger by former consumers, without the counts that were cleared.

    ``consumed``: one of them was a consumer, and not only a guard or Spark.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    trigger: str
    counts: Counts = Counts()
    consumed: bool = True

    def with_counts(self, counts: Counts) -> Self:
        """Return the same with other counts."""
        return self.model_copy(update={"counts": counts})

    def with_report(self, report: Report) -> Self:
        """Return the sums with those of a report."""
        consumed = {"consumed": self.consumed or report.consumes}
        return self.with_counts(self.counts + report.counts).model_copy(update=consumed)


def report_key(trigger: str, token: str) -> bytes:
    """Return the key of a consumer's report on a trigger."""
    return digest(trigger) + digest(token)


class Control:
    """Hands commands to consumers and stores their reports, in the records of a store."""

    def __init__(self, records: Records, address: Callable[[], str]) -> None:
        self._records, self._address = records, address

    @property
    def address(self) -> str:
        """The address of the store's server: equal for all its clients, without a password."""
        return self._address()

    async def beat(self, token: str, reports: Sequence[Report]) -> Heard:
        """Replace the consumer's reports, and return the commands of their triggers, in one call.

        Only this consumer has the ``token``, and no other ever uses it. Counts are absolute, so a beat that
        arrives twice is counted once.
        """
        changes: list[Change] = [
            Put(REPORTS, Record(report_key(report.trigger, token), _json(report))) for report in reports
        ]
        triggers = [report.trigger for report in reports]
        changes += [Get(COMMANDS, _command_key(name, lasts)) for name in triggers for lasts in _EACH]
        answers = await self._records.apply(NO_TRIGGER, changes, each=True)
        written = [record.at for record in answers[: len(reports)] if record is not None]
        commands = [record for record in answers[len(reports) :] if record is not None]
        return Heard(max(written) if written else await clock_of(self._records), _orders(commands))

    async def order(self, verb: Verb, triggers: Sequence[str], *, reason: str | None = None) -> int:
        """Give a command to triggers, known or not; return its number.

        One step writes the next number together with the command. A trigger that is held stays held if it is
        to be suspended: a suspension would not reach consumers that start later.
        """
        (last,) = await self._records.get(NO_TRIGGER, NUMBER, [_LAST])
        for _ in range(ATTEMPTS):
            now = await clock_of(self._records)
            # Numbers follow the clock, so that they still grow in a store that was emptied.
            number = max(milliseconds_of(now), 0 if last is None else _number(last) + 1)
            changes: list[Change] = [_next(NUMBER, _LAST, last, b"%d %s" % (number, uuid4().hex.encode()))]
            held = await self._held(triggers if verb is Verb.SUSPEND else ())
            for name in triggers:
                order = Order(trigger=name, verb=verb, number=number, given_at=now, reason=reason)
                if name in held:
                    order = held[name].model_copy(update={"number": number})
                changes.append(Put(COMMANDS, Record(_command_key(name, verb.lasts), _json(order))))
            answers = await self._records.apply(NO_TRIGGER, changes)
            if is_done(changes, answers):
                return number
            last = answers[0]
        raise _others("giving a command")

    async def _held(self, triggers: Sequence[str]) -> Mapping[str, Order]:
        """Return the commands that hold some of these triggers."""
        if not triggers:
            return {}
        keys = [_command_key(name, lasts) for name in triggers for lasts in _EACH]
        found = await self._records.get(NO_TRIGGER, COMMANDS, keys)
        orders = _orders(record for record in found if record is not None)
        return {name: hold for name in triggers if (hold := standing_hold(orders, name)) is not None}

    async def overview(self, *, silence: timedelta = GONE_AFTER) -> Overview:
        """Return everything known; its beats without consumers that have been silent for longer."""
        now, (former, reports, commands) = await self._records.view(NO_TRIGGER, [FORMER, REPORTS, COMMANDS])
        orders = _orders(commands)
        beats = sorted(_beats(reports), key=lambda beat: (beat.report.trigger, beat.report.consumer))
        sums = _sums(former, beats)
        stayed = [beat for beat in beats if _is_running(beat.report)]
        heard = {_whose(beat) for beat in stayed if now - beat.beat_at <= LOST_AFTER}
        return Overview(
            now=now,
            beats=[beat for beat in stayed if now - beat.beat_at <= silence],
            orders=orders,
            statistics={name: counted.counts for name, counted in sums.items() if counted.counts.some()},
            reported=frozenset(name for name, counted in sums.items() if counted.consumed),
            lost=[beat for beat in stayed if now - beat.beat_at <= LOST_FOR and _whose(beat) not in heard],
        )

    async def clear(self, *, trigger: str | None = None) -> None:
        """Set the statistics of one trigger or all back to zero: subtract the counts of all stored reports.

        If another client changed one in the meantime, begin again.
        """
        for _ in range(ATTEMPTS):
            _, former, reports = await self._read()
            beats = _beats(reports)
            said = _sums([], beats)
            cleared = [
                counted.with_counts(Counts() - (said[name].counts if name in said else Counts()))
                for name, counted in _sums(former.values(), beats).items()
                if trigger in {None, name}
            ]
            if await self._make([*_replacing(former, cleared)]):
                return
        raise _others("clearing the statistics")

    async def sweep(self, *, silence: timedelta = FORGOTTEN_AFTER) -> int:
        """Delete the reports of consumers that have been silent for longer; return how many there were.

        The statistics keep their counts. If another client sweeps now, leave some reports to it.
        """
        now, former, reports = await self._read()
        least, swept = now - silence, 0
        old = [record for record in reports if record.at < least]
        for key in {record.key[:DIGEST_SIZE] for record in old}:
            mine = [record for record in old if record.key.startswith(key)]
            sums = _sums([former[key]] if key in former else [], _beats(mine))
            gone = [Delete(REPORTS, record.key) for record in mine]
            if await self._make([*_replacing(former, sums.values()), *gone]):
                swept += len(mine)
        return swept

    async def _read(self) -> tuple[datetime, Mapping[bytes, Record], Sequence[Record]]:
        """Return an instant, the counts of former consumers by their keys, and all reports then."""
        now, (former, reports) = await self._records.view(NO_TRIGGER, [FORMER, REPORTS])
        return now, {record.key: record for record in former}, reports

    async def _make(self, changes: Sequence[Change]) -> bool:
        return is_done(changes, await self._records.apply(NO_TRIGGER, changes))


def _others(doing: str) -> HistoryUnavailableError:
    return HistoryUnavailableError(f"{doing}: other clients changed the same records ({ATTEMPTS} attempts)")


def _replacing(former: Mapping[bytes, Record], sums: Iterable[Former]) -> Iterable[Put]:
    """Yield the changes that replace these counts of former consumers, if nobody else has replaced them."""
    for counts in sums:
        key = digest(counts.trigger)
        yield _next(FORMER, key, former.get(key), _json(counts))


def _next(kind: Kind, key: bytes, stored: Record | None, value: bytes) -> Put:
    """Return the change that replaces this record only; it also replaces a spoilt record."""
    version = 0 if stored is None else stored.version
    expects = Expects.ANY if stored is not None and not version else Expects.FOLLOWS
    return Put(kind, Record(key, value, version + 1), expects)


def _command_key(trigger: str, lasts: bool) -> bytes:  # noqa: FBT001  (a part of the key)
    return digest(trigger) + (b"lasts" if lasts else b"passes")


def _json(model: BaseModel) -> bytes:
    return model.model_dump_json().encode()


def _number(record: Record) -> int:
    number = record.value.partition(b" ")[0]
    return int(number) if number.isdigit() else 0


def _beats(records: Iterable[Record]) -> Sequence[Beat]:
    return list(readable("the report of a consumer", _named(records), _beat))


def _beat(record: Record) -> Beat:
    return Beat(Report.model_validate_json(record.value), record.at)


def _orders(records: Iterable[Record]) -> Sequence[Order]:
    return list(readable("a command", _named(records), lambda read: Order.model_validate_json(read.value)))


def _whose(beat: Beat) -> tuple[str, str]:
    return beat.report.consumer, beat.report.trigger


def _is_running(report: Report) -> bool:
    return report.consumes and not report.leaving


def _sums(former: Iterable[Record], beats: Iterable[Beat]) -> dict[str, Former]:
    """Add up the counts of each trigger."""
    counted = readable("the counts", _named(former), lambda record: Former.model_validate_json(record.value))
    sums = {counts.trigger: counts for counts in counted}
    for beat in beats:
        name = beat.report.trigger
        sums[name] = sums.get(name, Former(trigger=name, consumed=False)).with_report(beat.report)
    return sums


def _named(records: Iterable[Record]) -> Iterable[tuple[str, Record]]:
    return ((f"({record.value[:60]!r})", record) for record in records)
