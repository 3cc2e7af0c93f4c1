"""Rows of another system's history: which rows are read or refused, and the entries that they become."""

from datetime import UTC, datetime, timedelta

import pytest

from history import ConfigurationError, Entry, EntryOutcome, MemoryHistory, State
from history.bridge import drive
from triggers.cli.history.importing import PIECE, BadRow, ImportedRow, import_rows, read_rows

WEEK = timedelta(days=7)


def entry(store: MemoryHistory, uuid: str, trigger: str = "book") -> Entry | None:
    return drive(store.lookup(trigger, [uuid]))[0]


def test_a_row_needs_a_uuid_alone() -> None:
    assert list(read_rows(["UUID\n", "a\n", "\n", "b\n"], "book")) == [
        ImportedRow("book", "a", EntryOutcome.OK, None),
        ImportedRow("book", "b", EntryOutcome.OK, None),
    ]


def test_other_columns_and_a_byte_more_or_less_do_not_matter() -> None:
    lines = ["time, Trigger ,host,uuid,status\n", "2026-11-20T10:00:00+02:00,ship,is-1,a,Processing\n", "1\n"]

    row, short = read_rows(lines, "book")

    assert row == ImportedRow("ship", "a", None, datetime(2026, 11, 20, 8, tzinfo=UTC))
    assert isinstance(short, BadRow)


@pytest.mark.parametrize(
    "time", ["2026-11-20T10:00:00Z", "2026-11-20 10:00:00", "1795168800", "1795168800000"]
)
def test_a_time_is_a_date_or_a_number(time: str) -> None:
    (row,) = read_rows(["uuid,time\n", f"a,{time}\n"], "book")

    assert isinstance(row, ImportedRow)
    assert row.at == datetime(2026, 11, 20, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "line",
    [
        ",completed,",
        "a,lost,",
        "a,completed,yesterday",
        "a,completed,2999-01-01",
        "a,completed,99999999999999999999999",
        "a,completed,20261120",
        "a,completed,202611201000",
        "a,completed,20261120100000",
        "a,completed,0001-01-01T00:00:00+05:00",
        "\udcff,completed,",
        f"{'x' * 16_385},completed,",
        '"a"b,completed,',
        f"{'y' * 200_000},completed,",
    ],
    ids=lambda line: line[:12].encode("unicode_escape").decode(),
)
def test_a_row_that_says_nothing_certain_is_left_out_and_the_others_are_not(line: str) -> None:
    lines = ["uuid,status,time\n", "before,,\n", f"{line}\n", "after,,\n"]

    rows = list(read_rows(lines, "book"))

    assert [row.line for row in rows if isinstance(row, BadRow)] == [3]
    assert [row.uuid for row in rows if isinstance(row, ImportedRow)] == ["before", "after"]


@pytest.mark.parametrize("header", ["id,status", "", "uuid,status", 'uuid,"status"s,trigger', '"uuid'])
def test_a_file_that_no_row_can_come_from_is_refused(header: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_rows([f"{header}\n", "a,completed\n"], None)

    assert refused.value.setting == "FILE"


def test_entries_say_how_a_message_ended_and_live_for_what_is_left() -> None:
    store, now = MemoryHistory(), datetime.now(UTC)
    yesterday = now - timedelta(days=1)
    rows: list[ImportedRow | BadRow] = [
        ImportedRow("book", "done", EntryOutcome.OK, yesterday),
        ImportedRow("book", "failed", EntryOutcome.FAILED, None),
        ImportedRow("ship", "open", None, yesterday),
        ImportedRow("book", "old", EntryOutcome.OK, now - timedelta(days=8)),
        BadRow(9, "uuid is empty"),
    ]

    imported = import_rows(store, rows, WEEK)

    done, failed, opened = entry(store, "done"), entry(store, "failed"), entry(store, "open", "ship")
    assert done is not None
    assert failed is not None
    assert opened is not None
    assert [done.outcome, failed.outcome, opened.outcome] == [EntryOutcome.OK, EntryOutcome.FAILED, None]
    assert (opened.state, opened.lease_alive) == (State.STARTED, False)
    assert timedelta(days=6) <= done.expires_at - now < timedelta(days=6, hours=1)
    assert timedelta(days=6, hours=23) < failed.expires_at - now <= WEEK + timedelta(minutes=1)
    assert entry(store, "old") is None
    assert +imported.counts["book"] == {"completed": 1, "failed": 1, "expired": 1}
    assert (+imported.counts["ship"], [bad.line for bad in imported.bad]) == ({"started": 1}, [9])


def test_a_message_that_is_known_keeps_its_entry() -> None:
    store = MemoryHistory()
    (claim,) = drive(store.claim("book", ["running"], "worker-1"))

    imported = import_rows(store, [ImportedRow("book", "running", EntryOutcome.OK, None)], WEEK)

    running = entry(store, "running")
    assert running is not None
    assert (running.state, running.fence) == (State.STARTED, claim.fence)
    assert +imported.counts["book"] == {"known": 1}


@pytest.mark.parametrize("dry", [True, False])
def test_a_message_with_a_row_for_its_beginning_and_one_for_its_end_has_ended(*, dry: bool) -> None:
    store = MemoryHistory()
    begun = [ImportedRow("book", uuid, None, None) for uuid in ("a", "b", "c")]
    ended = [
        ImportedRow("book", "a", EntryOutcome.OK, None),
        ImportedRow("book", "b", EntryOutcome.FAILED, None),
    ]

    imported = import_rows(store, [*begun, *ended], WEEK, dry=dry)

    assert +imported.counts["book"] == {"completed": 1, "failed": 1, "started": 1, "known": 2}
    entries = [entry(store, uuid) for uuid in ("a", "b", "c")]
    outcomes = [None if found is None else found.outcome for found in entries]
    assert outcomes == ([None, None, None] if dry else [EntryOutcome.OK, EntryOutcome.FAILED, None])


def test_an_import_that_was_killed_goes_on_when_it_is_repeated() -> None:
    store = MemoryHistory()
    drive(store.claim("book", ["claimed"], "import"))
    rows = [ImportedRow("book", uuid, EntryOutcome.OK, None) for uuid in ("claimed", "later")]

    import_rows(store, rows, WEEK)
    again = import_rows(store, rows, WEEK)

    for uuid in ("claimed", "later"):
        done = entry(store, uuid)
        assert done is not None
        assert done.outcome is EntryOutcome.OK
    assert +again.counts["book"] == {"known": 2}


def test_a_dry_run_counts_the_same_and_writes_nothing() -> None:
    store = MemoryHistory()
    drive(store.claim("book", ["u-0"], "worker-1"))
    rows = [ImportedRow("book", f"u-{number % 1500}", EntryOutcome.OK, None) for number in range(2 * PIECE)]

    dry = import_rows(store, rows[:5] + rows[:3], WEEK, dry=True)

    assert +dry.counts["book"] == {"known": 4, "completed": 4}
    assert entry(store, "u-1") is None
    assert +import_rows(store, rows, WEEK).counts["book"] == {"known": 501, "completed": 1499}
