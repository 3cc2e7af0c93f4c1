"""``doubtless parked``: look, run, discard."""

import signal
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from history import Claim, EntryOutcome, Message, open_history
from history.bridge import drive
from history.store import HistoryStore
from history.store.parking import Evidence, Parked, ParkedKind, parked_id
from tests.acceptance.command_line import finish
from tests.acceptance.in_process import InProcess
from tests.fixtures.waiting import eventually


def aside(uuid: str, order: str | int, **fields: Any) -> Parked:
    """Return a parked order; its id is its uuid, told twice."""
    told: Mapping[str, Any] = {
        "trigger_name": "book",
        "kind": ParkedKind.IN_DOUBT,
        "reason": "row 10",
        "destination": "orders",
        "message": Message(body={"id": order}, uuid=uuid),
    }
    return Parked.model_validate({"id": uuid * 2, "uuid": uuid, **told, **fields})


def park(store: HistoryStore, *parked: Parked) -> None:
    drive(store.parking.park(parked))


def start(store: HistoryStore, uuid: str) -> Claim:
    """Leave an entry behind as a worker does that dies."""
    return drive(store.claim("book", [uuid], f"dead worker {datetime.now(UTC)}"))[0]


def ids_in(store: HistoryStore) -> list[str]:
    return [one.id for one in drive(store.parking.list())]


def done(doubtless: InProcess) -> list[str]:
    file = doubtless.folder / "done.txt"
    return file.read_text().splitlines() if file.exists() else []


def test_list_shows_the_oldest_first_and_how_many_there_are(
    doubtless: InProcess, redis_url: str, store: HistoryStore
) -> None:
    now = datetime.now(UTC)
    park(store, *(aside(f"u{age}", 1, parked_at=now - timedelta(hours=age)) for age in range(3)))

    answer = doubtless("parked", "list", "--limit", "2", "--history", redis_url)
    data = doubtless("parked", "list", "--limit", "2", "--history", redis_url, "--json")

    assert [line.split()[0] for line in answer.out.splitlines()] == ["id", "u2u2", "u1u1"]
    assert answer.err == "2 of 3; --limit shows more\n"
    assert [one["uuid"] for one in data.json] == ["u2", "u1"]


def test_list_closes_what_has_been_settled_meanwhile(
    doubtless: InProcess, redis_url: str, store: HistoryStore
) -> None:
    park(store, aside("u1", 1), aside("u2", 1))
    drive(store.complete("book", "u1", start(store, "u1").fence))
    start(store, "u2")

    answer = doubtless("parked", "list", "--history", redis_url, "--json")

    assert [one["uuid"] for one in answer.json] == ["u2"]
    assert ids_in(store) == ["u2u2"]


@pytest.mark.parametrize(
    ("body", "kind", "shown"),
    [
        ({"id": "[red]größer\x1b"}, "json", {"id": "[red]größer\x1b"}),
        ("größer".encode(), "bytes", "größer"),
        (b"\xff\x00", "base64", "/wA="),
    ],
)
def test_show_prints_the_whole_message_as_json(
    doubtless: InProcess, redis_url: str, store: HistoryStore, body: Any, kind: str, shown: object
) -> None:
    evidence = Evidence(owner="dead worker", fence=7)
    park(store, aside("u1", 1, message=Message(body=body, uuid="u1"), evidence=evidence))

    answer = doubtless("parked", "show", "u1", "--history", redis_url)

    assert (answer.code, answer.json["message"]["body-kind"]) == (0, kind)
    assert (answer.json["message"]["body"], answer.json["message"]["headers"]["uuid"]) == (shown, "u1")
    assert (answer.json["evidence"]["owner"], answer.json["evidence"]["fence"]) == ("dead worker", 7)


