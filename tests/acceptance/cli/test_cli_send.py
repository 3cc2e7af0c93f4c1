"""``doubtless send`` with good, strange and large files, and with a server that goes away."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from history.bridge import drive
from history.message import Message
from tests.acceptance.command_line import finish
from tests.acceptance.in_process import InProcess
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import eventually
from triggers.cli.send import SEND_BATCH
from triggers.providers.provider import AT_ONCE, Arrival
from triggers.providers.redis_streams import RedisStreams
from triggers.testing.redis_server import RedisServer


def received(url: str, destination: str = "orders") -> list[Message]:
    """Return everything that was sent to a destination."""
    provider = RedisStreams.from_url(url)
    receiver = drive(provider.open_receiver(destination, subscription="test", name="test"))
    arrivals = drive(receiver.receive(1000, AT_ONCE))
    drive(receiver.close())
    drive(provider.close())
    return [one.message for one in arrivals if isinstance(one, Arrival)]


def line(number: int) -> str:
    return json.dumps({"headers": {"uuid": f"u{number}"}, "body": {"id": str(number)}}) + "\n"


def write(folder: Path, lines: Iterable[str]) -> Path:
    file = folder / "orders.jsonl"
    file.write_text("".join(lines), encoding="utf-8")
    return file


def test_each_line_is_one_message_with_its_headers(doubtless: InProcess, redis_url: str) -> None:
    text = '{"headers": {"uuid": "u1", "JMSPriority": 7, "shop": "Köln"}, "body": {"id": "N-1"}}'
    write(doubtless.folder, [text])

    answer = doubtless("send", "orders", "orders.jsonl", "--provider", redis_url)

    assert (answer.code, answer.out, answer.err) == (0, "sent 1 message to orders\n", "")
    (message,) = received(redis_url)
    assert (message.uuid, message.priority, message.body) == ("u1", 7, {"id": "N-1"})
    assert message.properties["shop"] == "Köln"


def test_a_line_that_is_no_message_is_sent_as_it_is_and_told(doubtless: InProcess, redis_url: str) -> None:
    texts = [b'{"body": 1}', b"\xff\xfe\x00binary", b'{"id": "N-1"}']
    (doubtless.folder / "orders.jsonl").write_bytes(b"\n" + b"\n".join(texts))

    data = doubtless("send", "orders", "orders.jsonl", "--provider", redis_url, "--json")
    plain = doubtless("send", "orders", "orders.jsonl", "--provider", redis_url)

    assert data.json == {
        "destination": "orders",
        "sent": 3,
        "sent_as_they_are": 2,
        "first_of_these": [
            {"line": 3, "problem": "is not UTF-8 at byte 1"},
            {"line": 4, "problem": 'is not a JSON object with a "body"'},
        ],
    }
    assert plain.code == 0
    assert "line 3: is not UTF-8 at byte 1; line 4: is not a JSON object" in plain.err
    assert [message.body for message in received(redis_url)] == [1, *texts[1:]] * 2


def test_the_form_that_the_user_is_told_is_a_message(doubtless: InProcess, redis_url: str) -> None:
    told = doubtless("send", "orders", "-", "--provider", redis_url, stdin='{"id": "N-1"}\n')
    form = told.err.rpartition(" Write a message as ")[2]

    again = doubtless("send", "orders", "-", "--provider", redis_url, "--json", stdin=form)

    assert (again.json["sent"], again.json["sent_as_they_are"]) == (1, 0)


def test_messages_that_wait_in_the_queue_are_not_called_sent(
    doubtless: InProcess, private_redis: RedisServer
) -> None:
    write(doubtless.folder, [line(number) for number in range(3)])
    send = ("send", "orders", "orders.jsonl", "--queue", "q", "--provider", private_redis.url)
    private_redis.kill()

    away, plain = doubtless(*send, "--json"), doubtless(*send)
    private_redis.start()
    back = doubtless(*send, "--json")

    assert (away.code, away.json["sent"], away.json["waiting"]) == (0, 0, 3)
    assert (plain.code, plain.out) == (0, "sent 0 messages to orders\n")
    assert (back.code, back.json["sent"], back.json["waiting"]) == (0, 3, 0)
    assert len(received(private_redis.url)) == 9


def test_strict_refuses_the_whole_file_and_names_the_line(doubtless: InProcess, redis_url: str) -> None:
    write(doubtless.folder, [line(1), "garbage\n", line(3)])

    answer = doubtless("send", "orders", "orders.jsonl", "--provider", redis_url, "--strict")

    assert answer.code == 2
    assert answer.error.startswith("error: line 2: is not JSON")
    assert received(redis_url) == []


@pytest.mark.parametrize(("lines", "sent"), [([line(1), line(2)], 2), ([line(1), "garbage\n"], 0)])
def test_strict_reads_a_pipe_to_its_end_before_it_sends(
    doubtless: InProcess, redis_url: str, lines: list[str], sent: int
) -> None:
    answer = doubtless("send", "orders", "-", "--provider", redis_url, "--strict", stdin="".join(lines))

    assert answer.code == (0 if sent else 2)
    assert len(received(redis_url)) == sent


def test_sending_may_begin_at_a_later_line(doubtless: InProcess, redis_url: str) -> None:
    write(doubtless.folder, map(line, range(1, 6)))

    doubtless("send", "orders", "orders.jsonl", "--provider", redis_url, "--from-line", "4")

    assert [message.uuid for message in received(redis_url)] == ["u4", "u5"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{}".encode("utf-16"), "FILE: is UTF-16; convert it: iconv -f UTF-16 -t UTF-8"),
        (b'{"body": 1}\n' + b"x" * (64 * 1024 * 1024 + 1), "line 2: is longer than 67108864 bytes"),
        (None, "FILE: orders.jsonl: No such file or directory"),
    ],
    ids=["UTF-16", "endless line", "missing"],
)
def test_a_file_that_cannot_be_read_is_told_with_the_remedy(
    doubtless: InProcess, redis_url: str, content: bytes | None, told: str
) -> None:
    if content is not None:
        (doubtless.folder / "orders.jsonl").write_bytes(content)

    answer = doubtless("send", "orders", "orders.jsonl", "--provider", redis_url)

    assert answer.code == 2
    assert told in answer.error


def test_file_and_destination_in_the_wrong_order_are_told(doubtless: InProcess) -> None:
    (doubtless.folder / "orders.jsonl").write_text("{}")
    before = sorted(doubtless.folder.iterdir())

    answer = doubtless("send", "orders.jsonl", "orders")

    assert answer.code == 2
    assert "orders orders.jsonl" in answer.error
    assert sorted(doubtless.folder.iterdir()) == before


def test_an_empty_file_is_no_failure(doubtless: InProcess, redis_url: str) -> None:
    answer = doubtless("send", "orders", "-", "--provider", redis_url)

    assert (answer.code, answer.out) == (0, "sent 0 messages to orders\n")


def test_a_million_bytes_a_line_do_not_stay_in_memory(doubtless: InProcess, redis_url: str) -> None:
    large = json.dumps({"body": "x" * 1024 * 1024}) + "\n"

    with doubtless.start("send", "orders", "-", "--provider", f"{redis_url}?maxlen=1") as process:
        assert process.stdin is not None
        for _ in range(120):
            process.stdin.write(large)
        most = most_memory(process)
        answer = finish(process)

    assert answer.out == "sent 120 messages to orders\n"
    assert most < 115 * 1024


def most_memory(process: "subprocess.Popen[str]") -> int:
    """Return the most memory that a process has taken so far, in KiB."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return next(int(one.split()[1]) for one in status.splitlines() if one.startswith("VmHWM"))


