"""``doubtless parked done`` records who settled a message. ``resolve`` only asks, and changes nothing."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from history import EntryOutcome, Evidence, Message, ParkedKind, State, open_history
from history.beside.kept import KeepsBeside
from history.bridge import drive
from tests.acceptance.cli.test_cli_parked import aside, ids_in, park, park_locally, start
from tests.acceptance.in_process import InProcess
from triggers import Status, trigger
from triggers.security.commands import os_user

CRASHED = 1000


@pytest.fixture(params=["redis", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty history."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/history.db"
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def at_place(place: str) -> Iterator[KeepsBeside]:
    opened = open_history(place)
    yield opened
    drive(opened.close())


def test_an_operator_settles_a_crash_in_five_commands(
    doubtless: InProcess, place: str, at_place: KeepsBeside
) -> None:
    effects: list[str] = []

    @trigger("orders", name="book", history=place, lease=None)
    def book(message: Message) -> None:
        effects.append(message.uuid or "")

    copies = [Message(body={"id": n}, uuid=f"order-{n}", delivery_count=2) for n in range(CRASHED)]
    drive(at_place.claim("book", [f"order-{n}" for n in range(CRASHED)], "dead-host:7:abc"))
    assert {outcome.status for outcome in book.handle_batch(copies)} == {Status.IN_DOUBT}
    history = ("--history", place)

    listed = doubtless("parked", "list", "--kind", "in-doubt", "--host", "dead-host", *history)
    explained = doubtless("why", "order-999", *history)
    filters = ("--trigger", "book", "--host", "dead-host", "--uuid", "order-*")
    preview = doubtless("parked", "done", *filters, "--dry-run", *history)
    settled = doubtless(
        "parked", "done", *filters, "--reason", "booked", "--by", "ann", *history, stdin="y\n"
    )
    decisions = doubtless("parked", "decisions", *history)

    assert "50 of 1000; --limit shows more" in listed.err
    assert "IN DOUBT: an earlier run did not finish; parked (row 10)" in explained.out
    assert "nothing was changed: book: 1000 in doubt (" in preview.err
    assert re.match(r"Settle as done: book: 1000 in doubt \(order-\d+, .*, \.\.\.\)\? \[y/N\] ", settled.err)
    assert settled.out.startswith("done: book: 1000 in doubt")
    assert [line.split()[3:] for line in decisions.out.splitlines()[1:]] == [
        ["done", "ann,", "as", *str(os_user()).split(), "1000", "booked", "settled", "as", "done"]
    ]
    stats = drive(at_place.stats("book"))
    assert (stats.started, stats.completed) == (0, CRASHED)
    assert drive(at_place.parking.count()) == 0
    assert {outcome.status for outcome in book.handle_batch(copies)} == {Status.DUPLICATE}
    assert drive(at_place.parking.count()) == 0
    assert effects == []
    book.close()


def test_what_is_running_or_was_started_again_is_left_alone(
    doubtless: InProcess, place: str, at_place: KeepsBeside
) -> None:
    parked_with = {uuid: Evidence(fence=start(at_place, uuid).fence) for uuid in ("again", "runs", "rests")}
    for uuid in ("again", "runs"):
        lease = None if uuid == "again" else timedelta(minutes=1)
        taken = drive(at_place.take_over("book", uuid, "worker", lease, parked_with[uuid].fence or 0))
        assert taken is not None
    park(at_place, *(aside(uuid, 1, evidence=evidence) for uuid, evidence in parked_with.items()))

    answer = doubtless("parked", "done", "-t", "book", "--yes", "--history", place, "--json")

    assert answer.code == 1
    left = {row["uuid"]: row["left"] for row in answer.json}
    assert left["rests"] is None
    assert "its service is running" in left["runs"]
    assert "it was started again since it was parked" in left["again"]
    assert sorted(ids_in(at_place)) == ["againagain", "runsruns"]
    states = [None if entry is None else entry.state for entry in _lookup(at_place, "again", "runs", "rests")]
    assert states == [State.STARTED, State.STARTED, State.COMPLETED]


def test_what_failed_or_has_no_entry_is_a_duplicate_afterwards(
    doubtless: InProcess, place: str, at_place: KeepsBeside
) -> None:
    fence = start(at_place, "failed").fence
    drive(at_place.complete("book", "failed", fence, EntryOutcome.FAILED))
    drive(at_place.complete("book", "ok", start(at_place, "ok").fence))
    rejected: dict[str, Any] = {"kind": ParkedKind.REJECTED}
    park(
        at_place,
        aside("failed", 1, evidence=Evidence(fence=fence), **rejected),
        aside("absent", 1),
        aside("ok", 1, **rejected),
        aside("raw", 1, kind=ParkedKind.UNREADABLE, message=None, raw={"a": "b"}).model_copy(
            update={"uuid": None}
        ),
    )

    assert doubtless("parked", "done", "-t", "book", "--yes", "--history", place).code == 0
    assert ids_in(at_place) == []
    outcomes = [
        None if entry is None else entry.outcome for entry in _lookup(at_place, "failed", "absent", "ok")
    ]
    assert outcomes == [EntryOutcome.OK] * 3


def test_what_is_parked_in_the_local_file_is_settled_in_the_history(
    doubtless: InProcess, redis_url: str, store: KeepsBeside
) -> None:
    file = doubtless.folder / "state" / "doubtless" / "parked.sqlite3"
    fence = start(store, "u1").fence
    park_locally(file, aside("u1", "N-1", evidence=Evidence(fence=fence)))

    refused = doubtless("parked", "done", "u1", "--local", "--yes")
    answer = doubtless("parked", "done", "u1", "--local", "--yes", "--history", redis_url)
    left = doubtless("parked", "list", "--local", "--json")
    decided = doubtless("parked", "decisions", "--local", "-t", "book", "--json")

    assert "--history: is missing" in refused.err
    assert (answer.code, left.json) == (0, [])
    (entry,) = _lookup(store, "u1")
    assert entry is not None
    assert entry.outcome is EntryOutcome.OK
    (row,) = decided.json
    assert [(one["id"], one["uuid"]) for one in row["messages"]] == [("u1u1", "u1")]


@pytest.mark.parametrize("pattern", ["order[1]", "*[1]", "?rder[1*"])
def test_a_bracket_in_the_pattern_of_a_uuid_is_a_bracket(
    doubtless: InProcess, redis_url: str, store: KeepsBeside, pattern: str
) -> None:
    park(store, aside("order1", 1), aside("order[1]", 1))

    doubtless("parked", "discard", "--uuid", pattern, "--yes", "--history", redis_url)

    assert ids_in(store) == ["order1" * 2]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--kind", "rejected"], ["u2"]),
        (["--kind", "in-doubt"], ["order-1", "u1"]),
        (["--uuid", "order-?"], ["order-1"]),
        (["--containing", "keyERROR: customer"], []),
        (["--containing", "no such customer"], ["u2"]),
        (["--host", "host-1"], ["u1"]),
        (["--newer", "1h"], ["u1", "u2"]),
        (["--older", "1h", "--trigger", "book"], ["order-1"]),
    ],
)
def test_filters_choose(
    doubtless: InProcess, redis_url: str, store: KeepsBeside, words: list[str], found: list[str]
) -> None:
    park(
        store,
        aside("u1", 1, evidence=Evidence(owner="host-1:7:abc")),
        aside("u2", 1, kind=ParkedKind.REJECTED, error_class="KeyError", error_message="no such customer"),
        aside("order-1", 1, parked_at="2024-01-01T00:00:00Z"),
    )

    listed = doubtless("parked", "list", *words, "--history", redis_url, "--json")
    chosen = doubtless("parked", "discard", *words, "--dry-run", "--history", redis_url, "--json")
    dropped = doubtless("parked", "discard", *words, "--yes", "--history", redis_url, "--json")

    for answer in (listed, chosen, dropped):
        assert sorted(row["uuid"] for row in answer.json) == found
    assert len(ids_in(store)) == 3 - len(found)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["done"], "PARKED_ID: is missing; give ids, or filters such as --trigger and --kind"),
        (["discard", "u1", "--kind", "rejected"], "ids and filters exclude each other"),
        (
            ["done", "-t", "book", "--older", "soon"],
            "--older: 'soon' is not a time; write 500ms, 30s, 15m, 2h or 7d",
        ),
        (["done", "-t", "book"], "--yes: is missing, and nobody can answer the question"),
    ],
)
def test_what_is_not_clear_changes_nothing(
    doubtless: InProcess, redis_url: str, store: KeepsBeside, words: list[str], problem: str
) -> None:
    park(store, aside("u1", 1))

    answer = doubtless("parked", *words, "--history", redis_url)

    assert answer.code == 2
    assert problem in answer.err
    assert ids_in(store) == ["u1u1"]


def test_what_each_command_decided_is_on_record(
    doubtless: InProcess, redis_url: str, store: KeepsBeside
) -> None:
    park(store, aside("u1", "N-1"), aside("u2", 1), aside("u3", 1))
    history = ("--yes", "--history", redis_url)

    doubtless("parked", "run", "shop", "u1", *history, "--reason", "not there", "--by", "ann")
    doubtless("parked", "discard", "u2", *history, "--reason", "a test", LOGNAME="bob")
    doubtless("parked", "done", "u3", *history, LOGNAME="bob")
    shown = doubtless("parked", "decisions", "--history", redis_url, "--json")
    newest = doubtless("parked", "decisions", "--history", redis_url, "--json", "--limit", "1")

    assert [(row["decision"], row["by"], row["reason"]) for row in shown.json] == [
        ("done", "bob", None),
        ("discard", "bob", "a test"),
        ("run", "ann", "not there"),
    ]
    assert [row["messages"][0]["uuid"] for row in shown.json] == ["u3", "u2", "u1"]
    assert newest.json == shown.json[:1]


def _lookup(store: KeepsBeside, *uuids: str) -> Any:
    return drive(store.lookup("book", uuids))


MODULE = """
from resolvers import Resolution, Resolved
from triggers import trigger

