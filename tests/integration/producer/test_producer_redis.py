"""A producer with a Redis that stops, starts and refuses. Also delays, requests, and killed producers."""

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from history.bridge import drive
from history.message import Message
from tests import ROOT
from tests.fixtures.ledger import Ledger
from tests.fixtures.network import NetworkBefore
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import PATIENCE, eventually
from tests.integration.helpers.consumers import Lane, is_drained
from triggers import DeliveryFailureEvent, Producer, ProviderUnavailableError, Retry, on_delivery_failure
from triggers.providers.redis_streams import RedisStreams
from triggers.testing.redis_server import RedisServer

QUICK = Retry(max_attempts=1, interval=timedelta(milliseconds=10))
SOON = timedelta(seconds=PATIENCE)


def uuids_in(url: str, stream: str = "orders") -> list[str]:
    """Return the uuids in a stream, in order, second copies included."""
    with connected(url) as client:
        return [fields[b"uuid"].decode() for _, fields in client.xrange(stream)]


def producer_of(url: str, folder: Path) -> Producer:
    return Producer(url, queue=folder / "orders.queue", retry=QUICK)


def emptied(producer: Producer) -> Callable[[], bool]:
    return lambda: producer.queue is not None and not producer.queue.size()


@contextmanager
def not_draining(producer: Producer) -> Generator[None]:
    """Inside the block, queued messages stay queued, because draining needs the lock."""
    assert producer.queue is not None
    with ExitStack() as held:
        while not held.enter_context(producer.queue.draining()):
            held.close()
        yield


@contextmanager
def refusing(url: str) -> Generator[None]:
    """Inside the block, the server wants a password that no client has. It also disconnects all clients."""
    with connected(url) as client:
        client.config_set("requirepass", "another")
        client.execute_command("AUTH", "another")
        client.client_kill_filter(_type="normal", skipme=True)
        try:
            yield
        finally:
            client.config_set("requirepass", "")


class TestAnOutage:
    def test_what_was_queued_leaves_by_itself_in_order_when_the_server_is_back(
        self, private_redis: RedisServer, tmp_path: Path
    ) -> None:
        with producer_of(private_redis.url, tmp_path) as producer:
            assert not producer.send("orders", "x", uuid="0").queued
            private_redis.stop()
            assert all(producer.send("orders", "x", uuid=str(number)).queued for number in range(1, 50))
            with not_draining(producer):
                private_redis.start()
                behind = producer.send("orders", "x", uuid="50")
            for number in range(51, 100):
                producer.send("orders", "x", uuid=str(number))
            eventually(emptied(producer))

        assert behind.queued
        assert list(dict.fromkeys(uuids_in(private_redis.url))) == [str(number) for number in range(100)]

    def test_a_reply_that_is_lost_makes_a_second_copy_that_the_history_drops(
        self, redis_url: str, network_before: NetworkBefore, lane: Lane
    ) -> None:
        network = network_before(redis_url)
        effects: list[str | None] = []
        book = lane.trigger("orders", lambda message: effects.append(message.uuid))

        with Producer(network.url(redis_url), retry=QUICK) as producer:
            lost = network.lose_reply_to(b"XADD")
            sent = producer.send("orders", "x")
        assert lost.is_set()
        with lane.run([book], redis_url, history=redis_url):
            eventually(lambda: is_drained(redis_url, "orders"))

        assert uuids_in(redis_url) == [sent.uuid] * 2
        assert effects == [sent.uuid]

    def test_a_stream_that_is_none_holds_up_its_own_messages_until_it_is_one(
        self, private_redis: RedisServer, tmp_path: Path
    ) -> None:
        with producer_of(private_redis.url, tmp_path) as producer, connected(private_redis.url) as client:
            client.set("text", "no stream")
            private_redis.stop()
            for destination in ("text", "orders", "text"):
                producer.send(destination, "x")
            private_redis.start()
            eventually(lambda: len(uuids_in(private_redis.url)) == 1)
            assert producer.drain().blocked == ["text"]
            client.delete("text")
            eventually(emptied(producer))

            assert len(uuids_in(private_redis.url, "text")) == 2

    def test_a_server_that_is_full_counts_against_the_message_and_an_absent_one_does_not(
        self, private_redis: RedisServer, tmp_path: Path
    ) -> None:
        file = tmp_path / "q"
        with Producer(private_redis.url, queue=file, retry=QUICK, max_redelivery_count=2) as producer:
            assert producer.queue is not None
            private_redis.stop()
            producer.send("orders", "x")
            assert [producer.drain().failed for _ in range(5)] == [0] * 5
            # From the start, because the queue goes on as soon as the server answers.
            private_redis.settings["maxmemory"] = "1"
            private_redis.start()
            eventually(lambda: producer.queue and producer.queue.failed())

        [failed] = producer.queue.failed()
        producer.queue.close()
        assert (failed.attempts, failed.exception_class) == (2, "ProviderUnavailableError")


