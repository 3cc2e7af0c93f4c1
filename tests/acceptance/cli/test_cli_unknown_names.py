"""Each filter of each command refuses an unknown name, and lists the known names."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from history import Evidence, Message, Parked, ParkedKind, open_history
from history.bridge import drive
from history.store import HistoryStore, Report
from tests.acceptance.in_process import InProcess
from tests.fixtures.histories import with_store
from triggers import send, trigger

#: Each command that takes the name of a trigger, with a misspelt name.
TYPOS = [
    ["parked", "list", "-t", "book-ordr"],
    ["parked", "list", "-t", "book-ordr", "--kind", "in-doubt"],
    ["parked", "done", "-t", "book-ordr", "-y"],
    ["parked", "discard", "-t", "book-ordr", "--dry-run"],
    ["parked", "run", "shop", "-t", "book-ordr", "-y"],
    ["parked", "decisions", "-t", "book-ordr"],
    ["history", "show", "-t", "book-ordr"],
    ["history", "show", "u1", "-t", "book-ordr"],
    ["history", "stats", "-t", "book-ordr"],
    ["history", "purge", "-t", "book-ordr"],
    ["history", "forget", "u1", "-t", "book-ordr", "-y"],
    ["why", "u1", "-t", "book-ordr"],
    ["why", "u1", "-t", "book-ordr", "--module", "shop"],
    ["status", "-t", "book-ordr"],
    ["statistics", "-t", "book-ordr"],
    ["statistics", "-t", "book-ordr", "--clear"],
    ["suspend", "book-ordr", "--wait", "0"],
    ["suspend", "book-order", "book-ordr", "--wait", "0"],
    ["resume", "book-ordr", "--wait", "0"],
]

#: Some commands have their own words if a known trigger has no data.
NOTHING = [
    (["parked", "list", "-t", "ship"], 0, "nothing is parked\n"),
    (["parked", "list", "-t", "ship", "--kind", "in-doubt"], 0, "no parked message matches\n"),
    (["parked", "done", "-t", "ship", "-y"], 0, "nothing is parked\n"),
    (["parked", "decisions", "-t", "ship"], 0, "nothing was decided\n"),
    (["history", "show", "u9", "-t", "ship"], 1, "there is no entry of u9\n"),
    (["why", "u9", "-t", "ship"], 1, ""),
    (["statistics", "-t", "ship"], 1, "nothing was counted\n"),
]


@pytest.fixture
def history(doubtless: InProcess) -> str:
    """A history in a file, with a parked message of one trigger and none of another."""
    url = f"sqlite:///{doubtless.folder}/history.db"
    store = open_history(url)
    drive(store.claim("book-order", ["u1"], "host-1:42:x"))
    drive(store.claim("ship", ["u1"], "host-1:42:y"))
    drive(store.parking.park([aside("book-order", "u1")]))
    drive(store.control.beat("token", [Report(consumer="host-1", trigger="book-order")]))
    drive(store.close())
    return url


def aside(name: str, uuid: str) -> Parked:
    return Parked(
        id=uuid * 2,
        trigger_name=name,
        kind=ParkedKind.IN_DOUBT,
        reason="row 10",
        uuid=uuid,
        message=Message(body="{}", uuid=uuid),
        evidence=Evidence(owner="host-1:42:x", fence=1),
        parked_at=datetime.now(UTC),
    )


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[tuple[str, HistoryStore]]:
    """A history without any records."""
    url = f"sqlite:///{tmp_path}/empty.db"
    store = open_history(url)
    drive(store.lookup("-", ["-"]))
    (tmp_path / "empty.db").touch()
    yield url, store
    drive(store.close())


@pytest.mark.parametrize("words", TYPOS, ids=" ".join)
def test_an_unknown_trigger_is_refused_with_the_known_ones(
    doubtless: InProcess, history: str, words: list[str]
) -> None:
    answer = doubtless(*words, "--history", history)

    assert (answer.code, answer.out) == (2, "")
    assert "there is no trigger 'book-ordr'; did you mean book-order? known: " in answer.error
    assert "ship" in answer.error


@pytest.mark.parametrize(("words", "code", "told"), NOTHING, ids=str)
def test_a_known_trigger_of_which_there_is_nothing_is_not_refused(
    doubtless: InProcess, history: str, words: list[str], code: int, told: str
) -> None:
    answer = doubtless(*words, "--history", history)

    assert (answer.code, answer.err) == (code, told)


@pytest.mark.parametrize("words", TYPOS, ids=" ".join)
def test_a_history_in_which_nothing_was_recorded_refuses_no_name(
    doubtless: InProcess, empty: tuple[str, HistoryStore], words: list[str]
) -> None:
    answer = doubtless(*words, "--history", empty[0])

    assert answer.code in {0, 1}
    assert "there is no trigger" not in answer.err


def test_a_trigger_of_a_module_is_known_before_it_has_run(doubtless: InProcess, history: str) -> None:
    (doubtless.folder / "mine.py").write_text(
        "from triggers import trigger\n@trigger('orders', name='bill')\ndef bill(body: bytes) -> None: ..."
    )

    known = doubtless("why", "u1", "-t", "bill", "--module", "mine", "--history", history)
    unknown = doubtless("why", "u1", "-t", "bill", "--history", history)

    assert (known.code, known.err) == (1, "")
    assert unknown.error.startswith("error: --trigger: there is no trigger 'bill'; ")


def test_a_trigger_that_has_only_parked_messages_or_a_journal_is_known(
    doubtless: InProcess, history: str, tmp_path: Path
) -> None:
    with_store(history, lambda store: store.parking.park([aside("of-a-guard", "u2")]))
    elsewhere = f"sqlite:///{tmp_path}/journal.db"

    @trigger("orders", name="told", history=elsewhere, journal=elsewhere)
    def told(body: bytes) -> None: ...

    for _ in range(2):
        told.handle(Message(body="{}", uuid="u3"))
    told.close()

    parked = doubtless("history", "show", "-t", "of-a-guard", "--history", history)
    typo = doubtless("parked", "list", "-t", "of-a-gard", "--history", history)
    journal = doubtless("why", "u9", "-t", "told", "--journal", elsewhere, "--history", history)

    assert (parked.code, parked.err) == (1, "there is no entry\n")
    assert "did you mean of-a-guard?" in typo.error
    assert journal.code == 1


def test_a_slip_of_the_pen_clears_and_changes_nothing(doubtless: InProcess, history: str) -> None:
    doubtless("statistics", "-t", "book-ordr", "--clear", "--history", history)
    doubtless("suspend", "ship", "book-ordr", "--wait", "0", "--history", history)

    overview = with_store(history, lambda store: store.control.overview())
    assert not overview.orders


def test_a_check_reads_no_entries(
    doubtless: InProcess, history: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = history.removeprefix("sqlite:///")
    with sqlite3.connect(file) as database:
        plan = database.execute("SELECT COUNT(*) FROM doubtless_history WHERE trigger_name > ''").fetchone()
    assert plan == (2,)

    def refused(*_: object, **__: object) -> object:
        raise AssertionError("a check looks through the entries")

    monkeypatch.setattr("history.sql.history.SqlHistory.scan", refused)
    monkeypatch.setattr("history.sql.history.SqlHistory.stats", refused)

    assert doubtless("parked", "list", "-t", "book-ordr", "--history", history).code == 2


def test_nobody_keeps_a_list_of_hosts_so_those_with_parked_messages_are_named(
    doubtless: InProcess, history: str
) -> None:
    listed = doubtless("parked", "list", "--host", "host-2", "--history", history)
    decided = doubtless("parked", "done", "--host", "host-2", "-y", "--history", history)

    told = "no parked message matches; hosts with parked messages: host-1\n"
    assert (listed.code, listed.err, decided.err) == (0, told, told)


def park_locally(doubtless: InProcess, trigger: str, uuid: str) -> None:
    file = Path(doubtless.environment["XDG_STATE_HOME"]) / "doubtless" / "parked.sqlite3"
    file.parent.mkdir(parents=True)
    with_store(f"sqlite:///{file}", lambda store: store.parking.park([aside(trigger, uuid)]))


def test_the_local_file_names_the_triggers_that_it_has(doubtless: InProcess) -> None:
    park_locally(doubtless, "book-order", "u1")

    answer = doubtless("parked", "list", "--local", "-t", "book-ordr")

    assert answer.code == 0
    assert answer.err == ("nothing is parked; triggers with parked messages in the local file: book-order\n")


@pytest.mark.parametrize(
    ("parked_of", "options", "known"),
    [("elsewhere", [], False), ("elsewhere", ["-t", "elsewhere"], False), ("book-order", [], True)],
)
def test_why_promises_nothing_about_a_trigger_of_another_history(
    doubtless: InProcess, *, parked_of: str, options: list[str], known: bool
) -> None:
    url = f"sqlite:///{doubtless.folder}/other.db"
    store = open_history(url)
    drive(store.claim("book-order", ["another"], "worker"))
    drive(store.close())
    park_locally(doubtless, parked_of, "u1")

    answer = doubtless("why", "u1", *options, "--history", url)
    (row,) = doubtless("--json", "why", "u1", *options, "--history", url).json

    assert answer.code == 0
    assert (row["trigger"], row["known"], len(row["parked"])) == (parked_of, known, 1)
    assert ("history: no entry" in answer.out, "its service runs" in row["next"]) == (known, known)


def test_an_unknown_topic_is_refused(doubtless: InProcess) -> None:
    url = f"sqlite:///{doubtless.folder}/messages.db"
    send("topic://prices", Message(body="{}", uuid="u1"), provider=url)

    known = doubtless("sqljms", "subscriptions", "topic://prices", "--provider", url)
    unknown = doubtless("sqljms", "subscriptions", "prizes", "--provider", url)

    assert (known.code, known.err) == (0, "there is none\n")
    assert unknown.error == "error: TOPIC: there is no topic 'prizes'; did you mean prices? known: prices"
