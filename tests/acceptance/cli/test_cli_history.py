"""``doubtless history`` and ``why`` show the entries, and their effect on the next delivery."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from history import EntryOutcome, Message, Parked, ParkedKind
from history.beside.kept import KeepsBeside
from history.bridge import drive
from tests.acceptance.in_process import InProcess
from tests.fixtures.waiting import eventually
from triggers import trigger


@pytest.fixture
def history(redis_url: str, store: KeepsBeside) -> str:
    """A history of "book": u1 is STARTED, u2 COMPLETED ok, u3 COMPLETED failed, u4 only parked."""
    claims = drive(store.claim("book", ["u1", "u2", "u3"], "owner-1"))
    drive(store.complete("book", "u2", claims[1].fence))
    drive(store.complete("book", "u3", claims[2].fence, EntryOutcome.FAILED))
    message = Message(body="{}", uuid="u4")
    parked = Parked(
        id="abc123", trigger_name="book", kind=ParkedKind.REJECTED, reason="row 1", uuid="u4", message=message
    )
    drive(store.parking.park([parked]))
    return redis_url


def test_stats_counts_what_each_trigger_remembers_one_line_a_row(doubtless: InProcess, history: str) -> None:
    answer = doubtless("history", "stats", DOUBTLESS_HISTORY=history)
    as_json = doubtless("history", "stats", "--json", "--history", "env:WHERE_IT_IS", WHERE_IT_IS=history)

    assert (answer.code, as_json.code) == (0, 0)
    assert answer.out == "trigger  started  completed  parked\nbook     1        2          1\n"
    assert as_json.json == [{"trigger": "book", "started": 1, "completed": 2, "parked": 1}]


def test_a_terminal_gets_a_frame(doubtless: InProcess, history: str) -> None:
    ours, theirs = os.openpty()

    process = doubtless.start("history", "stats", "--history", history, stdout=theirs)
    os.close(theirs)
    with process, open(ours, "rb", buffering=0) as terminal:  # noqa: PTH123  (a file descriptor has no path)
        shown = terminal.read(4096).decode()
        eventually(lambda: process.poll() is not None)

    assert process.returncode == 0
    assert "document history" in shown
    assert "\u250f" in shown


def test_show_lists_entries_and_finds_one_by_its_uuid(doubtless: InProcess, history: str) -> None:
    every = doubtless("--json", "history", "show", "--history", history)
    one = doubtless("--json", "history", "show", "u1", "--history", history)

    states = sorted(entry["state"] for entry in every.json)
    assert states == ["COMPLETED failed", "COMPLETED ok", "STARTED"]
    (entry,) = one.json
    assert (entry["trigger"], entry["state"], entry["owner"]) == ("book", "STARTED", "owner-1")
    assert entry in every.json


def test_show_of_an_unknown_uuid_is_exit_code_1(doubtless: InProcess, history: str) -> None:
    answer = doubtless("history", "show", "u9", "-t", "book", "--history", history)

    assert (answer.code, answer.out) == (1, "")
    assert answer.err == "there is no entry of u9\n"


@pytest.mark.parametrize(
    ("uuid", "options", "told"),
    [
        (
            "u1",
            [],
            [
                "history: STARTED",
                "owner owner-1",
                "next delivery: IN DOUBT: an earlier run did not finish; parked (row 10)",
            ],
        ),
        ("u1", ["--resolver"], ["the resolver decides (row 11)"]),
        (
            "u2",
            [],
            [
                "history: COMPLETED ok, started at about ",
                "next delivery: DUPLICATE: it already ran; not run again (row 8)",
            ],
        ),
        ("u3", [], ["history: COMPLETED failed", "given up; not run again (row 24)"]),
        ("u3", ["--transacted"], ["REJECTED: it failed with a fatal error", "; parked (row 9)"]),
        ("u4", [], ["history: no entry", "parked abc123 (rejected): row 1", "its service runs (row 7)"]),
    ],
)
def test_why_explains_in_the_words_of_the_decision_table(
    doubtless: InProcess, history: str, uuid: str, options: list[str], told: list[str]
) -> None:
    answer = doubtless("why", uuid, *options, "--history", history)

    assert answer.code == 0
    assert answer.out.startswith(f"book: {uuid}\n")
    for part in told:
        assert part in answer.out


def test_why_knows_the_settings_of_a_module(doubtless: InProcess, history: str) -> None:
    (doubtless.folder / "mine.py").write_text(
        "from triggers import trigger\n"
        "@trigger('orders', name='book', resolver=lambda uuid, trigger_name, message: 'NEW')\n"
        "def book(body: bytes) -> None: ..."
    )

    answer = doubtless("why", "u1", "--module", "mine", "--history", history, "--json")

    assert answer.json[0]["next"].endswith("(row 11)")


def test_why_knows_that_a_trigger_of_a_module_has_no_history(doubtless: InProcess, history: str) -> None:
    (doubtless.folder / "mine.py").write_text(
        "from triggers import trigger\n"
        "@trigger('orders', name='book', history=None)\n"
        "def book(body: bytes) -> None: ..."
    )

    answer = doubtless("why", "u1", "--module", "mine", "--history", history, "--json")

    assert answer.json[0]["next"].endswith("(row 3)")


def test_why_shows_the_lines_of_the_journal(doubtless: InProcess, redis_url: str) -> None:
    with closing(trigger("orders", name="book", history=redis_url, journal=True)(_book)) as book:
        for _ in range(2):
            book.handle(Message(body="{}", uuid="u1"))

    answer = doubtless("why", "u1", "--history", redis_url)
    as_json = doubtless("why", "u1", "--history", redis_url, "--json")

    assert " duplicate: it already ran; not run again (row 8)" in answer.out
    (line,) = as_json.json[0]["journal"]
    assert line["verdict"] == "duplicate"


def _book(body: bytes) -> None: ...


def test_why_of_an_unknown_uuid_says_what_its_next_delivery_would_be(
    doubtless: InProcess, history: str
) -> None:
    answer = doubtless("why", "u9", "--history", history)
    as_json = doubtless("why", "u9", "--json", "--history", history)

    assert (answer.code, as_json.code, as_json.json) == (1, 1, [])
    assert answer.out.startswith("nothing is known of u9; next delivery: NEW: not seen before")
    assert "its service runs (row 7)" in answer.out


def test_forget_makes_a_uuid_new_again(doubtless: InProcess, history: str, store: KeepsBeside) -> None:
    answer = doubtless("history", "forget", "u2", "-t", "book", "--yes", "--json", "--history", history)

    assert (answer.code, answer.json) == (0, {"trigger": "book", "uuid": "u2", "forgotten": True})
    assert drive(store.lookup("book", ["u2"])) == [None]


@pytest.mark.parametrize(
    ("typed", "code", "told"),
    [
        ("y\n", 0, "u2 is COMPLETED ok, started at about "),
        ("n\n", 1, "error: aborted"),
        ("", 2, "error: --yes: is missing, and nobody can answer the question"),
    ],
)
def test_forget_asks_first(
    doubtless: InProcess, history: str, store: KeepsBeside, typed: str, code: int, told: str
) -> None:
    answer = doubtless("history", "forget", "u2", "-t", "book", "--history", history, stdin=typed)

    assert answer.code == code
    assert told in answer.err
    assert (drive(store.lookup("book", ["u2"])) == [None]) is (code == 0)


def test_forget_lets_a_uuid_come_again_with_another_body(
    doubtless: InProcess, history: str, store: KeepsBeside
) -> None:
    words = ("history", "forget", "u1", "-t", "compare", "--yes", "--history", history)
    ran: list[object] = []
    compare = trigger("orders", name="compare", history=store, fingerprint="body")(compared(ran))
    compare.handle(Message(body="one", uuid="u1"))
    other = Message(body="two", uuid="u1")
    assert compare.handle(other).row == 23

    answers = [doubtless(*words) for _ in range(2)]
    assert [(one.code, one.out) for one in answers] == [(0, "forgotten\n"), (1, "there is no entry of u1\n")]

    assert compare.handle(other).executed
    assert ran == ["one", "two"]


def compared(ran: list[object]) -> Callable[[Message], None]:
    def service(message: Message) -> None:
        ran.append(message.body)

    return service


def test_purge_counts_what_it_deleted(doubtless: InProcess, history: str) -> None:
    answer = doubtless("history", "purge", "--json", "--history", history)

    assert (answer.code, answer.json) == (0, [{"trigger": "book", "deleted": 0}])


def test_an_empty_history_is_said_to_be_empty(doubtless: InProcess, redis_url: str) -> None:
    answer = doubtless("history", "stats", "--history", redis_url)

    assert (answer.code, answer.out, answer.err) == (0, "", "the history is empty\n")


def test_what_looks_like_markup_or_moves_the_cursor_is_shown_as_text(
    doubtless: InProcess, redis_url: str, store: KeepsBeside
) -> None:
    uuid = "[red]u[/] :smile: \x1b[31m\x9b\n\u202e"
    drive(store.claim("[bold]book", [uuid], "[/nope]"))

    plain = doubtless("why", uuid, "--history", redis_url)
    data = doubtless("why", uuid, "--history", redis_url, "--json")

    assert plain.out.splitlines()[0] == r"[bold]book: [red]u[/] :smile: \x1b[31m\x9b\n\u202e"
    assert "owner [/nope]" in plain.out
    assert data.out.isascii()
    assert data.json[0]["uuid"] == uuid


def test_output_that_the_terminal_cannot_show_is_escaped(
    doubtless: InProcess, redis_url: str, store: KeepsBeside
) -> None:
    drive(store.claim("Köln", ["u1"], "owner"))

    plain = doubtless.process("history", "stats", "--history", redis_url, PYTHONIOENCODING="ascii")
    data = doubtless.process("history", "stats", "--history", redis_url, "--json", PYTHONIOENCODING="ascii")

    assert r"K\xf6ln" in plain.out
    assert data.json[0]["trigger"] == "Köln"


def test_a_reader_that_has_seen_enough_gets_no_traceback(
    doubtless: InProcess, redis_url: str, store: KeepsBeside
) -> None:
    drive(store.claim("book", [f"u{number}" for number in range(2000)], "owner"))
    words = ["history", "show", "--limit", "2000", "--json", "--history", redis_url]

    process = doubtless.start(*words)
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        process.stdout.close()
        process.stdin.close()
        assert process.stderr is not None
        told = process.stderr.read()

    assert (process.returncode, told) == (1, "")


def test_what_another_system_has_processed_is_a_duplicate(
    doubtless: InProcess, redis_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "history.csv"
    file.write_bytes(b"uuid,status\norder-1,completed\norder-2,processing\n\xff,completed\n")

    answer = doubtless("history", "import", str(file), "-t", "book", "--json", "--history", redis_url)

    assert (answer.code, len(answer.err.splitlines())) == (1, 1)
    assert answer.json == [
        {"trigger": "book", "completed": 1, "failed": 0, "started": 1, "known": 0, "expired": 0}
    ]
    book = trigger("orders", name="book", history=redis_url)(print)
    outcomes = [book.handle(Message(uuid=f"order-{number}", body="")) for number in range(1, 4)]
    assert [str(outcome.status) for outcome in outcomes] == ["DUPLICATE", "IN_DOUBT", "NEW"]


def test_a_dry_run_of_an_import_makes_no_file(doubtless: InProcess, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'history.db'}"
    words = ["history", "import", "-", "-t", "book", "--dry-run", "--json", "--history", url]

    answer = doubtless(*words, stdin="uuid\norder-1\n")

    assert (answer.code, answer.json[0]["completed"]) == (0, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_of_an_import_leaves_an_empty_file_as_it_is(doubtless: InProcess, tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    file.touch()
    words = ["history", "import", "-", "-t", "book", "--dry-run", "--json", "--history", f"sqlite:///{file}"]

    answer = doubtless(*words, stdin="uuid\norder-1\n")

    assert (answer.code, answer.json[0]["completed"]) == (0, 1)
    assert file.stat().st_size == 0


def test_an_import_of_a_file_that_is_not_there_is_refused(doubtless: InProcess, redis_url: str) -> None:
    answer = doubtless("history", "import", "no.csv", "-t", "book", "--history", redis_url)

    assert answer.code == 2
    assert answer.err.startswith("error: FILE: no.csv: ")


def test_standard_input_is_imported_as_a_file_is(doubtless: InProcess, redis_url: str) -> None:
    lines = "uuid\norder-1\n"

    answer = doubtless("history", "import", "-", "-t", "book", "--json", "--history", redis_url, stdin=lines)

    assert (answer.code, answer.json[0]["completed"]) == (0, 1)
