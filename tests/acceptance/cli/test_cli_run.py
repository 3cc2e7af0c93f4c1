"""``doubtless run``: from the broker through the services of a module."""

import json
import re
import shlex
import signal
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime

import pytest

from history import Message, ParkedKind
from history.beside.kept import KeepsBeside
from history.bridge import drive
from tests.acceptance.command_line import finish
from tests.acceptance.in_process import InProcess
from tests.fixtures.monitoring import ask
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import eventually
from triggers.providers.redis_streams import RedisStreams
from triggers.testing.redis_server import RedisServer, free_port

#: A silent worker counts as dead soon, so that the tests need not wait for half a minute.
FAST = "?claim_idle=0.5&reclaim_interval=0.1"


def send(url: str, destination: str, *orders: str) -> None:
    """Send each order under its own name."""
    provider = RedisStreams.from_url(url)
    drive(provider.send(destination, [Message(body={"id": order}, uuid=order) for order in orders]))
    drive(provider.close())


def words(url: str, *more: str) -> list[str]:
    return ["run", "shop", "--provider", url + FAST, "--history", url, *more]


def test_the_triggers_of_a_module_run_and_are_counted(doubtless: InProcess, redis_url: str) -> None:
    send(redis_url, "orders", "N-1", "N-2", "N-1", "fails")
    send(redis_url, "parcels", "P-1")

    answer = doubtless(*words(redis_url, "--until-idle", "0.3", "--json"))

    assert answer.code == 0
    book, ship = answer.json
    assert book == {"trigger": "book", "messages": 4, "ok": 2, "duplicate": 1, "failed": 1}
    assert ship == {"trigger": "ship", "messages": 1, "ok": 1}
    assert sorted((doubtless.folder / "done.txt").read_text().split()) == ["N-1", "N-2", "P-1"]


def test_the_summary_counts_messages_as_the_effects_and_the_history_do(
    doubtless: InProcess, redis_url: str, store: KeepsBeside
) -> None:
    orders = [f"N-{number}" for number in range(20)]
    sent = [*orders, *orders[:7], "fails", "fails"]
    send(redis_url, "orders", *sent)
    send(redis_url, "parcels", "P-1", "P-2")

    answer = doubtless.process(*words(redis_url, "--until-idle", "0.5"))

    done = (doubtless.folder / "done.txt").read_text().split()
    parked = drive(store.parking.list())
    ok, shipped = len([one for one in done if one in orders]), len([one for one in done if one not in orders])
    copies = len(sent) - len(parked) - ok
    assert (sorted(done), len(parked)) == (sorted([*orders, "P-1", "P-2"]), 1)
    assert answer.out.splitlines()[1:] == [
        f"Parked: 1 of 31 messages. {ok + shipped} succeeded, {copies} were duplicates, 1 failed.",
        f"  book: {ok} succeeded, {copies} were duplicates, 1 failed. Parked: 1.",
        f"  ship: {shipped} succeeded.",
        f"Next: doubtless parked list --trigger book --history {redis_url}",
    ]


def test_the_next_command_of_the_summary_lists_what_is_parked(doubtless: InProcess, redis_url: str) -> None:
    (doubtless.folder / "own.py").write_text(
        "from triggers import FatalError, trigger\n"
        "@trigger('orders', name='refuse', history='sqlite:///own.sqlite3')\n"
        "def refuse(body: object) -> None: raise FatalError('no')"
    )
    send(redis_url, "orders", "N-1", "N-2")

    answer = doubtless("run", "own", "--provider", redis_url + FAST, "--until-idle", "0.3")
    said = answer.out.splitlines()[-1]
    listed = doubtless(*shlex.split(said.removeprefix("Next: doubtless ")), "--json")

    assert said == "Next: doubtless parked list --trigger refuse --history sqlite:///own.sqlite3"
    assert sorted(one["uuid"] for one in listed.json) == ["N-1", "N-2"]


@pytest.mark.parametrize("file", [None, "own.sqlite3"])
def test_the_next_command_lists_what_a_trigger_without_history_parked(
    doubtless: InProcess, redis_url: str, file: str | None
) -> None:
    (doubtless.folder / "own.py").write_text(
        "from pathlib import Path\n"
        "from triggers import FatalError, trigger\n"
        "@trigger('orders', name='refuse', history=None,"
        f" local_parking_file={file and f'Path({file!r})'})\n"
        "def refuse(body: object) -> None: raise FatalError('no')"
    )
    send(redis_url, "orders", "N-1", "N-2")

    answer = doubtless(
        *("run", "own", "--provider", redis_url + FAST, "--history", redis_url, "--until-idle", "0.3")
    )
    said = answer.out.splitlines()[-1]
    listed = doubtless(*shlex.split(said.removeprefix("Next: doubtless ")), "--json")

    assert sorted(one["uuid"] for one in listed.json) == ["N-1", "N-2"]


