"""If a place refuses a message, the lot parks it in the next place, and reports the trouble."""

from pathlib import Path

import pytest

from history.bridge import drive
from history.store.control import TroubleKind
from history.store.parking import Parked, ParkedKind
from triggers.pipeline.parking.lot import ParkingLot


def parked(number: int) -> Parked:
    return Parked(
        id=str(number),
        trigger_name="book",
        kind=ParkedKind.REJECTED,
        reason="",
        destination="orders",
        raw={"body": "x"},
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "parked.sqlite3"


def test_what_is_in_the_local_file_is_a_trouble_until_it_is_decided(file: Path) -> None:
    lot = ParkingLot(None, file)
    assert drive(lot.park([parked(1), parked(2)]))
    drive(lot.close())

    started_again = ParkingLot(None, file)
    started_again.look("book")
    [trouble] = started_again.troubles()
    drive(started_again.close())
    file.unlink()
    decided = ParkingLot(None, file)
    decided.look("book")

    assert (trouble.kind, trouble.count, started_again.kept_locally) == (TroubleKind.PARKED_LOCALLY, 2, 2)
    assert not [*decided.troubles()]
    assert not file.exists()


def test_the_log_says_what_is_wrong_with_a_file_that_takes_no_more(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lot = ParkingLot(None, file)
    assert drive(lot.park([parked(1)]))
    file.unlink()

    assert not drive(lot.park([parked(2)]))
    drive(lot.close())

    (line,) = [one.getMessage() for one in caplog.records if one.getMessage().startswith("NOT PARKED")]
    assert f"the local file: {file} was deleted or replaced while it was open" in line


def test_what_no_place_takes_is_a_trouble_with_its_cause_until_one_takes_it(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.parent.parent.joinpath("state").write_text("this is no folder")
    lot = ParkingLot(None, file)

    assert not drive(lot.park([parked(1)]))
    (line,) = [one.getMessage() for one in caplog.records if one.levelname == "CRITICAL"]
    assert not drive(lot.park([parked(1), parked(2)]))
    [trouble] = lot.troubles()
    file.parent.unlink()
    assert drive(lot.park([parked(1)]))
    after = [one.kind for one in lot.troubles()]
    drive(lot.close())

    assert (trouble.kind, trouble.count, lot.refusals) == (TroubleKind.NOT_PARKED, 3, 3)
    assert "exists" in trouble.cause
    assert line.startswith("NOT PARKED: 1 messages, which are delivered again later. there is no history")
    assert f"{trouble.cause}. Make room on the disk of {file} and " in line
    assert after == [TroubleKind.PARKED_LOCALLY]