def look(uuid, trigger_name, message):
    if uuid == "u2":
        raise OSError("the ledger is away")
    return Resolved(Resolution.DUPLICATE, "the booking is there")

@trigger("orders", name="book", resolver=look)
def book(order: dict) -> None:
    raise AssertionError("nothing runs")
"""


@pytest.mark.parametrize(
    ("uuid", "code", "said"),
    [
        ("u1", 0, "DUPLICATE: the booking is there"),
        ("u2", 1, "the resolver failed: OSError: the ledger is away"),
    ],
)
def test_the_resolver_is_asked_and_nothing_changes(
    doubtless: InProcess, store: KeepsBeside, redis_url: str, uuid: str, code: int, said: str
) -> None:
    (doubtless.folder / "asked.py").write_text(MODULE)
    park(store, aside(uuid, "N-1"))

    answer = doubtless("parked", "resolve", "asked", uuid, "--history", redis_url)

    assert (answer.code, answer.out.strip()) == (code, f"{uuid}: {said}")
    assert ids_in(store) == [uuid * 2]


def test_comments_are_written_and_shown_with_their_author(
    doubtless: InProcess, redis_url: str, store: KeepsBeside
) -> None:
    park(store, aside("u1", "N-1"))
    words = ("--by", "ana", "--history", redis_url)

    wrote = doubtless("parked", "comment", "u1", "asked the bank", "--assign", "bob", *words)
    freed = doubtless("parked", "comment", "u1u1", "--assign", "nobody", *words)
    silent = doubtless("parked", "comment", "u1", *words)
    shown = doubtless("parked", "show", "u1", "--history", redis_url)

    assert (wrote.code, freed.code, silent.code) == (0, 0, 2)
    comments = [(one["by"], one["text"], one["assigned_to"]) for one in shown.json["comments"]]
    assert comments == [("ana", "asked the bank", "bob"), ("ana", None, "")]
    assert all("@" in one["as_user"] and one["at"] for one in shown.json["comments"])
