"""``doubtless parked``: look, run, discard."""

import signal
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from history import Claim, EntryOutcome, Message, open_history
from history.beside.kept import KeepsBeside, needed_beside
from history.beside.parking import Parking
from history.bridge import drive
from history.store.parking import Evidence, Parked, ParkedKind, parked_id
from tests.acceptance.command_line import Answer, finish
from tests.acceptance.in_process import InProcess
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import eventually
from triggers.testing.redis_server import RedisServer


def aside(uuid: str, order: str | int, **fields: Any) -> Parked:
    """Return a parked order. Its id is its uuid written twice."""
    told: Mapping[str, Any] = {
        "trigger_name": "book",
        "kind": ParkedKind.IN_DOUBT,
        "reason": "row 10",
        "destination": "orders",
        "message": Message(body={"id": order}, uuid=uuid),
    }
    return Parked.model_validate({"id": uuid * 2, "uuid": uuid, **told, **fields})


def park(store: KeepsBeside, *parked: Parked) -> None:
    drive(store.parking.park(parked))


def start(store: KeepsBeside, uuid: str) -> Claim:
    """Leave an entry behind, like a worker that dies."""
    return drive(store.claim("book", [uuid], f"dead worker {datetime.now(UTC)}"))[0]


def ids_in(store: KeepsBeside) -> list[str]:
    return [one.id for one in drive(store.parking.list())]


def done(doubtless: InProcess) -> list[str]:
    file = doubtless.folder / "done.txt"
    return file.read_text().splitlines() if file.exists() else []


class Desk:
    """``doubtless parked`` over a history in Redis."""

    def __init__(self, doubtless: InProcess, url: str, store: KeepsBeside) -> None:
        self.doubtless, self.url, self.store = doubtless, url, store

    def __call__(self, *words: str, **settings: str) -> Answer:
        return self.doubtless("parked", *words, "--history", self.url, **settings)

    def park(self, *parked: Parked) -> None:
        park(self.store, *parked)

    @property
    def ids(self) -> list[str]:
        return ids_in(self.store)

    @property
    def done(self) -> list[str]:
        return done(self.doubtless)


@pytest.fixture
def desk(doubtless: InProcess, redis_url: str, store: KeepsBeside) -> Desk:
    return Desk(doubtless, redis_url, store)


def test_list_shows_the_oldest_first_and_how_many_there_are(desk: Desk) -> None:
    now = datetime.now(UTC)
    desk.park(*(aside(f"u{age}", 1, parked_at=now - timedelta(hours=age)) for age in range(3)))

    answer = desk("list", "--limit", "2")
    data = desk("list", "--limit", "2", "--json")

    assert [line.split()[0] for line in answer.out.splitlines()] == ["id", "u2u2", "u1u1"]
    assert answer.err == "2 of 3; --limit shows more\n"
    assert [one["uuid"] for one in data.json] == ["u2", "u1"]


def test_list_closes_what_has_been_settled_meanwhile(desk: Desk) -> None:
    desk.park(aside("u1", 1), aside("u2", 1))
    drive(desk.store.complete("book", "u1", start(desk.store, "u1").fence))
    start(desk.store, "u2")

    answer = desk("list", "--json")

    assert [one["uuid"] for one in answer.json] == ["u2"]
    assert desk.ids == ["u2u2"]


@pytest.mark.parametrize(
    ("body", "kind", "shown"),
    [
        ({"id": "[red]größer\x1b"}, "json", {"id": "[red]größer\x1b"}),
        ("größer".encode(), "bytes", "größer"),
        (b"\xff\x00", "base64", "/wA="),
    ],
)
def test_show_prints_the_whole_message_as_json(desk: Desk, body: Any, kind: str, shown: object) -> None:
    evidence = Evidence(owner="dead worker", fence=7)
    desk.park(aside("u1", 1, message=Message(body=body, uuid="u1"), evidence=evidence))

    answer = desk("show", "u1")

    assert (answer.code, answer.json["message"]["body-kind"]) == (0, kind)
    assert (answer.json["message"]["body"], answer.json["message"]["headers"]["uuid"]) == (shown, "u1")
    assert (answer.json["evidence"]["owner"], answer.json["evidence"]["fence"]) == ("dead worker", 7)