@pytest.mark.parametrize(("account", "option"), [("default:open-sesame@", ""), ("", "?password=open-sesame")])
def test_no_password_is_in_the_next_command(
    doubtless: InProcess, private_redis: RedisServer, account: str, option: str
) -> None:
    url = private_redis.url.replace("redis://", f"redis://{account}") + option
    with connected(private_redis.url) as client:
        client.acl_setuser("default", enabled=True, reset_passwords=True, passwords=["+open-sesame"])
    send(url, "orders", "fails")

    answer = doubtless(
        *("run", "shop", "--provider", url, "--history", url, "-t", "book", "--until-idle", "0.3")
    )

    assert answer.out.splitlines()[-1] == "Next: doubtless parked list --trigger book --history URL"
    assert "open-sesame" not in answer.out + answer.err


def test_deliveries_that_went_back_are_no_messages(doubtless: InProcess, redis_url: str) -> None:
    (doubtless.folder / "slow.py").write_text(
        "from triggers import TransientError, trigger\nseen = []\n"
        "@trigger('orders', name='third', transacted=True)\n"
        "def third(body: object) -> None:\n"
        "    seen.append(body)\n"
        "    if len(seen) < 3: raise TransientError('not yet')"
    )
    send(redis_url, "orders", "N-1")

    answer = doubtless(
        "run", "slow", "--provider", redis_url + FAST, "--history", redis_url, "--until-idle", "3"
    )

    (said,) = answer.out.splitlines()[1:]
    assert said == "Done: 1 message. 1 succeeded. 2 deliveries went back to the broker."


def test_each_of_several_processes_says_its_part(doubtless: InProcess, redis_url: str) -> None:
    send(redis_url, "orders", *[f"N-{number}" for number in range(10)])

    answer = doubtless.process(
        *words(redis_url, "-t", "book", "--processes", "2", "--name", "two", "--until-idle", "2")
    )

    said = [line for line in answer.out.splitlines() if "running" not in line]
    assert sorted(line.split(":")[0] for line in said) == ["two-0", "two-1"]
    assert sum(int(number) for number in re.findall(r"(\d+) succeeded", answer.out)) == 10


def test_a_warning_is_one_line_with_the_trigger_and_the_uuid_and_then_the_traceback(
    doubtless: InProcess, redis_url: str
) -> None:
    send(redis_url, "orders", "fails")

    answer = doubtless(*words(redis_url, "-t", "book", "--until-idle", "0.3"))

    lines = answer.err.splitlines()
    said = "WARNING fails FAILED: FatalError: "
    (place,) = [place for place, line in enumerate(lines) if said in line]
    assert "trigger=book uuid=fails fence=" in lines[place]
    assert lines[place + 1] == "  Traceback (most recent call last):"
    assert "shop.py" in lines[place + 2]
    assert lines[place + 4].startswith("  triggers.FatalError: ")
    assert r"customer \x1b[31m:smile:" in lines[place + 4], "nothing that acts on the terminal"


def test_what_a_killed_worker_was_at_is_in_doubt_and_can_be_run(
    doubtless: InProcess, redis_url: str, store: KeepsBeside
) -> None:
    send(redis_url, "orders", "kills", "N-1")

    killed = doubtless.process(*words(redis_url, "-t", "book"))
    (doubtless.folder / "done.txt").touch()
    second = doubtless(*words(redis_url, "-t", "book", "--until-idle", "1", "--json"))
    (parked,) = drive(store.parking.list())
    third = doubtless(*words(redis_url, "-t", "book", "--until-idle", "0.3"))
    run = doubtless("parked", "run", "shop", parked.id, "--yes", "--history", redis_url)

    assert killed.code == -signal.SIGKILL
    assert second.json == [{"trigger": "book", "messages": 2, "in doubt": 1, "ok": 1}]
    assert third.out.splitlines()[1:] == ["Done: no messages."]
    assert (parked.uuid, parked.kind) == ("kills", ParkedKind.IN_DOUBT)
    assert run.code == 0
    assert (doubtless.folder / "done.txt").read_text().split() == ["N-1", "kills"]


