"""Records and logs beside the entries; a store without them passes."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from history.beside.kept import beside_of
from history.beside.results import OF_ENTRIES
from history.bridge import drive
from history.contract.common import SHORT, TRIGGER, claim_one, eventually, together
from history.entry import digest
from history.errors import ConfigurationError
from history.store import HistoryStore
from history.store.records import (
    NO_TRIGGER,
    Append,
    Change,
    Delete,
    Expects,
    Get,
    Kind,
    Log,
    LogLine,
    Put,
    Record,
    Records,
    all_records,
    clock_of,
    is_done,
    line_id,
)

_DAY = timedelta(days=1)
_GREAT = 2**53 + 1
_ANY, _NOT_NEWER, _FOLLOWS = Expects.ANY, Expects.NOT_NEWER, Expects.FOLLOWS

#: The two forms of records. All bytes may be in a key and in a value.
_ALONE, LISTED = Kind("alone"), Kind("listed", listed=True)
_OTHER = Kind("other", listed=True)
_KEY, _OTHER_KEY = b"\x00\xff key", b"\x00\xff key 2"
LINES = Log("lines")


def records_in(store: HistoryStore) -> Records:
    """Return the records of a store; without them, the test is skipped."""
    kept = beside_of(store)
    if kept is None:
        pytest.skip("it keeps no records")
    return kept.records


def _text(line: LogLine) -> str:
    return line.line.decode() if isinstance(line.line, bytes) else line.line


def a_line(text: str, about: bytes = b"", log: Log = LINES) -> Append:
    """Add a line to a log."""
    return Append(log, line_id(), text, about)


#: Runs a test with records of both forms.
each_kind = pytest.mark.parametrize("of", [_ALONE, LISTED], ids=lambda kind: kind.name)


class RecordContract:
    """Every client sees all changes of a step, and no change of a refused step."""

    @each_kind
    async def test_a_record_is_read_by_another_client(
        self, store: HistoryStore, another: HistoryStore, of: Kind
    ) -> None:
        record = Record(_KEY, b'\x00\xff{"a": 1} ', _GREAT)

        assert await records_in(store).apply(TRIGGER, [Put(of, record)]) == [record]

        stored = await records_in(another).get(TRIGGER, of, [_KEY, _OTHER_KEY])
        assert stored == [record, None]
        assert await records_in(another).get(f"{TRIGGER}-2", of, [_KEY]) == [None]
        assert await records_in(another).get(TRIGGER, Kind("third", listed=of.listed), [_KEY]) == [None]

    @each_kind
    async def test_a_record_that_is_not_as_expected_stays(self, store: HistoryStore, of: Kind) -> None:
        records = records_in(store)
        steps = [
            (_FOLLOWS, 2, False),  # no record is stored
            (_FOLLOWS, 1, True),
            (_FOLLOWS, 1, False),
            (_FOLLOWS, 3, False),
            (_FOLLOWS, 2, True),
            (_NOT_NEWER, 9, True),
            (_NOT_NEWER, 9, True),
            (_NOT_NEWER, _GREAT, True),
            (_NOT_NEWER, _GREAT - 1, False),
            (_NOT_NEWER, 10, False),
            (_ANY, 1, True),
        ]
        stored = None
        for number, (expects, version, taken) in enumerate(steps):
            put = Put(of, Record(_KEY, b"%d" % number, version), expects)
            stored = put.record if taken else stored

            assert await records.apply(TRIGGER, [put]) == [stored], number
            assert await records.get(TRIGGER, of, [_KEY]) == [stored], number

    @each_kind
    async def test_what_is_sent_twice_is_done_twice(self, store: HistoryStore, of: Kind) -> None:
        for expects in (_ANY, _NOT_NEWER, _FOLLOWS):
            changes: list[Change] = [Put(of, Record(_KEY, b"", 1), expects), Delete(of, _OTHER_KEY)]
            for _ in range(2):
                assert is_done(changes, await records_in(store).apply(TRIGGER, changes))

        assert await records_in(store).get(TRIGGER, of, [_KEY]) == [Record(_KEY, b"")]

    @each_kind
    async def test_of_a_step_with_one_refused_change_nothing_is_made(
        self, store: HistoryStore, another: HistoryStore, of: Kind
    ) -> None:
        records = records_in(store)
        old, gone = Record(b"a", b"old", 7), Record(b"gone", b"old")
        await records.apply(TRIGGER, [Put(of, old), Put(of, gone)])
        changes: list[Change] = [
            Delete(of, b"gone"),
            Put(of, Record(b"free", b"new"), _FOLLOWS),
            Put(of, Record(b"a", b"new", 7), _FOLLOWS),
            Put(of, Record(b"any", b"new")),
            a_line("never"),
        ]

        answers = await records.apply(TRIGGER, changes)

        assert not is_done(changes, answers)
        assert answers[2] == old
        stored = await records_in(another).get(TRIGGER, of, [b"a", b"gone", b"free", b"any"])
        assert stored == [old, gone, None, None]
        assert (await records_in(another).log(TRIGGER, LINES)).lines == []

    @each_kind
    async def test_all_changes_of_a_step_are_made(
        self, store: HistoryStore, another: HistoryStore, of: Kind
    ) -> None:
        await records_in(store).apply(TRIGGER, [Put(of, Record(b"gone", b"old"))])
        new = [Record(b"%d" % number, b"new") for number in range(300)]
        puts = [Put(of, record, _FOLLOWS) for record in new]
        changes: list[Change] = [Delete(of, b"gone"), *puts, a_line("one")]

        assert is_done(changes, await records_in(store).apply(TRIGGER, changes))

        stored = await records_in(another).get(TRIGGER, of, [b"gone", *(record.key for record in new)])
        assert stored == [None, *new]
        assert [_text(line) for line in (await records_in(another).log(TRIGGER, LINES)).lines] == ["one"]

    @each_kind
    async def test_each_change_may_stand_for_itself(self, store: HistoryStore, of: Kind) -> None:
        records = records_in(store)
        mine, others = Record(b"7", b"mine"), [Record(b"%d" % number, b"new") for number in range(1200)]
        await records.apply(TRIGGER, [Put(of, mine)])

        stored = await records.apply(TRIGGER, [Put(of, record, _FOLLOWS) for record in others], each=True)

        assert stored == [mine if record.key == b"7" else record for record in others]
        assert await records.get(TRIGGER, of, [b"6", b"7"]) == [others[6], mine]
        assert await records.apply(TRIGGER, [], each=True) == []
        assert await records.apply(TRIGGER, []) == []

    @each_kind
    @pytest.mark.parametrize("each", [False, True])
    async def test_a_step_may_read_records_that_it_does_not_change(
        self, store: HistoryStore, of: Kind, *, each: bool
    ) -> None:
        records, mine, other = records_in(store), Record(b"mine", b"x"), Record(_KEY, b"\x00\xff", _GREAT)
        await records.apply(TRIGGER, [Put(of, other)])
        changes: list[Change] = [Get(of, b"absent"), Put(of, mine), Get(of, _KEY), Get(Kind("third"), _KEY)]

        answers = await records.apply(TRIGGER, changes, each=each)

        assert answers == [None, mine, other, None]
        assert is_done(changes, answers)
        assert await records.get(TRIGGER, of, [_KEY, b"mine"]) == [other, mine]

    async def test_a_listed_record_has_the_time_when_it_was_written(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        records = records_in(store)
        before = await clock_of(records_in(another))
        (first,) = await records.apply(TRIGGER, [Put(LISTED, Record(_KEY, b"1"))])

        assert first is not None

        async def is_later() -> bool:
            return await clock_of(records_in(another)) > first.at

        await eventually(is_later)
        (second,) = await records.apply(TRIGGER, [Put(LISTED, Record(_KEY, b"2"))])
        assert second is not None

        (read,) = await records_in(another).get(TRIGGER, LISTED, [_KEY])
        (listed,) = await records_in(another).page(TRIGGER, LISTED)
        (looked,) = await records.apply(TRIGGER, [Get(LISTED, _KEY)])
        assert before <= first.at < second.at <= await clock_of(records)
        assert [record.at for record in (read, listed, looked) if record is not None] == [second.at] * 3

    @each_kind
    async def test_of_clients_that_put_at_once_one_is_first(
        self, store: HistoryStore, another: HistoryStore, *, blocking: bool, of: Kind
    ) -> None:
        mine = [Record(_KEY, b"%d" % number) for number in range(8)]

        answers = await together(
            [
                records_in(client).apply(TRIGGER, [Put(of, record, _FOLLOWS)])
                for record, client in zip(mine, [store, another] * 4, strict=True)
            ],
            blocking=blocking,
        )

        (stored,) = await records_in(store).get(TRIGGER, of, [_KEY])
        assert stored in mine
        assert answers == [[stored]] * 8

    async def test_a_record_goes_when_its_time_to_live_is_over(self, store: HistoryStore) -> None:
        records, other = records_in(store), Record(_KEY, b"other")
        await records.apply(TRIGGER, [Put(_ALONE, Record(_KEY, b"first", 5), time_to_live=SHORT)])

        async def another_is_first() -> bool:
            return await records.apply(TRIGGER, [Put(_ALONE, other, _FOLLOWS, _DAY)]) == [other]

        await eventually(another_is_first)
        assert await records.get(TRIGGER, _ALONE, [_KEY]) == [other]

    async def test_a_repeat_prolongs_a_life_and_never_shortens_it(self, store: HistoryStore) -> None:
        records = records_in(store)
        names = (b"prolonged", b"kept", b"endless", b"ended")
        lives = dict(zip(names, [(SHORT * 2, _DAY), (_DAY, SHORT), (None, SHORT), (SHORT * 2,)], strict=True))
        for turn in range(2):
            for name, lasting in lives.items():
                for life in lasting[turn : turn + 1]:
                    await records.apply(TRIGGER, [Put(_ALONE, Record(name, b"first"), _FOLLOWS, life)])

        async def ended() -> bool:
            return await records.get(TRIGGER, _ALONE, [b"ended"]) == [None]

        await eventually(ended)
        assert await records.get(TRIGGER, _ALONE, names) == [
            *(Record(name, b"first") for name in names[:3]),
            None,
        ]

    async def test_records_of_a_blocking_store_never_suspend(
        self, store: HistoryStore, *, blocking: bool
    ) -> None:
        records = records_in(store)
        if not blocking:
            return

        def use() -> int:
            drive(records.apply(TRIGGER, [Put(LISTED, Record(_KEY, b"x"))]))
            return drive(records.count(TRIGGER, LISTED))

        assert await asyncio.to_thread(use) == 1

    async def test_listed_records_are_read_in_pages_the_greatest_key_first(self, store: HistoryStore) -> None:
        records = records_in(store)
        kept = [Record(prefix + b"%03d" % number, b"x") for prefix in (b"a", b"b\xff") for number in range(5)]
        await records.apply(TRIGGER, [Put(LISTED, record) for record in kept])

        first = await records.page(TRIGGER, LISTED, prefix=b"b\xff", limit=3)
        second = await records.page(TRIGGER, LISTED, prefix=b"b\xff", before=first[-1].key, limit=3)

        assert [*first, *second] == kept[:4:-1]
        assert await records.page(TRIGGER, LISTED) == kept[::-1]
        assert await records.page(f"{TRIGGER}-2", LISTED) == []
        for limit in (3, 5, 500):
            assert await all_records(records, TRIGGER, LISTED, limit=limit) == kept[::-1]

    async def test_a_view_has_all_records_of_some_kinds(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        kept = [Record(b"%d\xff" % number, b"x") for number in range(5)]
        others = [Record(_KEY, b"\x00y", _GREAT)]
        await records_in(store).apply(TRIGGER, [Put(LISTED, record) for record in kept])
        await records_in(store).apply(TRIGGER, [Put(_OTHER, record) for record in others])

        seen = await records_in(another).view(TRIGGER, [_OTHER, Kind("none", listed=True), LISTED])
        empty = await records_in(another).view(f"{TRIGGER}-2", [LISTED, _OTHER])

        assert seen.records == [others, [], kept[::-1]]
        assert [record.at for record in seen.records[2]] == [
            record.at for record in await records_in(store).page(TRIGGER, LISTED)
        ]
        assert empty.records == [[], []]
        assert seen.at <= empty.at <= await clock_of(records_in(store))

    async def test_listed_records_are_deleted_from_key_to_key(self, store: HistoryStore) -> None:
        records, kept = records_in(store), [Record(b"%d" % number, b"x") for number in range(6)]
        await records.apply(TRIGGER, [Put(LISTED, record) for record in kept])

        await records.apply(TRIGGER, [Delete(LISTED, b"1", b"3"), Delete(LISTED, b"5")])

        assert [record.key for record in await records.page(TRIGGER, LISTED)] == [b"4", b"0"]

    async def test_what_has_not_changed_for_long_is_forgotten(self, store: HistoryStore) -> None:
        records, log = records_in(store), Log("old")
        await records.apply(TRIGGER, [Put(LISTED, Record(_KEY, b"x")), a_line("x", log=log)])

        for aged in (LISTED, log):
            assert await records.forget(TRIGGER, aged, _DAY) == 0
            assert await records.forget(f"{TRIGGER}-2", aged, -_DAY) == 0
        assert await records.page(TRIGGER, LISTED) == [Record(_KEY, b"x")]
        assert await records.forget(TRIGGER, LISTED, -_DAY) == 1

        assert await records.page(TRIGGER, LISTED) == []
        assert await records.get(TRIGGER, LISTED, [_KEY]) == [None]

    async def test_lines_are_read_in_pages_the_newest_first(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        for number in range(4):
            lines = [a_line(f"{number}a", b"even"[number % 2 :]), a_line(f"{number}b")]
            await records_in(store).apply(TRIGGER, lines)
        records = records_in(another)

        first = await records.log(TRIGGER, LINES, limit=5)
        second = await records.log(TRIGGER, LINES, cursor=first.cursor, limit=5)
        about = await records.log(TRIGGER, LINES, about=b"even", limit=5)

        assert [_text(line) for page in (first, second) for line in page.lines] == [
            f"{number}{letter}" for number in (3, 2, 1, 0) for letter in "ba"
        ]
        assert (second.cursor, about.cursor) == (None, None)
        assert [_text(line) for line in about.lines] == ["2a", "0a"]
        assert (await records.log(TRIGGER, LINES, before=datetime.now(UTC) - _DAY)).lines == []
        assert (await records.log(NO_TRIGGER, LINES)).lines == []
        with pytest.raises(ConfigurationError, match="cursor"):
            await records.log(TRIGGER, LINES, cursor="x")

    async def test_what_is_forgotten_takes_its_records_along(
        self, store: HistoryStore, another: HistoryStore
    ) -> None:
        records = records_in(store)
        for of_entry in OF_ENTRIES:
            for uuid in (f"both {of_entry.name}", f"alone {of_entry.name}", f"other {of_entry.name}"):
                await records.apply(TRIGGER, [Put(of_entry, Record(digest(uuid), b"x"), time_to_live=_DAY)])
            await claim_one(store, f"both {of_entry.name}", "worker-1")

            for uuid in (f"both {of_entry.name}", f"alone {of_entry.name}"):
                assert await another.forget(TRIGGER, uuid)
                assert not await another.forget(TRIGGER, uuid)
                assert await records.get(TRIGGER, of_entry, [digest(uuid)]) == [None]

            key = digest(f"other {of_entry.name}")
            assert await records.get(TRIGGER, of_entry, [key]) == [Record(key, b"x")]
