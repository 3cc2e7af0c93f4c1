"""``doubtless demo`` checks its own result, and this check can fail."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.command_line import CommandLine, finish
from tests.acceptance.in_process import InProcess
from tests.fixtures.waiting import eventually
from triggers.demo.booking import CREATE
from triggers.demo.ground import Ground
from triggers.demo.job import DemoJob

#: A line with an order, and a line without an order.
GOOD = '{"headers": {"uuid": "%s"}, "body": {"id": "N", "customer": "Sato", "amount": 1}}\n'
BROKEN = '{"headers": {"uuid": "broken"}, "body": {"id": "N"}}\n'

on_redis = pytest.mark.usefixtures("redis_server")  # it reports a missing redis-server


def test_the_demo_books_everything_once_and_nothing_is_in_doubt(doubtless: CommandLine) -> None:
    # This configuration names services, but the demo has its own service.
    (doubtless.folder / "doubtless.toml").write_text("[triggers.book-order]\nconcurrency = 2\n")

    answer = doubtless("demo", "--count", "200", "--json", PATH="/nowhere", DOUBTLESS_HISTORY="redsi://h")

    summary = answer.json
    assert (answer.code, summary["mistakes"]) == (0, [])
    assert (summary["booked_once"], summary["booked_twice"], summary["in_doubt"]) == (200, 0, 0)
    assert summary["rejected"] == 5
    assert summary["killed_after"] >= 80


@on_redis
@pytest.mark.prove
def test_the_demo_on_redis_accounts_for_every_line(doubtless: CommandLine) -> None:
    answer = doubtless("demo", "--on", "redis", "--count", "200", "--json", "--no-spark")

    summary = answer.json
    assert (answer.code, summary["mistakes"]) == (0, [])
    assert summary["booked_twice"] == 0
    assert 5 - summary["in_doubt"] <= summary["rejected"] <= 5
    assert summary["killed_after"] >= 80
    # If a worker was killed after a booking, before it completed the message, the booking is In Doubt.
    assert 200 - summary["in_doubt"] <= summary["booked_once"] <= 200


@pytest.mark.prove
def test_the_demo_books_a_file_of_ones_own(doubtless: CommandLine) -> None:
    file = doubtless.folder / "mine.jsonl"
    file.write_text("".join(GOOD % f"u{number % 15}" for number in range(20)) + BROKEN * 2 + "garbage\n")

    answer = doubtless("demo", "--orders", "mine.jsonl", "--no-spark")

    assert answer.code == 0
    assert "sending 23 lines of mine.jsonl" in answer.out
    assert "checked against the booked rows: every line is accounted for" in answer.out


def booked(folder: Path, *uuids: str) -> DemoJob:
    """Return a job with the orders u0 to u2 and a broken line. It has booked ``uuids`` and parked nothing."""
    file = folder / "orders.jsonl"
    file.write_text("".join(GOOD % f"u{number}" for number in range(3)) + BROKEN)
    job = DemoJob(folder=folder, ground=Ground.sqlite(folder), orders=file, say=lambda _: None)
    with closing(sqlite3.connect(job.ground.bookings)) as bookings, bookings:
        bookings.execute(CREATE)
        bookings.executemany("INSERT INTO bookings VALUES (?, 'N', 1.0, 1)", [(uuid,) for uuid in uuids])
    return job


@pytest.mark.parametrize(
    ("uuids", "mistake"),
    [
        (["u0", "u1", "u2"], None),
        (["u0", "u1", "u2", "nobody's"], "invented: nobody's"),
        (["u0", "u1"], "lost: u2"),
        (["u0", "u1", "u2", "u1"], "booked twice: u1"),
        (["u0", "u1", "u2", "broken"], "invented: broken"),
    ],
)
def test_the_check_compares_the_bookings_with_the_file(
    tmp_path: Path, uuids: list[str], mistake: str | None
) -> None:
    summary = booked(tmp_path, *uuids).check(killed_after=1, seconds=1.0)

    mistakes = [*summary.mistakes]
    assert (mistakes.pop(), mistakes) == ("broken but not parked: broken", [mistake] if mistake else [])
    assert summary.booked_once == len(set(uuids)) - (mistake == "booked twice: u1")


@pytest.mark.prove
def test_the_demo_fails_when_a_booking_is_not_in_the_file(doubtless: CommandLine, tmp_path: Path) -> None:
    words = ("demo", "--count", "100", "--no-spark")
    with doubtless.start(*words, settings={"TMPDIR": str(tmp_path)}) as process:
        eventually(lambda: _add_booking(tmp_path))
        answer = finish(process)

    assert answer.code == 1
    assert "wrong: invented: nobody's" in answer.out
    assert "every line is accounted for" not in answer.out


def _add_booking(folder: Path) -> bool:
    """Add a booking without a message to the demo's database. Return False while its table does not exist."""
    for file in folder.glob("doubtless-demo-*/demo.sqlite3"):
        with closing(sqlite3.connect(file, timeout=30)) as bookings, bookings:
            if bookings.execute("SELECT 1 FROM sqlite_master WHERE name = 'bookings'").fetchone():
                bookings.execute("INSERT INTO bookings VALUES ('nobody''s', 'N-0', 1.0, 1)")
                return True
    return False


def test_the_demo_without_a_redis_server_says_how_to_get_one(doubtless: CommandLine) -> None:
    answer = doubtless("demo", "--on", "redis", PATH="/nowhere")

    assert answer.code == 2
    assert answer.error == "error: redis-server: not found on the PATH; apt-get install redis-server"


def test_an_extra_that_is_missing_is_said_before_the_work(
    doubtless: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "triggers.dashboard.command", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)

    answer = doubtless("demo", "--dashboard", "--count", "10")

    assert (answer.code, answer.out) == (2, "")
    assert "needs the package jinja2; pip install 'doubtless[dashboard]'" in answer.err
