"""Records go to the history, the log and a file; while the history is away, they wait for it."""

import json
import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from history import ConfigurationError, HistoryUnavailableError, MemoryHistory
from history.beside.security import SecurityEvent, SecurityLog, SecurityOutcome, SecurityRecord
from history.bridge import drive
from tests.fixtures.waiting import PATIENCE
from triggers.security.gathering import WINDOW
from triggers.security.recorder import PIECE, Recorder, SecurityFile, SecurityLogging


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Away(SecurityLog):
    """A security log that refuses records while it is away."""

    def __init__(self) -> None:
        super().__init__(MemoryHistory().records)
        self.is_back = False
        self.records: list[SecurityRecord] = []
        self.ages: list[timedelta] = []

    async def append(self, records: Sequence[SecurityRecord]) -> None:
        if not self.is_back:
            raise HistoryUnavailableError("it is away")
        self.records += records

    async def delete_older(self, age: timedelta) -> None:
        self.ages.append(age)


def signed_in(user: str) -> SecurityRecord:
    return SecurityRecord(event=SecurityEvent.SIGN_IN, outcome=SecurityOutcome.ALLOWED, user=user)


def lines_of(file: Path) -> list[SecurityRecord]:
    return [SecurityRecord.from_json(line) for line in file.read_text().splitlines()]


def test_a_record_is_in_the_history_the_log_and_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "triggers.security")
    log, file = MemoryHistory().security_log, tmp_path / "security.jsonl"
    recorder = Recorder(log, SecurityFile(file), background=False)

    recorder.note(record := signed_in("ann"))
    recorder.close()

    assert drive(log.read()).records == [record]
    assert lines_of(file) == [record]
    assert [json.loads(one.getMessage())["user"] for one in caplog.records] == ["ann"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_while_the_history_is_away_the_log_and_the_file_have_records_and_it_gets_them_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "triggers.security")
    log, file = Away(), tmp_path / "security.jsonl"
    recorder = Recorder(log, SecurityFile(file), background=False)
    records = [signed_in(str(number)) for number in range(PIECE + 1)]

    for record in records:
        recorder.note(record)
    known = lines_of(file)
    log.is_back = True
    recorder.note(last := signed_in("last"))
    recorder.close()

    assert known == records
    assert log.records == [*records, last]
    assert sum(one.name == "triggers.security" for one in caplog.records) == len(records) + 1


def test_what_is_to_be_done_is_not_done_if_the_history_does_not_take_its_record(tmp_path: Path) -> None:
    log, file = Away(), tmp_path / "security.jsonl"
    recorder = Recorder(log, SecurityFile(file), background=False)

    with pytest.raises(HistoryUnavailableError):
        recorder.keep([signed_in("ann")])
    recorder.close()

    assert [(one.user, one.outcome) for one in lines_of(file)] == [("ann", SecurityOutcome.FAILED)]
    assert log.records == []


def test_nobody_waits_for_a_history_that_hangs() -> None:
    hangs = Event()

    class Hanging(Away):
        async def append(self, records: Sequence[SecurityRecord]) -> None:
            assert hangs.wait(PATIENCE)
            self.records += records

    recorder = Recorder(log := Hanging())

    for number in range(3):
        recorder.note(signed_in(str(number)))
    before = list(log.records)
    hangs.set()

    assert recorder.wait(PATIENCE)
    recorder.close()
    assert before == []
    assert [one.user for one in log.records] == ["0", "1", "2"]


def test_counts_are_written_when_their_minute_is_over_and_at_the_end() -> None:
    log, clock = Away(), Clock()
    log.is_back = True
    recorder = Recorder(log, background=False, clock=clock)
    denied = SecurityRecord(event=SecurityEvent.ACCESS, outcome=SecurityOutcome.DENIED)

    for _ in range(5):
        recorder.count(denied)
    clock.now = WINDOW
    for _ in range(3):
        recorder.count(denied)
    recorder.close()

    assert [one.times for one in log.records] == [1, 4, 1, 2]


def test_old_records_are_deleted_once_a_day() -> None:
    log, clock = Away(), Clock()
    log.is_back = True
    recorder = Recorder(log, background=False, clock=clock, kept_for=timedelta(days=7))

    for hour in (0, 1, 25, 26):
        clock.now = hour * 3600.0
        recorder.note(signed_in("ann"))

    assert log.ages == [timedelta(days=7)] * 2


def test_a_file_that_was_rotated_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "security.jsonl"
    file = SecurityFile(path)

    file.write("1")
    path.rename(tmp_path / "security.jsonl.1")
    file.write("2")
    path.unlink()
    file.write("3")
    file.close()

    assert (tmp_path / "security.jsonl.1").read_text() == "1\n"
    assert path.read_text() == "3\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_is_added_to_and_never_cut(tmp_path: Path) -> None:
    path = tmp_path / "security.jsonl"
    path.write_text("before\n")

    file = SecurityFile(path)
    file.write("after")
    file.close()

    assert path.read_text() == "before\nafter\n"


@pytest.mark.parametrize("name", ["", "absent/security.jsonl"])
def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="--security-log"):
        SecurityLogging(file=tmp_path / name).opened()


@pytest.mark.parametrize("age", [timedelta(0), timedelta(days=-1)])
def test_records_are_kept_for_some_time(age: timedelta) -> None:
    with pytest.raises(ConfigurationError, match="kept_for"):
        SecurityLogging(kept_for=age)
