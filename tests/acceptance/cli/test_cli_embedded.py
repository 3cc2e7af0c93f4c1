"""The first ten minutes, without a server: messages and history are in one file of the folder."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from history.errors import ConfigurationError
from tests.acceptance.in_process import InProcess
from triggers.cli.shared.embedded import provider_or_file
from triggers.cli.shared.output import CliState

NOTE = "no provider is named: messages are in doubtless.sqlite3, in this folder"

#: A module with triggers that name no history.
SERVICE = """
from triggers import trigger

@trigger("orders", name="book")
def book(order: dict[str, object]) -> None:
    if order["id"] == "fails":
        raise ValueError("no")
"""

LINE = '{{"headers": {{"uuid": "{0}"}}, "body": {{"id": "{0}"}}}}\n'


def test_send_and_run_in_one_folder_find_each_other(doubtless: InProcess) -> None:
    (doubtless.folder / "first.py").write_text(SERVICE)
    lines = "".join(LINE.format(name) for name in ("a", "a", "fails"))

    sent = doubtless("send", "orders", "-", stdin=lines)
    ran = doubtless("run", "first", "--until-idle", "0.1", "--json")
    again = doubtless("send", "orders", "-", stdin=LINE.format("a"))
    copies = doubtless("run", "first", "--until-idle", "0.1", "--json")

    assert (sent.code, ran.code, again.code, copies.code) == (0, 0, 0, 0)
    assert NOTE in sent.err
    assert NOTE in ran.err
    assert ran.json == [{"trigger": "book", "messages": 3, "ok": 1, "duplicate": 1, "failed": 1}]
    assert copies.json == [{"trigger": "book", "messages": 1, "duplicate": 1}]
    assert (doubtless.folder / "doubtless.sqlite3").stat().st_mode & 0o077 == 0


def test_a_module_that_is_not_there_leaves_no_file_behind(doubtless: InProcess) -> None:
    before = sorted(doubtless.folder.iterdir())

    answer = doubtless("run", "frist", "--until-idle", "0.1")

    assert answer.code == 2
    assert "frist" in answer.err
    assert sorted(doubtless.folder.iterdir()) == before


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("history", ["mysql://localhost/orders", "localhost:6379", "sqlite://orders.db"])
def test_a_trigger_that_cannot_run_is_refused_before_it_is_called_running(
    doubtless: InProcess, history: str, kind: str
) -> None:
    declared = SERVICE.replace('name="book"', f'name="book", history="{history}"').replace("def", kind)
    (doubtless.folder / "first.py").write_text(declared)

    answer = doubtless("run", "first", "--until-idle", "0.1")

    assert (answer.code, answer.out) == (2, "")
    assert "(first.py, line " in answer.err


def test_a_component_that_cannot_run_is_refused_before_it_is_called_running(doubtless: InProcess) -> None:
    (doubtless.folder / "first.py").write_text(
        "from sqlalchemy import Connection\ndef book(message: dict, connection: Connection) -> None: ..."
    )
    (doubtless.folder / "bay.toml").write_text(
        '[patchbay]\nhistory = "memory://"\n[providers.shop]\nurl = "sqlite:///shop.db"\n'
        '[[sink]]\nname = "book"\ncomponent = "first:book"\n'
        '[[sink.input]]\nfrom = [{ destination = "orders" }]\n'
    )

    answer = doubtless("patchbay", "run", "bay.toml", "--until-idle", "0.1")

    assert (answer.code, answer.out) == (2, "")
    assert "Connection" in answer.err


def test_the_commands_that_look_into_a_history_find_it_too(doubtless: InProcess) -> None:
    (doubtless.folder / "first.py").write_text(SERVICE)
    doubtless("send", "orders", "-", stdin=LINE.format("fails"))
    doubtless("run", "first", "--until-idle", "0.1")

    parked = doubtless("parked", "list", "--json")
    why = doubtless("why", "fails")

    assert [row["uuid"] for row in parked.json] == ["fails"]
    assert "no history is named: looking into doubtless.sqlite3, in this folder" in parked.err
    assert "history: COMPLETED failed" in why.out


@pytest.mark.parametrize("uuid", ["plain", "two words", "$HOME `id` 'it'"], ids=["plain", "spaces", "shell"])
def test_the_next_command_of_a_log_line_can_be_typed(doubtless: InProcess, uuid: str) -> None:
    (doubtless.folder / "first.py").write_text(SERVICE)
    line = {"headers": {"uuid": uuid}, "body": {"id": "fails"}}
    doubtless("send", "orders", "-", stdin=json.dumps(line))

    ran = doubtless("run", "first", "--until-idle", "0.1")
    (command,) = re.findall(r"Next: doubtless (.+) \[trigger=book ", ran.err)
    why = doubtless(*shlex.split(command), "--json")

    assert [(row["trigger"], row["uuid"], len(row["parked"])) for row in why.json] == [("book", uuid, 1)]


@pytest.mark.parametrize("uuid", ["u" * 2000, "two\nlines"], ids=["long", "lines"])
def test_no_command_is_shown_for_a_uuid_that_the_log_does_not_show_whole(
    doubtless: InProcess, uuid: str
) -> None:
    (doubtless.folder / "first.py").write_text(SERVICE)
    line = {"headers": {"uuid": uuid}, "body": {"id": "fails"}}
    doubtless("send", "orders", "-", stdin=json.dumps(line))

    ran = doubtless("run", "first", "--until-idle", "0.1")

    assert "FAILED" in ran.err
    assert "Next: " not in ran.err


def test_a_parked_message_runs_again_in_the_history_of_the_file(doubtless: InProcess) -> None:
    (doubtless.folder / "first.py").write_text(SERVICE)
    doubtless("send", "orders", "-", stdin=LINE.format("fails"))
    doubtless("run", "first", "--until-idle", "0.1")

    failed = doubtless("parked", "run", "first", "--trigger", "book", "--yes", "--json")
    (doubtless.folder / "first.py").write_text(SERVICE.replace("fails", "another"))
    ran = doubtless("parked", "run", "first", "--trigger", "book", "--yes", "--json")

    assert [(row["uuid"], row["executed"], row["closed"]) for row in failed.json] == [("fails", True, False)]
    assert [(row["uuid"], row["executed"], row["closed"]) for row in ran.json] == [("fails", True, True)]
    assert (failed.code, ran.code) == (1, 0)


def test_the_commands_that_look_into_the_messages_find_it_too(doubtless: InProcess) -> None:
    (doubtless.folder / "first.py").write_text(SERVICE)
    doubtless("send", "orders", "-", stdin=LINE.format("a"))

    answers = [
        doubtless("sqljms", "topics", "--json"),
        doubtless("sqljms", "limbo", "list", "--json"),
        doubtless("backlog", "first", "--json"),
    ]

    found = "no provider is named: looking into doubtless.sqlite3, in this folder"
    assert all(found in answer.err for answer in answers)
    topics, limbo, waiting = (answer.json for answer in answers)
    assert [(row["name"], row["messages"]) for row in topics] == [("orders", 1)]
    assert (limbo, waiting[0]["waiting"]) == ([], 1)


@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_provider_that_is_named_replaces_it_and_brings_no_history_in_a_file(
    doubtless: InProcess, redis_url: str, how: str
) -> None:
    (doubtless.folder / "first.py").write_text(SERVICE)
    words, settings = (
        (["--provider", redis_url], {}) if how == "option" else ([], {"DOUBTLESS_PROVIDER": redis_url})
    )

    sent = doubtless("send", "orders", "-", *words, stdin=LINE.format("a"), **settings)
    ran = doubtless("run", "first", *words, "--until-idle", "0.1", **settings)

    assert (sent.code, ran.code) == (0, 2)
    assert "history" in ran.error
    assert not (doubtless.folder / "doubtless.sqlite3").exists()


def test_a_folder_in_which_no_file_can_be_made_is_an_error_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()

    with pytest.raises(ConfigurationError) as refused:
        provider_or_file(None, CliState())

    assert str(refused.value) == (
        "--provider: is missing, and doubtless.sqlite3 cannot be made in this folder (No such file or "
        "directory); name one, or start in a folder of yours"
    )


def test_doctor_does_not_promise_a_file_that_cannot_be_made(doubtless: InProcess) -> None:
    (doubtless.folder / "first.py").write_text(SERVICE)
    doubtless.folder.chmod(0o500)
    if os.access(doubtless.folder, os.W_OK):
        pytest.skip("root may write everywhere")

    found = doubtless("doctor", "first", "--json")

    assert found.code == 1
    assert {row["of"] for row in found.json if row["level"] == "PROBLEM"} == {"provider"}


def test_doctor_does_not_call_usable_what_cannot_be_opened(doubtless: InProcess) -> None:
    (doubtless.folder / "first.py").write_text(SERVICE)
    (doubtless.folder / "doubtless.sqlite3").write_text("no database " * 100)

    found = doubtless("doctor", "first", "--json")

    of_provider = [(row["level"], row["finding"]) for row in found.json if row["of"] == "provider"]
    assert [level for level, _ in of_provider] == ["PROBLEM"]
    assert "its file is not a SQLite database" in of_provider[0][1]


def test_a_second_trigger_that_gets_nothing_hears_why(doubtless: InProcess) -> None:
    (doubtless.folder / "first.py").write_text(SERVICE)
    (doubtless.folder / "second.py").write_text(SERVICE.replace('"book"', '"book again"'))
    doubtless("send", "orders", "-", stdin=LINE.format("a"))

    first = doubtless("run", "first", "--until-idle", "0.1", "--json")
    second = doubtless("run", "second", "--until-idle", "0.1", "--json")

    assert first.json == [{"trigger": "book", "messages": 1, "ok": 1}]
    assert second.json == [{"trigger": "book again", "messages": 0}]
    assert "new subscription" not in first.err
    assert (
        "INFO book again is a new subscription beside others: it gets what is sent from now on" in second.err
    )
