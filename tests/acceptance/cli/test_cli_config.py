"""``doubtless.toml`` and the environment, as every command reads them; and ``doubtless config show``."""

from pathlib import Path

import pytest

from tests.acceptance.in_process import InProcess

#: A service that fails transiently, and notes each of its runs.
SERVICE = """
from pathlib import Path
from triggers import Message, trigger

@trigger("orders", name="book-order")
def book(message: Message) -> None:
    with Path("runs.txt").open("a") as runs:
        runs.write(f"{message.uuid}\\n")
    raise ConnectionError("away")
"""

CONFIGURATION = """
provider = "sqlite:///messages.db"
history = "sqlite:///history.db"

[triggers.book-order]
retry = { max_attempts = 2, interval = 0 }
"""

LINE = '{"headers": {"uuid": "order-1"}, "body": 1}\n'


@pytest.fixture
def service(doubtless: InProcess) -> Path:
    (doubtless.folder / "service.py").write_text(SERVICE)
    (doubtless.folder / "doubtless.toml").write_text(CONFIGURATION)
    return doubtless.folder


def test_commands_find_provider_and_history_and_triggers_their_settings_in_the_file(
    doubtless: InProcess, service: Path
) -> None:
    sent = doubtless("send", "orders", "-", stdin=LINE)
    ran = doubtless("run", "service", "--until-idle", "0.1", "--json")
    parked = doubtless("parked", "list", "--json")

    assert (sent.code, sent.err) == (0, "")
    assert ran.json == [{"trigger": "book-order", "messages": 1, "failed": 1}]
    assert (service / "runs.txt").read_text() == "order-1\n" * 3
    assert [row["uuid"] for row in parked.json] == ["order-1"]
    assert (service / "messages.db").exists()
    assert (service / "history.db").exists()
    assert not (service / "doubtless.sqlite3").exists()


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(
    doubtless: InProcess, service: Path
) -> None:
    variables = {"DOUBTLESS_HISTORY": "sqlite:///variable.db", "DOUBTLESS_LOG_FORMAT": "json"}
    words = ("config", "show", "service", "--json")

    shown = doubtless(*words, "--provider", "sqlite:///option.db", **variables)

    rows = {row["setting"]: (row["value"], row["from"]) for row in shown.json}
    assert rows["provider"] == ("sqlite:///option.db", "--provider")
    assert rows["history"] == ("sqlite:///variable.db", "DOUBTLESS_HISTORY")
    assert (rows["log_format"], rows["metrics"]) == (("json", "DOUBTLESS_LOG_FORMAT"), (None, "default"))
    assert rows["book-order: retry.max_attempts"] == (
        2,
        "doubtless.toml, triggers.book-order.retry.max_attempts",
    )
    assert (rows["book-order: retry.interval"][0], rows["book-order: lease"]) == ("0s", ("30s", "the code"))
    assert shown.err == "doubtless.toml was read\n"


@pytest.mark.parametrize("source", ["file", "environment"])
def test_defaults_alone_reach_the_triggers_of_a_module(
    doubtless: InProcess, service: Path, source: str
) -> None:
    before, _, _ = CONFIGURATION.partition("[triggers")
    table = "[defaults]\nretry = { max_attempts = 1, interval = 0 }\n" if source == "file" else ""
    (service / "doubtless.toml").write_text(before + table)
    retry = "DOUBTLESS_DEFAULTS__RETRY__"
    variables = {} if source == "file" else {f"{retry}MAX_ATTEMPTS": "1", f"{retry}INTERVAL": "0"}
    doubtless("send", "orders", "-", stdin=LINE)

    doubtless("run", "service", "--until-idle", "0.1", **variables)

    assert (service / "runs.txt").read_text() == "order-1\n" * 2
    shown = doubtless("config", "show", "service", "--json", **variables)
    rows = {row["setting"]: row["value"] for row in shown.json}
    assert rows["book-order: retry.max_attempts"] == 1


