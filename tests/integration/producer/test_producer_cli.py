"""``doubtless send`` with a queue and options."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from tests.acceptance.in_process import InProcess
from tests.fixtures.servers.redis import connected
from triggers import Producer
from triggers.cli.send import DEFAULT_ALIAS
from triggers.testing.redis_server import RedisServer

LINES = "".join(json.dumps({"headers": {"uuid": f"u{number}"}, "body": number}) + "\n" for number in range(3))


@pytest.fixture
def doubtless(tmp_path: Path) -> InProcess:
    return InProcess(tmp_path)


def test_what_cannot_be_sent_waits_in_the_file_and_the_next_call_sends_it(
    doubtless: InProcess, private_redis: RedisServer
) -> None:
    words = ("send", "orders", "-", "--provider", private_redis.url, "--queue", "waiting.queue", "--json")
    private_redis.stop()
    away = doubtless(*words, stdin=LINES)
    private_redis.start()
    back = doubtless(*words, stdin='{"headers": {"uuid": "u3"}, "body": 3}')

    assert (away.code, away.json["sent"], away.json["waiting"]) == (0, 0, 3)
    assert (back.code, back.json["sent"], back.json["waiting"]) == (0, 1, 0)
    with connected(private_redis.url) as client:
        uuids = [fields[b"uuid"] for _, fields in client.xrange("orders")]
    assert list(dict.fromkeys(uuids)) == [b"u0", b"u1", b"u2", b"u3"]


def test_a_program_takes_over_the_queue_of_the_command_by_its_alias(
    doubtless: InProcess, private_redis: RedisServer
) -> None:
    private_redis.stop()
    answer = doubtless("send", "orders", "-", "--provider", private_redis.url, "--queue", "q", stdin=LINES)
    private_redis.start()

    with Producer(private_redis.url, queue=doubtless.folder / "q", alias=DEFAULT_ALIAS) as producer:
        drained = producer.drain()
        left = producer.queue and producer.queue.size()

    assert answer.out == "sent 0 messages to orders\n"
    assert "3 messages wait in the queue" in answer.err
    assert (drained.left, left) == (0, 0)


def test_a_full_queue_ends_the_command_and_tells_the_line(
    doubtless: InProcess, private_redis: RedisServer
) -> None:
    private_redis.stop()
    words = ("--provider", private_redis.url, "--queue", "q", "--queue-limit", "2")

    answer = doubtless("send", "orders", "-", *words, stdin=LINES)

    assert answer.code == 3
    assert "no room for 3 more" in answer.error


def test_options_are_said_of_every_message(doubtless: InProcess, redis_url: str) -> None:
    words = ("--priority", "8", "--time-to-live", "60", "--delay", "0.001")

    answer = doubtless("send", "orders", "-", "--provider", redis_url, *words, "--json", stdin=LINES)

    assert answer.json == {"destination": "orders", "sent": 3, "sent_as_they_are": 0, "first_of_these": []}
    with connected(redis_url) as client:
        entries = [fields for _, fields in client.xrange("orders")]
        later = client.zrange("{orders}:doubtless:later", 0, -1)
    assert len(entries) + len(later) == 3
    for fields in entries:
        assert fields[b"JMSPriority"] == b"8"
        lived = int(fields[b"JMSExpiration"]) - int(fields[b"JMSTimestamp"])
        assert timedelta(milliseconds=lived) == timedelta(seconds=60)


@pytest.mark.parametrize(
    "words",
    [("--priority", "10"), ("--time-to-live", "0"), ("--delay", "-1"), ("--queue-limit", "-2")],
    ids=str,
)
def test_a_wrong_option_is_exit_code_2(doubtless: InProcess, redis_url: str, words: tuple[str, str]) -> None:
    answer = doubtless("send", "orders", "-", "--provider", redis_url, *words, stdin=LINES)

    assert answer.code == 2
    assert words[0].strip("-").replace("-", "_") in answer.err.replace("-", "_")
