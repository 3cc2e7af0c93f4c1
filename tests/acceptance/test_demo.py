"""``doubtless demo``: the main job checks itself, and its check can fail."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.command_line import CommandLine, finish
from tests.fixtures.waiting import eventually

on_redis = pytest.mark.usefixtures("redis_server")  # or the reason why the demo cannot run here


def test_the_demo_books_everything_once_and_nothing_is_in_doubt(doubtless: CommandLine) -> None:
    answer = doubtless("demo", "--count", "200", "--json", PATH="/nowhere")

    summary = answer.json
    assert (answer.code, summary["mistakes"]) == (0, [])
    assert (summary["booked_once"], summary["booked_twice"], summary["in_doubt"]) == (200, 0, 0)
    assert summary["rejected"] == 5
    assert summary["killed_after"] >= 80


@on_redis
def test_the_demo_on_redis_accounts_for_every_line(doubtless: CommandLine) -> None:
    answer = doubtless("demo", "--on", "redis", "--count", "200", "--json", "--no-spark")

    summary = answer.json
    assert (answer.code, summary["mistakes"]) == (0, [])
    assert summary["booked_twice"] == 0
    assert 5 - summary["in_doubt"] <= summary["rejected"] <= 5
    assert summary["killed_after"] >= 80
    # A booking whose worker was killed before it could say so is booked, and In Doubt.
    assert 200 - summary["in_doubt"] <= summary["booked_once"] <= 200


def test_the_demo_books_a_file_of_ones_own(doubtless: CommandLine) -> None:
    good = '{"headers": {"uuid": "%s"}, "body": {"id": "N", "customer": "Sato", "amount": 1}}\n'
    broken = '{"headers": {"uuid": "broken"}, "body": {"id": "N"}}\n' * 2 + "garbage\n"
    file = doubtless.folder / "mine.jsonl"
    file.write_text("".join(good % f"u{number % 15}" for number in range(20)) + broken)

    answer = doubtless("demo", "--orders", "mine.jsonl", "--no-spark")

    assert answer.code == 0
    assert "sending 23 lines of mine.jsonl" in answer.out
    assert "checked against the booked rows: every line is accounted for" in answer.out


def test_the_demo_fails_when_a_booking_is_not_in_the_file(doubtless: CommandLine, tmp_path: Path) -> None:
    words = ("demo", "--count", "100", "--no-spark")
    with doubtless.start(*words, settings={"TMPDIR": str(tmp_path)}) as process:
        eventually(lambda: _add_booking(tmp_path))
        answer = finish(process)

    assert answer.code == 1
    assert "wrong: invented: nobody's" in answer.out
    assert "every line is accounted for" not in answer.out


def _add_booking(folder: Path) -> bool:
    """Book, behind the demo's back, what nobody sent; False while there is no table for it."""
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