def test_show_prints_the_traceback_for_people_and_for_programs(
    doubtless: InProcess, redis_url: str, store: HistoryStore
) -> None:
    trace = 'Most recent call last:\n  File "shop.py", line 21, in book\nKeyError: \x1b[31m\n'
    park(store, aside("u1", 1, error_class="KeyError", error_message="customer", error_trace=trace))

    people = doubtless("parked", "show", "u1", "--history", redis_url)
    program = doubtless("parked", "show", "u1", "--history", redis_url, "--json")

    assert people.err == 'Most recent call last:\n  File "shop.py", line 21, in book\nKeyError: \\x1b[31m\n'
    assert people.json["error_trace"] == program.json["error_trace"] == trace
    assert program.err == ""


def test_show_prints_the_fields_of_an_unreadable_delivery(
    doubtless: InProcess, redis_url: str, store: HistoryStore
) -> None:
    raw = {"boddy": "{}", "base64:/w==": "1"}
    park(store, aside("u1", 1, kind=ParkedKind.UNREADABLE, message=None, raw=raw))

    answer = doubtless("parked", "show", "u1u1", "--history", redis_url)

    assert (answer.json["kind"], answer.json["message"], answer.json["raw"]) == ("unreadable", None, raw)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["show", "u9"], 1, "PARKED_ID: u9 is not parked; see: doubtless parked list"),
        (
            ["discard", "n-7", "--yes"],
            2,
            "PARKED_ID: 'n-7' is a uuid, not the id of a parked message; give p7",
        ),
        (["show", "u"], 2, "PARKED_ID: 'u' is not unique: u1u1, u2u2; give more of it"),
        (["discard", "", "--yes"], 2, "PARKED_ID: is empty; give a value"),
        (["run", "shop", "u9", "--yes"], 1, "PARKED_ID: u9 is not parked"),
        (
            ["run", "shop", "u2", "--yes"],
            2,
            "PARKED_ID: u2u2 was not a message; send it corrected, or discard it",
        ),
        (["run", "triggers.demo.booking", "u1", "--yes"], 2, "MODULE: it has no trigger 'book'"),
        (["run", "shop", "u1"], 2, "--yes: is missing, and nobody can answer the question"),
        (["discard", "u1", "u9", "--yes"], 1, "PARKED_ID: u9 is not parked"),
    ],
)
def test_what_cannot_be_done_is_told_and_changes_nothing(
    doubtless: InProcess, redis_url: str, store: HistoryStore, words: list[str], code: int, told: str
) -> None:
    park(store, aside("u1", "N-1"), aside("u2", 1, kind=ParkedKind.UNREADABLE, message=None, raw={"a": "b"}))
    park(store, aside("n-7", "N-7", id="p7"))

    answer = doubtless("parked", *words, "--history", redis_url)

    assert answer.code == code
    assert told in answer.err
    assert sorted(ids_in(store)) == ["p7", "u1u1", "u2u2"]
    assert done(doubtless) == []


def test_run_takes_an_in_doubt_message_over_and_closes_it(
    doubtless: InProcess, redis_url: str, store: HistoryStore
) -> None:
    evidence = Evidence(fence=start(store, "u1").fence)
    park(store, aside("u1", "N-1", evidence=evidence), aside("u2", "N-2"))

    answer = doubtless("parked", "run", "shop", "u1", "u2", "--yes", "--json", "--history", redis_url)

    assert answer.code == 0
    assert [(one["uuid"], one["closed"], one["executed"]) for one in answer.json] == [
        ("u1", True, True),
        ("u2", True, True),
    ]
    assert done(doubtless) == ["N-1", "N-2"]
    assert ids_in(store) == []
    assert all(one is not None and one.outcome == "ok" for one in drive(store.lookup("book", ["u1", "u2"])))


def test_run_asks_first(doubtless: InProcess, redis_url: str, store: HistoryStore) -> None:
    park(store, aside("u1", "N-1"))

    answer = doubtless("parked", "run", "shop", "u1", "--history", redis_url, stdin="y\n")

    assert answer.code == 0
    assert "Run book on u1 (in doubt)?" in answer.err
    assert answer.out.startswith("u1: closed: SUCCEEDED: ")