def test_a_journal_that_is_configured_is_written_shown_and_found(doubtless: InProcess, service: Path) -> None:
    (service / "doubtless.toml").write_text('journal = "sqlite:///journal.db"\n' + CONFIGURATION)
    doubtless("send", "orders", "-", stdin=LINE)
    doubtless("run", "service", "--until-idle", "0.1")

    why = doubtless("why", "order-1")
    shown = doubtless("config", "show", "service", "--json")
    other = doubtless("config", "show", "--json", DOUBTLESS_JOURNAL="redis://me:hunter2@h/0")

    assert "given up: " in why.out
    assert "the journal of book-order was read at sqlite:///journal.db\n" in why.err
    assert (service / "journal.db").exists()
    rows = {row["setting"]: (row["value"], row["from"]) for row in shown.json}
    assert rows["journal"] == ("sqlite:///journal.db", "doubtless.toml, journal")
    assert rows["book-order: journal"] == rows["journal"]
    assert {"setting": "journal", "value": "redis://***@h/0", "from": "DOUBTLESS_JOURNAL"} in other.json


def test_why_says_which_journal_it_could_not_read(doubtless: InProcess, service: Path) -> None:
    doubtless("send", "orders", "-", stdin=LINE)
    doubtless("run", "service", "--until-idle", "0.1")

    why = doubtless("why", "order-1", DOUBTLESS_TRIGGERS__BOOK_ORDER__JOURNAL="sqlite:///none.db")

    assert why.code == 0
    assert (
        "the journal of book-order at sqlite:///none.db cannot be read: there is no file none.db" in why.err
    )
    assert "history: " in why.out


@pytest.mark.parametrize("where", ["before", "after", "variable"])
def test_another_file_is_named_before_or_after_the_command_or_by_a_variable(
    doubtless: InProcess, service: Path, where: str
) -> None:
    (service / "other.toml").write_text(
        'history = "sqlite:///other.db"\nsinks = ["https://h.example/hunter2"]'
    )
    config = ["--config", "other.toml"]
    words = ["config", "show", "--json"]

    match where:
        case "before":
            shown = doubtless(*config, *words)
        case "after":
            shown = doubtless(*words, *config, DOUBTLESS_CONFIG="none.toml")
        case _:
            shown = doubtless(*words, DOUBTLESS_CONFIG="other.toml")

    rows = {row["setting"]: (row["value"], row["from"]) for row in shown.json}
    assert rows["history"] == ("sqlite:///other.db", "other.toml, history")
    assert rows["sinks"] == (["https://h.example/***"], "other.toml, sinks")
    assert "hunter2" not in shown.out


@pytest.mark.parametrize(
    "words",
    [
        ["run", "service"],
        ["doctor", "service"],
        ["guarantees", "service"],
        ["why", "order-1", "--module", "service"],
        ["parked", "run", "service", "1"],
        ["dashboard", "service", "--port", "0"],
        ["config", "show", "service"],
    ],
    ids=" ".join,
)
def test_every_command_that_knows_the_triggers_refuses_settings_of_another(
    doubtless: InProcess, service: Path, words: list[str]
) -> None:
    (service / "doubtless.toml").write_text(CONFIGURATION.replace("book-order", "bok-order"))

    answer = doubtless(*words)

    assert answer.code == 2
    assert (
        answer.error == "error: doubtless.toml, triggers.bok-order: there is no such trigger here; "
        "did you mean book-order?"
    )


@pytest.mark.parametrize("words", [["history", "stats"], ["send", "q", "-"], ["status"]], ids=" ".join)
def test_every_command_refuses_a_file_that_it_does_not_understand(
    doubtless: InProcess, service: Path, words: list[str]
) -> None:
    (service / "doubtless.toml").write_text('histroy = "redis://:hunter2@h"')

    answer = doubtless(*words)

    assert answer.code == 2
    assert answer.error == "error: doubtless.toml, histroy: there is no such key; did you mean history?"


@pytest.mark.parametrize("how", ["file", "variable"])
def test_what_a_command_cannot_use_is_told_with_who_said_it(doubtless: InProcess, how: str) -> None:
    url = "redsi://:hunter2@h"
    (doubtless.folder / "doubtless.toml").write_text(f"history = {url!r}" if how == "file" else "")

    answer = doubtless("history", "stats", **({"DOUBTLESS_HISTORY": url} if how == "variable" else {}))

    origin = "doubtless.toml, history" if how == "file" else "DOUBTLESS_HISTORY"
    assert answer.code == 2
    assert answer.error.startswith(f"error: {origin}: unknown URL scheme 'redsi'; use redis://")
    assert "hunter2" not in answer.error