def test_show_prints_the_traceback_for_people_and_for_programs(desk: Desk) -> None:
    trace = 'Most recent call last:\n  File "shop.py", line 21, in book\nKeyError: \x1b[31m\n'
    desk.park(aside("u1", 1, error_class="KeyError", error_message="customer", error_trace=trace))

    people = desk("show", "u1")
    program = desk("show", "u1", "--json")

    assert people.err == 'Most recent call last:\n  File "shop.py", line 21, in book\nKeyError: \\x1b[31m\n'
    assert people.json["error_trace"] == program.json["error_trace"] == trace
    assert program.err == ""


def test_show_prints_the_fields_of_an_unreadable_delivery(desk: Desk) -> None:
    raw = {"boddy": "{}", "base64:/w==": "1"}
    desk.park(aside("u1", 1, kind=ParkedKind.UNREADABLE, message=None, raw=raw))

    answer = desk("show", "u1u1")

    assert (answer.json["kind"], answer.json["message"], answer.json["raw"]) == ("unreadable", None, raw)


@pytest.mark.parametrize(
    ("words", "code"), [(["show", "nope"], 1), (["show", "n-7"], 2), (["show", "u"], 2), (["decisions"], 0)]
)
def test_a_look_for_one_message_or_for_decisions_does_not_read_the_whole_lot(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int
) -> None:
    desk.park(aside("u1", "N-1"), aside("u2", "N-2"), aside("n-7", "N-7", id="p7"))
    monkeypatch.delattr(Parking, "labels")

    assert desk(*words).code == code


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
    desk: Desk, words: list[str], code: int, told: str
) -> None:
    desk.park(aside("u1", "N-1"), aside("u2", 1, kind=ParkedKind.UNREADABLE, message=None, raw={"a": "b"}))
    desk.park(aside("n-7", "N-7", id="p7"))

    answer = desk(*words)

    assert answer.code == code
    assert told in answer.err
    assert sorted(desk.ids) == ["p7", "u1u1", "u2u2"]
    assert desk.done == []


def test_run_takes_an_in_doubt_message_over_and_closes_it(desk: Desk) -> None:
    evidence = Evidence(fence=start(desk.store, "u1").fence)
    desk.park(aside("u1", "N-1", evidence=evidence), aside("u2", "N-2"))

    answer = desk("run", "shop", "u1", "u2", "--yes", "--json")

    assert answer.code == 0
    assert [(one["uuid"], one["closed"], one["executed"]) for one in answer.json] == [
        ("u1", True, True),
        ("u2", True, True),
    ]
    assert desk.done == ["N-1", "N-2"]
    assert desk.ids == []
    assert all(
        one is not None and one.outcome == "ok" for one in drive(desk.store.lookup("book", ["u1", "u2"]))
    )


def test_run_asks_first(desk: Desk) -> None:
    desk.park(aside("u1", "N-1"))

    answer = desk("run", "shop", "u1", stdin="y\n")

    assert answer.code == 0
    assert "Run book on u1 (in doubt)?" in answer.err
    assert answer.out.startswith("u1: closed: SUCCEEDED: ")


def test_run_of_a_message_that_fails_again_is_exit_code_1_and_it_stays(desk: Desk) -> None:
    message = Message(body={"id": "fails"}, uuid="u1")
    parked = aside("u1", "fails", kind=ParkedKind.REJECTED, message=message)
    desk.park(parked.model_copy(update={"id": parked_id("book", message)}))
    drive(desk.store.complete("book", "u1", start(desk.store, "u1").fence, EntryOutcome.FAILED))

    answer = desk.doubtless(
        "parked", "run", "shop", parked_id("book", message), "--yes", "--history", desk.url
    )

    assert answer.code == 1
    assert r"FatalError('[red]no such [/red] customer \x1b[31m:smile:')" in answer.out
    (still,) = drive(desk.store.parking.list())
    assert (still.uuid, still.error_class) == ("u1", "triggers.FatalError")


