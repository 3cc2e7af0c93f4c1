"""Error messages of old and new Redis servers, and the errors that we raise for them."""

from typing import Any, cast

import pytest
import redis
from redis._parsers.base import BaseParser
from redis.exceptions import InvalidResponse, MaxConnectionsError

from history.errors import ConfigurationError, NotPermittedError
from history.redis.connection.errors import (
    FaultKind,
    configuration_error,
    is_elsewhere,
    kind_of,
    with_next_step,
)
from history.redis.connection.urls import open_client, split_circuit

NOT_NOW = [
    "LOADING Redis is loading the dataset in memory",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "MISCONF Errors writing to the AOF file: No space left on device",
    "NOREPLICAS Not enough good replicas to write.",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "READONLY You can't write against a read only replica.",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "CLUSTERDOWN The cluster is down",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "ERR max number of clients reached",
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
    # Before 7.0 the error of a script quotes the error of its command.
    "ERR Error running script (call to f_1): @user_script:3: -MISCONF Redis is configured to save RDB",
    "ERR Error running script (call to f_1): @user_script:3: -READONLY You can't write against a read only",
]

NEVER = [
    "NOAUTH Authentication required.",
    "WRONGPASS invalid username-password pair or user is disabled.",
    "ERR invalid password",
    "NOPERM this user has no permissions to run the 'eval' command",
    "NOPERM No permissions to access a key",
    "ERR Error running script (call to f_1): @user_script: 1: -NOPERM The user executing the script can't",
    "ERR The user executing the script can't run this command or subcommand script: 1, on @user_script:1.",
    "ERR ACL failure in script: User u has no permissions to run the 'hset' command script: 1, on @user",
    "ERR DB index is out of range",
    "ERR invalid DB index",
    "ERR SELECT is not allowed in cluster mode",
    "MOVED 3999 127.0.0.1:6381",
    "ERR Protocol error: invalid bulk length",
    "ERR Client names cannot contain spaces, newlines or special characters.",
]

#: Texts about missing permissions; the last is from Redis 8.
NOT_PERMITTED = ("NOPERM", "executing the script", "ACL failure")

OTHER = [
    "ERR unknown command 'EVALSHA'",
    "WRONGTYPE Operation against a key",
    "BUSYGROUP name already exists",
]


def said(reply: str) -> Exception:
    return cast("Exception", cast("Any", BaseParser).parse_error(reply))


@pytest.mark.parametrize("reply", NOT_NOW)
def test_what_may_pass_is_not_now_and_told_from_what_another_server_may_do(reply: str) -> None:
    here = any(word in reply for word in ("BUSY", "OOM", "max number of clients"))

    assert kind_of(said(reply)) is FaultKind.NOT_NOW
    assert is_elsewhere(said(reply)) is not here


@pytest.mark.parametrize("reply", [*NOT_NOW, "TTL exhausted."])
def test_what_may_pass_keeps_the_servers_text_and_names_the_next_step(reply: str) -> None:
    error = said(reply)
    told = with_next_step("claiming", error)

    _, after, step = told.partition(f"claiming ({error})")
    assert after
    # It was UNBLOCKED because the server changed: the next call finds the new one.
    assert step.startswith(": ") is not reply.startswith("UNBLOCKED")


@pytest.mark.parametrize("reply", NEVER)
def test_what_stays_so_is_a_matter_of_configuration_with_a_remedy(reply: str) -> None:
    error = said(reply)

    assert (kind_of(error), is_elsewhere(error)) == (FaultKind.NEVER, False)
    told = configuration_error(error, "claiming", setting="history")
    assert isinstance(told, ConfigurationError)
    assert told.setting == "history"
    assert "(while claiming)" in told.problem
    assert isinstance(told, NotPermittedError) is any(words in reply for words in NOT_PERMITTED)


def test_a_value_that_is_too_large_is_not_taken_for_another_server() -> None:
    error = configuration_error(
        said("ERR Protocol error: invalid bulk length"), "using the parking lot", setting="history"
    )

    assert "no value as large" in error.problem
    assert "proto-max-bulk-len" in error.remedy


@pytest.mark.parametrize("reply", OTHER)
def test_what_nobody_foresaw_is_neither(reply: str) -> None:
    assert (kind_of(said(reply)), is_elsewhere(said(reply))) == (FaultKind.OTHER, False)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(redis.ConnectionError("Connection closed by server."), FaultKind.UNANSWERED, id="cut"),
        pytest.param(redis.TimeoutError("Timeout connecting to server"), FaultKind.UNANSWERED, id="late"),
        pytest.param(MaxConnectionsError("Too many connections"), FaultKind.NOT_NOW, id="pool used up"),
        pytest.param(
            redis.ConnectionError("The previous master is now a slave"), FaultKind.NOT_NOW, id="demoted"
        ),
        pytest.param(InvalidResponse('Protocol error, got "H"'), FaultKind.NEVER, id="a stranger"),
    ],
)
def test_what_the_driver_finds_by_itself_is_sorted_too(error: Exception, kind: FaultKind) -> None:
    assert kind_of(error) is kind


@pytest.mark.parametrize(
    "url",
    [
        *("redis://127.0.0.1/shop", "redis://127.0.0.1/0/1/", "redis://127.0.0.1:port/0"),
        *("redis://127.0.0.1/0?nonsense=1", "redis://127.0.0.1/0?db=first", "http://127.0.0.1/0"),
    ],
)
@pytest.mark.parametrize("form", ["blocking", "asyncio"])
def test_a_url_that_says_what_cannot_be_is_refused_before_anything_is_connected(url: str, form: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"history: .*; use (redis://host:6379/0|circuit, durability)"
    ):
        open_client(url, setting="history", asyncio=form == "asyncio", connect=1, answer=1)


@pytest.mark.parametrize("url", ["redis://h", "redis://h/", "redis://h/3", "unix:///run/redis.sock?db=2"])
def test_a_url_may_leave_the_database_out_or_name_its_number(url: str) -> None:
    assert open_client(url, setting="history", asyncio=False, connect=1, answer=1) is not None


def test_the_circuits_setting_is_taken_out_of_the_url() -> None:
    assert split_circuit("redis://h/0") == ("redis://h/0", True)
    assert split_circuit("redis://h/0?circuit=off") == ("redis://h/0", False)
    assert split_circuit("redis://h/0?circuit=on&socket_timeout=3") == ("redis://h/0?socket_timeout=3", True)
    with pytest.raises(ConfigurationError, match="circuit"):
        split_circuit("redis://h/0?circuit=maybe")