def test_what_is_configured_is_what_is_looked_at(doubtless: InProcess, service: Path) -> None:
    with (service / "doubtless.toml").open("a") as file:
        file.write('redelivery_horizon = "30d"\nmax_delivery_count = 5\n')
    doubtless("send", "orders", "-", stdin=LINE)

    found = doubtless("doctor", "service", "--json")
    shown = doubtless("config", "show", "service", "--json").json

    assert "copies may come for 30 days, 0:00:00, and are forgotten after 7 days, 0:00:00" in found.out
    assert ("book-order: max_delivery_count", 5) in [(row["setting"], row["value"]) for row in shown]


def test_sinks_are_replaced_and_never_added_to(doubtless: InProcess, service: Path) -> None:
    (service / "doubtless.toml").write_text('sinks = ["log:", "dead-letter:lost"]')

    shown = [
        next(row["value"] for row in answer.json if row["setting"] == "sinks")
        for answer in (
            doubtless("config", "show", "--json"),
            doubtless("config", "show", "--json", DOUBTLESS_SINKS="dead-letter:a dead-letter:b"),
            doubtless("config", "show", "--json", "--sink", "log:", DOUBTLESS_SINKS="dead-letter:a"),
        )
    ]

    assert shown == [["log:", "dead-letter:lost"], ["dead-letter:a", "dead-letter:b"], ["log:"]]


#: A Patch Bay with one input. The test fills in its history.
WIRING = """
[patchbay]
{history}

[providers.shop]
url = "sqlite:///messages.db"

[[sink]]
name = "fulfilment"
component = "counter:fulfil"
[[sink.input]]
port = "orders"
from = ["orders"]
"""


def test_a_patch_bay_takes_its_history_from_its_wiring_else_from_the_file(doubtless: InProcess) -> None:
    (doubtless.folder / "counter.py").write_text("def fulfil(port: str, body: str) -> None: ...\n")
    (doubtless.folder / "doubtless.toml").write_text('history = "sqlite:///configured.db"')
    for name, history in (("bay", ""), ("own", 'history = "sqlite:///own.db"')):
        (doubtless.folder / f"{name}.toml").write_text(WIRING.format(history=history))

    ran = [doubtless("patchbay", "run", f"{name}.toml", "--until-idle", "0.1") for name in ("bay", "own")]

    assert [answer.code for answer in ran] == [0, 0]
    assert sorted(file.name for file in doubtless.folder.glob("*.db")) == [
        "configured.db",
        "messages.db",
        "own.db",
    ]


def test_a_file_that_was_named_and_is_not_there_is_refused(doubtless: InProcess) -> None:
    answer = doubtless("history", "stats", "--config", "none.toml")

    assert (answer.code, answer.error) == (
        2,
        "error: --config: there is no file none.toml; give one that is there",
    )


@pytest.mark.prove
def test_each_process_of_a_run_reads_the_file_that_was_named(doubtless: InProcess, service: Path) -> None:
    (service / "doubtless.toml").rename(service / "other.toml")
    config = ("--config", "other.toml")
    doubtless("send", "orders", "-", *config, stdin=LINE)
    doubtless("doctor", "service", *config)  # makes the tables before two processes need them

    ran = doubtless.process(*config, "run", "service", "--processes", "2", "--until-idle", "0.1")

    assert ran.code == 0
    assert (service / "runs.txt").read_text() == "order-1\n" * 3
    assert not (service / "doubtless.sqlite3").exists()


def test_what_is_shown_names_variables_that_are_a_slip_of_the_pen(doubtless: InProcess) -> None:
    shown = doubtless("config", "show", DOUBTLESS_HISTROY="redis://h", DOUBTLESS_SERVICE_HOST="10.0.0.1")

    assert shown.code == 0
    assert shown.err == (
        "there is no doubtless.toml in this folder\n"
        "the variable DOUBTLESS_HISTROY is none of ours; DOUBTLESS_HISTORY is\n"
    )