@pytest.fixture
def endless(doubtless: InProcess) -> Callable[[RedisServer], "subprocess.Popen[str]"]:
    """Start a send that is too large to end during the test. Return when some messages have arrived."""

    def start(server: RedisServer) -> "subprocess.Popen[str]":
        write(doubtless.folder, map(line, range(200_000)))
        process = doubtless.start("send", "orders", "orders.jsonl", "--provider", server.url)
        with connected(server.url) as client:
            # The second batch goes out after the answer to the first, so the command has that answer.
            eventually(lambda: client.xlen("orders") > SEND_BATCH)
        return process

    return start


def test_a_server_that_goes_away_is_told_with_the_line_to_go_on_from(
    private_redis: RedisServer, endless: Callable[[RedisServer], "subprocess.Popen[str]"]
) -> None:
    with endless(private_redis) as process:
        private_redis.kill()
        answer = finish(process)

    hint, error = answer.err.splitlines()
    assert answer.code == 3
    assert "go on with --from-line " in hint
    assert error.startswith("error: the Redis server is unavailable while sending: ")


def test_an_interrupted_command_is_exit_code_130_and_tells_how_far_it_came(
    private_redis: RedisServer, endless: Callable[[RedisServer], "subprocess.Popen[str]"]
) -> None:
    with endless(private_redis) as process:
        process.send_signal(signal.SIGINT)
        answer = finish(process)

    assert answer.code == 130
    assert "go on with --from-line " in answer.err