class TestRefusals:
    def test_a_server_that_refuses_us_keeps_the_queue_and_the_background_goes_on_with_it(
        self, private_redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        given_up: list[DeliveryFailureEvent] = []
        subscription = on_delivery_failure("*")(given_up.append)
        with producer_of(private_redis.url, tmp_path) as producer:
            private_redis.stop()
            assert [producer.send("orders", "x", uuid=uuid).queued for uuid in "abc"] == [True] * 3
            with ExitStack() as refused:
                with not_draining(producer):
                    private_redis.start()
                    refused.enter_context(refusing(private_redis.url))
                drained = producer.drain()
                assert (drained.sent, drained.failed, drained.left) == (0, 0, 3)
                assert "password" in str(drained.refused)
                eventually(lambda: "its queue is not drained" in caplog.text and "password" in caplog.text)
            eventually(emptied(producer))
            eventually(lambda: "its queue is drained again" in caplog.text)
        subscription.cancel()

        assert given_up == []
        assert uuids_in(private_redis.url) == ["a", "b", "c"]

    def test_what_we_may_not_do_there_waits_until_we_may(
        self, private_redis: RedisServer, tmp_path: Path
    ) -> None:
        with connected(private_redis.url) as client:
            client.execute_command("ACL", "SETUSER", "shop", "on", ">secret", "~*", "&*", "+@all")
            url = private_redis.url.replace("redis://", "redis://shop:secret@")
            with producer_of(url, tmp_path) as producer:
                assert producer.queue is not None
                client.execute_command("ACL", "SETUSER", "shop", "resetkeys", "~returns", "~*:registry")
                producer.queue.put("orders", [Message(uuid=uuid, body="x") for uuid in "ab"])
                producer.queue.put("returns", [Message(uuid="c", body="x")])
                drained = producer.drain()
                client.execute_command("ACL", "SETUSER", "shop", "~*")
                assert (drained.failed, drained.blocked) == (0, ["orders"])
                assert "lacks a permission" in str(drained.refused)
                assert producer.drain().left == 0

        assert uuids_in(private_redis.url) == ["a", "b"]


class TestDelays:
    def test_a_delayed_message_survives_a_kill_of_the_server_and_runs_once(
        self, private_redis: RedisServer, lane: Lane
    ) -> None:
        ran: list[tuple[str | None, datetime]] = []
        book = lane.trigger("orders", lambda message: ran.append((message.uuid, datetime.now(UTC))))
        url = f"{private_redis.url}?reclaim_interval=0.1"
        with Producer(private_redis.url) as producer:
            sent = producer.send("orders", "x", delay=timedelta(seconds=1))
        private_redis.kill()
        private_redis.start()

        with lane.run([book], url, history=private_redis.url):
            eventually(lambda: ran)

        assert sent.message.delivery_time is not None
        assert [uuid for uuid, _ in ran] == [sent.uuid]
        assert ran[0][1] >= sent.message.delivery_time

    @pytest.mark.prove
    def test_consumers_that_are_killed_while_they_move_delayed_messages_move_each_once(
        self, redis_url: str
    ) -> None:
        due = datetime.now(UTC) + timedelta(seconds=2)
        provider = RedisStreams.from_url(f"{redis_url}?reclaim_interval=0.01")
        messages = [Message(body="x", uuid=str(number), delivery_time=due) for number in range(600)]
        drive(provider.send("orders", messages))
        drive(provider.close())
        script = (
            "import sys; from history.bridge import drive\n"
            "from triggers.providers.redis_streams import RedisStreams\n"
            "one = RedisStreams.from_url(sys.argv[1] + '?reclaim_interval=0.001')\n"
            "receiver = drive(one.open_receiver('orders', subscription='s', name=sys.argv[2]))\n"
            "print(flush=True)\n"
            "while True: drive(receiver.receive(10))\n"
        )
        dice = random.Random(7)  # noqa: S311  (no secret)
        with connected(redis_url) as client:
            number = 0
            while client.xlen("orders") < 600:
                number += 1
                words = [sys.executable, "-c", script, redis_url, f"c{number}"]
                with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
                    assert process.stdout is not None
                    process.stdout.readline()
                    had = client.xlen("orders")
                    wanted = min(600, had + dice.randint(1, 200))
                    while client.xlen("orders") < wanted:
                        assert process.poll() is None
                        time.sleep(0.001)
                    process.send_signal(signal.SIGKILL)

            assert client.zcard("{orders}:doubtless:later") == 0
        assert number > 1
        assert uuids_in(redis_url) == [str(one) for one in range(600)]


class TestRequests:
    def test_a_trigger_service_answers_and_a_redelivered_request_gets_the_same_reply(
        self, redis_url: str, lane: Lane
    ) -> None:
        with Producer(redis_url) as producer:
            answer = lane.trigger(
                "questions", lambda message: producer.reply(message, {"echo": message.body}), history=None
            )
            with lane.run([answer], redis_url):
                replies = [producer.request("questions", number, timeout=SOON) for number in range(10)]

                assert [reply and reply.body for reply in replies] == [{"echo": one} for one in range(10)]

                with connected(redis_url) as client:
                    [(_, asked), *_] = client.xrange("questions", count=1)
                    client.xadd("questions", asked)
                    eventually(lambda: is_drained(redis_url, "questions"))
                    [(_, first), *others] = client.xrange(asked[b"JMSReplyTo"])

        assert [fields[b"uuid"] for _, fields in others].count(first[b"uuid"]) == 1

    def test_the_stream_for_replies_expires_and_is_deleted_and_not_made_again(self, redis_url: str) -> None:
        with connected(redis_url) as client:
            with Producer(redis_url) as producer:
                assert producer.request("questions", "?", timeout=timedelta(milliseconds=10)) is None
                [(_, asked)] = client.xrange("questions")
                stream = asked[b"JMSReplyTo"].decode()
                assert 0 < client.pttl(stream) <= 3_600_000

            assert not client.exists(stream)
            with Producer(redis_url) as late:
                late.reply(Message(body="?", uuid="r", reply_to=stream), "too late")

            assert not client.exists(stream)

    def test_the_permissions_of_the_documentation_are_enough(
        self, private_redis: RedisServer, lane: Lane
    ) -> None:
        page = ROOT / "docs" / "how-to" / "run-on-redis.md"
        [rule] = [line for line in page.read_text(encoding="utf-8").splitlines() if "ACL SETUSER" in line]
        with connected(private_redis.url) as client:
            client.execute_command(*rule.split())
        url = private_redis.url.replace("redis://", "redis://doubtless:secret@")
        with Producer(f"{url}?reclaim_interval=0.1") as producer:
            answer = lane.trigger("orders", lambda message: producer.reply(message, message.body))
            with lane.run([answer], f"{url}?reclaim_interval=0.1", history=url):
                delayed = producer.request("orders", 1, timeout=SOON, delay=timedelta(milliseconds=50))

        assert delayed is not None
        assert delayed.body == 1

    def test_replies_go_on_after_the_password_was_another_one(
        self, private_redis: RedisServer, lane: Lane, caplog: pytest.LogCaptureFixture
    ) -> None:
        url = private_redis.url
        with Producer(url) as producer, Producer(url) as answerer:
            answer = lane.trigger("questions", lambda message: answerer.reply(message, message.body))
            with lane.run([answer], url, history=url):
                assert producer.request("questions", 1, timeout=SOON) is not None
            with refusing(url):
                eventually(lambda: "replies cannot be received" in caplog.text)
            with lane.run([answer], url, history=url):
                assert _patiently(lambda: producer.request("questions", 2, timeout=timedelta(seconds=1)))

        assert caplog.text.count("replies cannot be received") == 1
        assert caplog.text.count("replies are received again") == 1

    def test_replies_go_on_after_the_server_was_away(self, private_redis: RedisServer, lane: Lane) -> None:
        url = private_redis.url
        with Producer(url) as producer, Producer(url) as answerer:
            answer = lane.trigger("questions", lambda message: answerer.reply(message, message.body))
            with lane.run([answer], f"{url}?claim_idle=1&reclaim_interval=0.1", history=url):
                assert producer.request("questions", 1, timeout=SOON) is not None
                private_redis.kill()
                private_redis.start()

                assert _patiently(lambda: producer.request("questions", 2, timeout=timedelta(seconds=1)))


def _patiently(ask: Callable[[], Message | None]) -> Message:
    """Repeat a call while the server comes back."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if (reply := ask()) is not None:
                return reply
        except ProviderUnavailableError:
            continue
    raise AssertionError("no reply came")


def _start(provider: str, folder: Path, name: str, first: int, last: int) -> "subprocess.Popen[bytes]":
    queue, ledger = folder / "orders.queue", folder / "sent"
    words = map(
        str, ("-m", "tests.integration.producer.sender_process", provider, queue, ledger, name, first, last)
    )
    return subprocess.Popen([sys.executable, *words])


@pytest.mark.crash
@pytest.mark.prove
class TestKills:
    def test_a_producer_that_is_killed_again_and_again_loses_nothing_and_effects_happen_once(
        self, private_redis: RedisServer, tmp_path: Path
    ) -> None:
        lane = Lane(asyncio=False, folder=tmp_path)
        dice = random.Random(11)  # noqa: S311  (no secret)
        sent, effects = Ledger(tmp_path / "sent"), Ledger(tmp_path / "effects")
        total, kills = 800, 0
        done = threading.Event()
        weather = threading.Thread(target=_come_and_go, args=(private_redis, done))
        weather.start()
        try:
            while (first := _count(sent)) < total:
                with _start(private_redis.url, tmp_path, "a", first, total) as process:
                    wanted = first + dice.randint(1, total // 6)
                    while _count(sent) < wanted and process.poll() is None:
                        time.sleep(0.002)
                    process.kill()
                    kills += 1
        finally:
            done.set()
            weather.join()
        with producer_of(private_redis.url, tmp_path) as producer:
            eventually(lambda: not producer.drain().left)
        book = lane.trigger("orders-a", lambda message: effects.note(message.uuid or ""), prefetch=100)
        with lane.run([book], private_redis.url, history=private_redis.url):
            eventually(lambda: is_drained(private_redis.url, "orders-a"))

        wished = [f"a-{number:05}" for number in range(total)]
        assert kills > 3
        assert [uuid for (uuid,) in effects.lines()] == wished

    def test_two_processes_share_a_file_and_lose_nothing_and_keep_their_order(
        self, private_redis: RedisServer, tmp_path: Path
    ) -> None:
        sent = Ledger(tmp_path / "sent")
        private_redis.stop()
        processes = [_start(private_redis.url, tmp_path, name, 0, 300) for name in "abc"]
        try:
            eventually(lambda: _count(sent) > 600)
            processes[0].kill()
            private_redis.start()
            for process in processes[1:]:
                process.wait(PATIENCE)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        with producer_of(private_redis.url, tmp_path) as producer:
            eventually(lambda: not producer.drain().left)

        noted = sent.counts()
        for name in "abc":
            got = list(dict.fromkeys(uuids_in(private_redis.url, f"orders-{name}")))
            assert got == [f"{name}-{number:05}" for number in range(len(got))]
            assert len(got) >= sum(uuid.startswith(f"{name}-") for uuid in noted)
        assert len(uuids_in(private_redis.url, "orders-b")) >= 300


def _count(sent: Ledger) -> int:
    return sum(1 for words in sent.lines() if len(words) == 1)


def _come_and_go(server: RedisServer, done: threading.Event) -> None:
    """Stop and start the server until ``done``, and leave it running."""
    while not done.wait(0.7):
        server.kill()
        done.wait(0.5)
        server.start()
