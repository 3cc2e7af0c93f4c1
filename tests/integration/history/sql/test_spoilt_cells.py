"""A disk, a tool or a person has overwritten cells of a SQL history: only the damaged entry suffers.

The tests use SQLite, where a cell may hold any type. They leave out ``doubtless_meta``, because
nothing runs without it.
"""

import shutil
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from history import Message, Parked, ParkedKind, SqlHistory, State, Verb
from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.store import BatchOwner, Counts, Decided, DecisionKind, OperatorDecision, Report

TRIGGER = "book"

TABLES = [f"doubtless_{name}" for name in ("history", "batches", "records", "log")]

SPOILT: list[object] = ["xx", b"\xff\xfe", 1e30]

#: The questions of commands, consumers and Spark. Each question must get an answer.
QUESTIONS: dict[str, Callable[[KeepsBeside], Any]] = {
    "stats": lambda store: store.stats(TRIGGER),
    "scan": lambda store: store.scan(TRIGGER),
    "lookup": lambda store: store.lookup(TRIGGER, ["held", "done", "of batch"]),
    "claim": lambda store: store.claim(TRIGGER, ["held", "done", "of batch", "new"], "worker-2"),
    "claim for a batch": lambda store: store.claim(TRIGGER, ["of batch", "another"], BatchOwner("q/2")),
    "purge": lambda store: store.purge(TRIGGER),
    "triggers": lambda store: store.triggers(),
    "list": lambda store: store.parking.list(trigger=TRIGGER),
    "labels": lambda store: store.parking.labels(trigger=TRIGGER),
    "of a uuid": lambda store: store.parking.of_uuid("held"),
    "decisions": lambda store: store.parking.decisions(TRIGGER),
    "overview": lambda store: control_of(store).overview(),
    "command": lambda store: control_of(store).order(Verb.RESUME, [TRIGGER]),
    "clear": lambda store: control_of(store).clear(),
    "sweep": lambda store: control_of(store).sweep(),
}


def control_of(store: KeepsBeside) -> Any:
    assert isinstance(store, SqlHistory)
    return store.control


def parked(number: int) -> Parked:
    return Parked(
        id=f"id-{number}",
        trigger_name=TRIGGER,
        kind=ParkedKind.IN_DOUBT,
        reason="an earlier run never finished",
        uuid=f"u-{number}",
        message=Message(body="", uuid=f"u-{number}"),
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a row or more in each table."""
    file = tmp_path_factory.mktemp("spoilt") / "whole.db"
    store = SqlHistory.from_url(f"sqlite:///{file}")
    done, *_ = drive(store.claim(TRIGGER, ["done", "held"], "worker-1", timedelta(hours=1)))
    assert drive(store.complete(TRIGGER, "done", done.fence))
    drive(store.claim(TRIGGER, ["of batch"], BatchOwner("q/1")))
    drive(store.parking.park([parked(number) for number in range(3)]))
    decision = OperatorDecision(kind=DecisionKind.DISCARD, by="me", reason="a test")
    drive(store.parking.decide(TRIGGER, decision, [Decided("id-0", "u-0")]))
    report = Report(consumer="c", trigger=TRIGGER, counts=Counts(new=1))
    drive(control_of(store).beat("token", [report]))
    drive(control_of(store).order(Verb.SUSPEND, [TRIGGER]))
    drive(control_of(store).clear())
    drive(store.close())
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for table in TABLES:
            assert connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] > 0, table  # noqa: S608
    connection.close()
    return file


@pytest.mark.parametrize("table", TABLES)
def test_a_spoilt_cell_keeps_no_question_from_its_answer(whole: Path, tmp_path: Path, table: str) -> None:
    with sqlite3.connect(whole) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    connection.close()
    for column in columns:
        for value in SPOILT:
            file = tmp_path / f"{column} {SPOILT.index(value)}.db"
            shutil.copy(whole, file)
            if not spoil(file, table, column, value):
                continue
            store = SqlHistory.from_url(f"sqlite:///{file}")
            for name, question in QUESTIONS.items():
                try:
                    drive(question(store))
                except Exception as error:
                    error.add_note(f"{name} with {value!r} in {table}.{column}")
                    raise
            drive(store.close())


def spoil(file: Path, table: str, column: str, value: object, where: str = "") -> bool:
    """Overwrite a cell of each row. Return False if the table refuses it."""
    connection = sqlite3.connect(file)
    try:
        connection.execute(f"UPDATE {table} SET {column} = ? {where}", (value,))  # noqa: S608
        connection.commit()
    except (sqlite3.IntegrityError, OverflowError):
        return False
    finally:
        connection.close()
    return True


@pytest.mark.parametrize("column", ["state", "outcome", "started_at", "lease_until", "expires_at"])
def test_an_entry_with_one_is_in_doubt_and_its_neighbours_are_what_they_were(
    whole: Path, tmp_path: Path, column: str
) -> None:
    file = tmp_path / "spoilt.db"
    shutil.copy(whole, file)
    assert spoil(file, "doubtless_history", column, "xx", "WHERE state = 'completed'")
    store = SqlHistory.from_url(f"sqlite:///{file}")

    spoilt, held = drive(store.claim(TRIGGER, ["done", "held"], "worker-2"))

    assert spoilt.found is not None
    assert (spoilt.found.state, spoilt.found.lease_alive) == (State.STARTED, False)
    assert held.found is not None
    assert held.found.lease_alive
    assert drive(store.forget(TRIGGER, "done")) or column == "expires_at"
    drive(store.close())
