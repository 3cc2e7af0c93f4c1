"""The security log of the command line names the machine's user, even if ``--by`` names somebody else."""

import os
import pwd
import socket
from collections.abc import Sequence

import pytest

from history.beside.kept import KeepsBeside
from history.beside.security import SecurityEvent, SecurityLog, SecurityOutcome, SecurityRecord
from history.bridge import drive
from history.errors import HistoryUnavailableError
from tests.acceptance.cli.test_cli_parked import aside, park
from tests.acceptance.in_process import InProcess
from tests.fixtures.beside import kept_in


def records(store: KeepsBeside) -> Sequence[SecurityRecord]:
    log = kept_in(store).security_log
    return drive(log.read()).records[::-1]


def test_decisions_and_commands_are_recorded_with_the_user_of_the_machine(
    doubtless: InProcess, redis_url: str, store: KeepsBeside
) -> None:
    park(store, aside("u1", "N-1"), aside("v2", 1), aside("v3", 1), aside("u4", 1))
    history = ("--yes", "--history", redis_url)

    doubtless("parked", "run", "shop", "u1", *history, "--by", "ann", "--reason", "a-secret")
    doubtless("parked", "discard", "--trigger", "book", "--uuid", "v?", *history, SUDO_USER="bob")
    doubtless("parked", "done", "u4", *history, "--dry-run")
    doubtless("disable", "book", "--history", redis_url, "--wait", "0")
    doubtless("history", "forget", "u1", "--trigger", "book", *history)

    found = records(store)
    assert [(one.event, one.trigger, one.message, one.messages) for one in found] == [
        (SecurityEvent.RUN, "book", "u1", 1),
        (SecurityEvent.DISCARD, "book", None, 2),
        (SecurityEvent.DISABLE, "book", None, None),
        (SecurityEvent.FORGET, "book", "u1", None),
    ]
    assert {(one.outcome, one.user, one.source) for one in found} == {
        (SecurityOutcome.ALLOWED, pwd.getpwuid(os.getuid()).pw_name, socket.gethostname())
    }
    assert (found[0].by, found[1].sudo_user) == ("ann", "bob")
    assert "a-secret" not in "".join(one.to_json() for one in found)


def test_who_gave_a_name_is_kept_beside_it(doubtless: InProcess, redis_url: str, store: KeepsBeside) -> None:
    park(store, aside("u1", 1))

    doubtless("parked", "discard", "u1", "--yes", "--history", redis_url, "--by", "ann")
    (decision,) = doubtless("parked", "decisions", "--history", redis_url, "--json").json

    assert decision["by"] == "ann"
    assert decision["as_user"].startswith(f"{pwd.getpwuid(os.getuid()).pw_name}@{socket.gethostname()}")


def test_nothing_is_decided_without_its_record(
    doubtless: InProcess, redis_url: str, store: KeepsBeside, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def append(*_: object) -> None:
        raise HistoryUnavailableError("it is away")

    parked = aside("u1", 1)
    park(store, parked)
    monkeypatch.setattr(SecurityLog, "append", append)

    answer = doubtless("parked", "discard", "u1", "--yes", "--history", redis_url)

    assert answer.code == 3
    assert [one.id for one in drive(store.parking.list())] == [parked.id]
    assert '"outcome": "failed"' in answer.err.replace('\\"', '"')
