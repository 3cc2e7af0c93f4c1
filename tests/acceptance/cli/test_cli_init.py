"""``doubtless init`` writes a project that runs without changes."""

import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.in_process import InProcess
from tests.fixtures.waiting import PATIENCE

FILES = ["doubtless.toml", "orders.jsonl", "orders.py", "orders.sqlite3", "test_orders.py"]


def test_the_service_runs_and_does_what_is_said_of_it(doubtless: InProcess) -> None:
    written = doubtless("init")
    sent = doubtless("send", "orders", "orders.jsonl")
    ran = doubtless("run", "orders", "--until-idle", "0.1", "--json")
    parked = doubtless("parked", "list", "--json")
    reached = doubtless("guarantees", "orders", "--require", "atomic")
    looked_at = doubtless("doctor", "orders")
    shown = doubtless("config", "show", "orders", "--json")

    assert written.out.startswith(f"written: {', '.join([*FILES[:3], *FILES[4:], FILES[3]])}\nnext:\n")
    assert sent.out == "sent 4 messages to orders\n"
    assert ran.json[0].items() >= {"ok": 2, "duplicate": 1, "rejected": 1}.items()
    assert [row["uuid"] for row in parked.json] == ["order-3"]
    with closing(sqlite3.connect(doubtless.folder / "orders.sqlite3")) as connection:
        booked = connection.execute("SELECT uuid, order_id, amount FROM bookings ORDER BY uuid")
        assert booked.fetchall() == [("order-1", "A-1", 12.5), ("order-2", "A-2", 30.0)]
    assert (reached.code, looked_at.code, shown.code) == (0, 0, 0)
    assert {row["from"] for row in shown.json if row["setting"] in {"provider", "history"}} == {
        "doubtless.toml, provider",
        "doubtless.toml, history",
    }


def test_each_command_that_it_names_next_is_one(doubtless: InProcess) -> None:
    named = doubtless("init", "--json").json["next"]

    for command in named:
        program, *words = command.split()
        if program == "doubtless":
            assert doubtless(*words).code == 0, command
    assert named[-1] == "python -m pytest"


@pytest.mark.prove
def test_its_own_tests_pass(doubtless: InProcess) -> None:
    doubtless("init", "shop")

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=doubtless.folder / "shop",
        env=doubtless.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=5 * PATIENCE,  # it takes some ten seconds of CPU
    )

    assert ended.returncode == 0, ended.stdout
    assert "3 passed" in ended.stdout


@pytest.mark.parametrize("there", FILES)
def test_nothing_is_overwritten_and_then_nothing_is_written(doubtless: InProcess, there: str) -> None:
    (doubtless.folder / there).write_text("mine")

    answer = doubtless("init")

    assert answer.code == 2
    assert answer.error == f"error: FOLDER: {there} is there already; name an empty folder"
    assert [(file.name, file.read_text()) for file in doubtless.folder.iterdir() if file.is_file()] == [
        (there, "mine")
    ]


def test_messages_are_for_their_owner_alone(doubtless: InProcess) -> None:
    doubtless("init", "deep/shop")

    mode = (doubtless.folder / "deep" / "shop" / "orders.sqlite3").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_folder_that_cannot_be_one_is_refused(doubtless: InProcess) -> None:
    Path(doubtless.folder / "file").write_text("mine")

    answer = doubtless("init", "file/shop")

    assert answer.code == 2
    assert "FOLDER: " in answer.error
    assert "name one that can be written" in answer.error