@contextmanager
def no_nohup() -> Generator[None]:
    """Let started processes react to SIGHUP, even if this process ignores it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_drains_and_the_exit_code_is_0(
    doubtless: InProcess, redis_url: str, number: signal.Signals
) -> None:
    send(redis_url, "orders", "N-1")

    with no_nohup(), doubtless.start(*words(redis_url, "-t", "book")) as process:
        eventually((doubtless.folder / "done.txt").exists)
        process.send_signal(number)
        answer = finish(process)

    assert answer.code == 0
    assert answer.out.splitlines() == ["running book; Ctrl-C drains", "Done: 1 message. 1 succeeded."]


def test_a_service_that_ends_the_process_sets_the_exit_code(doubtless: InProcess, redis_url: str) -> None:
    (doubtless.folder / "mine.py").write_text(
        "import sys\nfrom triggers import trigger\n"
        "@trigger('orders')\ndef leave(body: object) -> None: sys.exit(7)"
    )
    send(redis_url, "orders", "N-1")

    answer = doubtless.process("run", "mine", "--provider", redis_url, "--history", redis_url)

    assert answer.code == 7


def test_a_server_that_evicts_is_refused_with_the_remedy(
    doubtless: InProcess, private_redis: RedisServer
) -> None:
    with connected(private_redis.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    send(private_redis.url, "orders", "N-1")

    answer = doubtless(*words(private_redis.url, "-t", "book"))

    assert answer.code == 2
    assert "error: maxmemory-policy: allkeys-lru lets Redis forget history" in answer.err
    assert "CONFIG SET maxmemory-policy noeviction" in answer.err


def test_the_log_may_be_one_json_object_a_line(doubtless: InProcess, redis_url: str) -> None:
    send(redis_url, "orders", "fails", "N-1")

    options = ("-t", "book", "--until-idle", "0.3", "--log-format", "json")
    with doubtless.start(*words(redis_url, *options)) as process:
        _, told = process.communicate()

    records = [json.loads(line) for line in told.splitlines()]
    # If Redis does not answer for seconds, the log also says that the message comes again, as a duplicate.
    said = "fails FAILED: FatalError: "
    (failed,) = [record for record in records if record["message"].startswith(said)]
    assert process.returncode == 0
    assert (failed["level"], failed["logger"]) == ("WARNING", "triggers.pipeline.pipeline")
    assert (failed["trigger"], failed["uuid"]) == ("book", "fails")
    assert failed["error"]["class"] == "FatalError"
    assert "shop.py" in failed["error"]["trace"]
    assert datetime.fromisoformat(failed["time"]).tzinfo is not None


@pytest.mark.parametrize(
    ("options", "settings", "lines"),
    [
        ([], {}, 1),
        (["--no-log-verdicts"], {}, 0),
        ([], {"DOUBTLESS_LOG_VERDICTS": "false"}, 0),
        (["--no-log-verdicts", "--verbose"], {}, 1),
    ],
)
def test_a_duplicate_is_one_line_unless_somebody_wants_none(
    doubtless: InProcess, redis_url: str, options: list[str], settings: dict[str, str], lines: int
) -> None:
    send(redis_url, "orders", "N-1", "N-1")

    answer = doubtless(*words(redis_url, "-t", "book", "--until-idle", "0.3", *options), **settings)

    said = "INFO N-1 DUPLICATE: it already ran; not run again (row 8)"
    assert sum(said in line for line in answer.err.splitlines()) == lines


@pytest.mark.prove
def test_each_process_has_metrics_at_a_port_of_its_own(doubtless: InProcess, redis_url: str) -> None:
    first = two_ports_in_a_row()
    send(redis_url, "orders", "N-1", "N-2", "N-1", "fails")
    options = ("-t", "book", "--processes", "2", "--metrics", f"127.0.0.1:{first}")

    with doubtless.start(*words(redis_url, *options)) as process:
        try:
            eventually(lambda: all(ask(port, "/readyz")[0] == 200 for port in (first, first + 1)))
            eventually(lambda: sum(messages(port) for port in (first, first + 1)) == 4)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()

    assert process.returncode == 0
    assert [ask(port, "/livez") for port in (first, first + 1)] == [(0, "")] * 2


def messages(port: int) -> float:
    counted = re.findall(r"^doubtless_messages_total\{.*\} (\S+)$", ask(port, "/metrics")[1], re.MULTILINE)
    return sum(map(float, counted))


def two_ports_in_a_row() -> int:
    while True:
        first, second = free_port(), free_port()
        if second == first + 1:
            return first