def test_run_of_all_that_a_host_held_leaves_what_the_module_cannot_run(desk: Desk) -> None:
    held: Any = {"evidence": Evidence(owner="worker-3:7:ab")}
    desk.park(
        aside("u1", "N-1", **held),
        aside("u2", "P-2", trigger_name="ship", **held),
        aside("u3", "N-3", trigger_name="invoice", **held),
        aside("u4", 1, kind=ParkedKind.UNREADABLE, message=None, raw={"a": "b"}, **held),
        aside("u5", "N-5", evidence=Evidence(owner="worker-4:7:ab")),
    )
    words = ("run", "shop", "--host", "worker-3")

    looked = desk(*words, "--dry-run", "--json")
    answer = desk(*words, stdin="y\n")

    assert sorted(row["uuid"] for row in looked.json) == ["u1", "u2"]
    for said in (looked.err, answer.err):
        assert "shop cannot run, and leaves parked: " in said
        assert "invoice: 1 in doubt (u3)" in said
        assert "book: 1 unreadable (u4)" in said
    assert answer.code == 1
    assert "u3: still parked: it has no trigger 'invoice'; name the module that has it" in answer.out
    assert "u4: still parked: u4u4 was not a message" in answer.out
    assert sorted(desk.done) == ["N-1", "P-2"]
    assert sorted(desk.ids) == ["u3u3", "u4u4", "u5u5"]


def test_a_run_at_a_pace_stops_after_the_running_message_and_the_same_command_continues(desk: Desk) -> None:
    orders = [f"N-{n}" for n in range(200)]
    desk.park(*(aside(f"u{n}", order) for n, order in enumerate(orders)))
    words = ("run", "shop", "-t", "book", "--yes")

    with desk.doubtless.start("parked", *words, "--history", desk.url, "--rate", "20/s") as process:
        eventually(lambda: len(desk.done) >= 3)
        process.send_signal(signal.SIGINT)
        stopped = finish(process)
    ran = desk.done
    left = desk.ids
    continued = desk(*words)

    assert stopped.code == 1
    assert f"stopped: {len(left)} have had no turn and stay parked" in stopped.err
    assert len(stopped.out.splitlines()) == len(ran) == len(orders) - len(left)
    assert 3 <= len(ran) < len(orders)
    assert (continued.code, desk.ids) == (0, [])
    assert sorted(desk.done) == sorted(orders)


def test_what_breaks_off_for_one_trigger_is_shown_and_the_others_run(desk: Desk) -> None:
    (desk.doubtless.folder / "broken.py").write_text(
        "from shop import book\n"
        "from triggers import trigger\n"
        '@trigger("orders", name="ship", history="env:NOWHERE")\n'
        "def ship() -> None: ...\n"
    )
    times = [datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in range(3)]
    for uuid, name, at in zip(("u1", "u2", "u3"), ("ship", "ship", "book"), times, strict=True):
        desk.park(aside(uuid, "N-1", trigger_name=name, parked_at=at))
    words = ("run", "broken", "--kind", "in-doubt", "--yes")

    answer = desk(*words)

    assert answer.code == 2
    assert [line.split(": ")[:2] for line in answer.out.splitlines()] == [
        ["u1", "still parked"],
        ["u2", "still parked"],
        ["u3", "closed"],
    ]
    assert "NOWHERE" in answer.err
    assert desk.done == ["N-1"]
    assert sorted(desk.ids) == ["u1u1", "u2u2"]