def test_run_of_a_message_that_fails_again_is_exit_code_1_and_it_stays(
    doubtless: InProcess, redis_url: str, store: HistoryStore
) -> None:
    message = Message(body={"id": "fails"}, uuid="u1")
    parked = aside("u1", "fails", kind=ParkedKind.REJECTED, message=message)
    park(store, parked.model_copy(update={"id": parked_id("book", message)}))
    drive(store.complete("book", "u1", start(store, "u1").fence, EntryOutcome.FAILED))

    answer = doubtless("parked", "run", "shop", parked_id("book", message), "--yes", "--history", redis_url)

    assert answer.code == 1
    assert r"FatalError('[red]no such [/red] customer \x1b[31m:smile:')" in answer.out
    (still,) = drive(store.parking.list())
    assert (still.uuid, still.error_class) == ("u1", "triggers.FatalError")


def test_run_of_all_that_a_host_held_leaves_what_the_module_cannot_run(
    doubtless: InProcess, redis_url: str, store: HistoryStore
) -> None:
    held: Any = {"evidence": Evidence(owner="worker-3:7:ab")}
    park(
        store,
        aside("u1", "N-1", **held),
        aside("u2", "P-2", trigger_name="ship", **held),
        aside("u3", "N-3", trigger_name="invoice", **held),
        aside("u4", 1, kind=ParkedKind.UNREADABLE, message=None, raw={"a": "b"}, **held),
        aside("u5", "N-5", evidence=Evidence(owner="worker-4:7:ab")),
    )
    words = ("parked", "run", "shop", "--host", "worker-3", "--history", redis_url)

    looked = doubtless(*words, "--dry-run", "--json")
    answer = doubtless(*words, stdin="y\n")

    assert sorted(row["uuid"] for row in looked.json) == ["u1", "u2"]
    for said in (looked.err, answer.err):
        assert "shop cannot run, and leaves parked: " in said
        assert "invoice: 1 in doubt (u3)" in said
        assert "book: 1 unreadable (u4)" in said
    assert answer.code == 1
    assert "u3: still parked: it has no trigger 'invoice'; name the module that has it" in answer.out
    assert "u4: still parked: u4u4 was not a message" in answer.out
    assert sorted(done(doubtless)) == ["N-1", "P-2"]
    assert sorted(ids_in(store)) == ["u3u3", "u4u4", "u5u5"]


def test_a_run_at_a_pace_stops_after_the_running_message_and_the_same_command_continues(
    doubtless: InProcess, redis_url: str, store: HistoryStore
) -> None:
    orders = [f"N-{n}" for n in range(200)]
    park(store, *(aside(f"u{n}", order) for n, order in enumerate(orders)))
    words = ("parked", "run", "shop", "-t", "book", "--yes", "--history", redis_url)

    with doubtless.start(*words, "--rate", "20/s") as process:
        eventually(lambda: len(done(doubtless)) >= 3)
        process.send_signal(signal.SIGINT)
        stopped = finish(process)
    ran = done(doubtless)
    left = ids_in(store)
    continued = doubtless(*words)

    assert stopped.code == 1
    assert f"stopped: {len(left)} have had no turn and stay parked" in stopped.err
    assert len(stopped.out.splitlines()) == len(ran) == len(orders) - len(left)
    assert 3 <= len(ran) < len(orders)
    assert (continued.code, ids_in(store)) == (0, [])
    assert sorted(done(doubtless)) == sorted(orders)


def test_a_pace_that_is_no_number_is_refused(
    doubtless: InProcess, redis_url: str, store: HistoryStore
) -> None:
    park(store, aside("u1", "N-1"))

    answer = doubtless("parked", "run", "shop", "u1", "--rate", "fast", "--yes", "--history", redis_url)

    assert (answer.code, ids_in(store)) == (2, ["u1u1"])
    assert "rate" in answer.error