def test_discard_drops_each_message_once(desk: Desk) -> None:
    desk.park(aside("u1", 1), aside("u2", 1), aside("u3", 1))

    answer = desk("discard", "u1", "u1u1", "u3", "--yes", "--json")

    assert answer.code == 0
    assert [one["uuid"] for one in answer.json] == ["u1", "u3"]
    assert desk.ids == ["u2u2"]


def test_what_was_parked_in_the_local_file_is_found_there(desk: Desk) -> None:
    file = desk.doubtless.folder / "state" / "doubtless" / "parked.sqlite3"
    park_locally(file, aside("u1", "N-1"))

    listed = desk.doubtless("parked", "list", "--local", "--json")
    explained = desk.doubtless("why", "u1", "--history", desk.url)
    discarded = desk.doubtless("parked", "discard", "u1", "--local", "--yes", "--json")
    left = desk.doubtless("parked", "list", "--local", "--json")

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


def test_run_of_a_service_that_ends_the_process_is_no_success(desk: Desk) -> None:
    (desk.doubtless.folder / "leaving.py").write_text(
        "import sys\nfrom triggers import trigger\n"
        "@trigger('orders', name='book')\ndef leave(body: object) -> None: sys.exit(0)"
    )
    desk.park(aside("u1", 1))

    answer = desk("run", "leaving", "u1u1", "--yes")

    assert answer.code == 1
    assert "u1: SystemExit: 0 ended its service" in answer.err
    assert "error: this is not done: the code that it ran called sys.exit(0)" in answer.err
    assert desk.ids == ["u1u1"]


def test_what_modules_and_services_print_is_no_part_of_the_json_document(desk: Desk) -> None:
    (desk.doubtless.folder / "chatting.py").write_text(
        "from triggers import trigger\nprint('imported')\n"
        "@trigger('orders', name='book')\ndef chat(body: object) -> None: print('running')"
    )
    desk.park(aside("u1", 1))

    answer = desk("run", "chatting", "u1u1", "--yes", "--json")

    assert [one["closed"] for one in answer.json] == [True]
    assert answer.err.splitlines() == ["imported", "running"]


@pytest.mark.parametrize("service", ["book", "ship"])
def test_many_messages_are_run_over_the_same_connections(
    doubtless: InProcess, private_redis: RedisServer, service: str
) -> None:
    store = needed_beside(open_history(private_redis.url), "history", "parked messages")
    park(store, *(aside(f"u{number}", f"N-{number}", trigger_name=service) for number in range(20)))
    drive(store.close())
    with connected(private_redis.url) as client:
        before = client.info("stats")["total_connections_received"]

        answer = doubtless("parked", "run", "shop", "-t", service, "--yes", "--history", private_redis.url)

        made = client.info("stats")["total_connections_received"] - before
    assert (answer.code, answer.out.count(": closed: ")) == (0, 20)
    assert made < 10


@pytest.mark.parametrize("own", [False, True], ids=["history of the consumer", "its own history"])
def test_a_lot_apart_is_not_taken_for_the_history_of_what_runs(doubtless: InProcess, *, own: bool) -> None:
    history, lot = (f"sqlite:///{doubtless.folder}/{name}.db" for name in ("history", "lot"))
    named = f", history={history!r}" if own else ""
    (doubtless.folder / "apart_shop.py").write_text(
        "from triggers import Message, trigger\n"
        f"@trigger('orders', name='book', parking={lot!r}{named})\n"
        "def book(message: Message) -> None: open('done.txt', 'a').write(f'{message.uuid}\\n')\n"
    )
    entries, parked = open_history(history), open_history(lot)
    drive(entries.complete("book", "u1", start(entries, "u1").fence))  # after it was parked
    park(parked, aside("u1", 1))

    answer = doubtless("parked", "run", "apart_shop", "-t", "book", "--yes", "--history", lot)

    assert done(doubtless) == []
    assert ids_in(parked) == ([] if own else ["u1u1"])
    assert ("--history: book parks there" in answer.err) is not own
    for store in (entries, parked):
        drive(store.close())