def test_what_breaks_off_for_one_trigger_is_shown_and_the_others_run(
    doubtless: InProcess, redis_url: str, store: HistoryStore
) -> None:
    (doubtless.folder / "broken.py").write_text(
        "from shop import book\n"
        "from triggers import trigger\n"
        '@trigger("orders", name="ship", history="nowhere://at-all")\n'
        "def ship() -> None: ...\n"
    )
    times = [datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in range(3)]
    for uuid, name, at in zip(("u1", "u2", "u3"), ("ship", "ship", "book"), times, strict=True):
        park(store, aside(uuid, "N-1", trigger_name=name, parked_at=at))
    words = ("parked", "run", "broken", "--kind", "in-doubt", "--yes", "--history", redis_url)

    answer = doubtless(*words)

    assert answer.code == 2
    assert [line.split(": ")[:2] for line in answer.out.splitlines()] == [
        ["u1", "still parked"],
        ["u2", "still parked"],
        ["u3", "closed"],
    ]
    assert "nowhere" in answer.err
    assert done(doubtless) == ["N-1"]
    assert sorted(ids_in(store)) == ["u1u1", "u2u2"]


def test_discard_drops_each_message_once(doubtless: InProcess, redis_url: str, store: HistoryStore) -> None:
    park(store, aside("u1", 1), aside("u2", 1), aside("u3", 1))

    answer = doubtless("parked", "discard", "u1", "u1u1", "u3", "--yes", "--json", "--history", redis_url)

    assert answer.code == 0
    assert [one["uuid"] for one in answer.json] == ["u1", "u3"]
    assert ids_in(store) == ["u2u2"]


def test_what_was_parked_in_the_local_file_is_found_there(doubtless: InProcess, redis_url: str) -> None:
    file = doubtless.folder / "state" / "doubtless" / "parked.sqlite3"
    park_locally(file, aside("u1", "N-1"))

    listed = doubtless("parked", "list", "--local", "--json")
    explained = doubtless("why", "u1", "--history", redis_url)
    discarded = doubtless("parked", "discard", "u1", "--local", "--yes", "--json")
    left = doubtless("parked", "list", "--local", "--json")

    assert [one["id"] for one in listed.json] == ["u1u1"]
    assert "parked u1u1 (in doubt, --local): row 10" in explained.out
    assert f"looking into {file}, too" in explained.err
    assert [one["id"] for one in discarded.json] == ["u1u1"]
    assert left.json == []


def park_locally(file: Path, parked: Parked, key: str | None = None) -> None:
    file.parent.mkdir(parents=True)
    store = open_history(f"sqlite:///{file}" + ("" if key is None else f"?encrypt={key}"))
    park(store, parked)
    drive(store.close())


def test_run_of_a_service_that_ends_the_process_is_no_success(
    doubtless: InProcess, redis_url: str, store: HistoryStore
) -> None:
    (doubtless.folder / "leaving.py").write_text(
        "import sys\nfrom triggers import trigger\n"
        "@trigger('orders', name='book')\ndef leave(body: object) -> None: sys.exit(0)"
    )
    park(store, aside("u1", 1))

    answer = doubtless("parked", "run", "leaving", "u1u1", "--yes", "--history", redis_url)

    assert answer.code == 1
    assert "u1: SystemExit: 0 ended its service" in answer.err
    assert "error: this is not done: the code that it ran called sys.exit(0)" in answer.err
    assert ids_in(store) == ["u1u1"]


def test_what_modules_and_services_print_is_no_part_of_the_json_document(
    doubtless: InProcess, redis_url: str, store: HistoryStore
) -> None:
    (doubtless.folder / "chatting.py").write_text(
        "from triggers import trigger\nprint('imported')\n"
        "@trigger('orders', name='book')\ndef chat(body: object) -> None: print('running')"
    )
    park(store, aside("u1", 1))

    answer = doubtless("parked", "run", "chatting", "u1u1", "--yes", "--history", redis_url, "--json")

    assert [one["closed"] for one in answer.json] == [True]
    assert answer.err.splitlines() == ["imported", "running"]
