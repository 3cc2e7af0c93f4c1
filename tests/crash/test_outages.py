"""The target of a service is away for a while: no message is given up, and each has one effect afterwards.

All settings have their defaults: the pauses between redeliveries grow automatically.
"""

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import cast

import pytest

from history import EntryOutcome, open_history
from history.bridge import drive
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.servers.nats_server import NatsServer
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Running
from triggers import Consumer, Message, Producer, TransientError, trigger

PROVIDERS = ("redis", "sqljms", "nats", "rabbitmq", "kafka")


@dataclass
class Target:
    """Where the service has its effect: a server that refuses connections until :meth:`come_back`."""

    effects: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    _socket: socket.socket = field(default_factory=socket.socket)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._socket.bind(("127.0.0.1", 0))  # bound, and nobody listens: connections are refused

    def come_back(self) -> None:
        self._socket.listen(128)
        threading.Thread(target=self._answer, daemon=True).start()

    def book(self, uuid: str) -> None:
        """Have the effect, as a client of the target does.

        Raises:
            OSError: it is away.
        """
        try:
            with socket.create_connection(self._socket.getsockname(), timeout=30) as line:
                line.sendall(uuid.encode() + b"\n")
                assert line.recv(1) == b"+"
        except OSError:
            with self._lock:
                self.refused[uuid] += 1
            raise

    def close(self) -> None:
        self._socket.close()

    def _answer(self) -> None:
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:
                return
            with line, line.makefile("r") as words:
                self.effects[words.readline().strip()] += 1
                line.sendall(b"+")


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target()
    yield target
    target.close()


@pytest.fixture(params=PROVIDERS)
def provider_url(request: pytest.FixtureRequest) -> Iterator[str]:
    with ExitStack() as servers:
        if request.param == "nats":
            yield f"nats://{servers.enter_context(NatsServer()).address}"
        elif request.param == "kafka":
            kafka = servers.enter_context(KafkaServer())
            kafka.create("orders", 4)
            yield kafka.patient_url
        else:
            fixture = {"sqljms": "postgres_url"}.get(request.param, f"{request.param}_url")
            yield cast("str", request.getfixturevalue(fixture))


def outlast(provider_url: str, history: str, target: Target, count: int, seconds: float) -> None:
    """Send ``count`` messages, bring the target back after ``seconds``, and check the result of each."""

    @trigger("orders", name="outages", history=history, transacted=True)
    def book(message: Message) -> None:
        try:
            target.book(str(message.uuid))
        except OSError as error:
            raise TransientError("the target is away") from error

    uuids = [f"order-{number}" for number in range(count)]
    Consumer([book], provider_url).run(until_idle=0.05)  # declares the queues that the provider needs
    with Producer(provider_url) as producer:
        producer.send_batch("orders", [Message(body={"order": uuid}, uuid=uuid) for uuid in uuids])
    with Running(Consumer([book], provider_url)):
        eventually(lambda: max(target.refused.values(), default=0) >= 2, seconds=60)
        time.sleep(seconds)
        target.come_back()
        eventually(lambda: len(target.effects) == count, seconds=180)
    book.close()

    store = open_history(history)
    try:
        assert drive(store.parking.list(trigger="outages", limit=10)) == []
        entries = drive(store.lookup("outages", uuids))
    finally:
        drive(store.close())
    assert target.effects == Counter(uuids)
    assert {entry.outcome for entry in entries if entry is not None} == {EntryOutcome.OK}
    assert None not in entries


@pytest.mark.proof
def test_nothing_is_given_up_while_the_target_is_away(
    provider_url: str, redis_url: str, target: Target
) -> None:
    outlast(provider_url, redis_url, target, count=100, seconds=0)


@pytest.mark.prove
def test_two_thousand_messages_outlast_two_minutes_without_the_target(
    provider_url: str, redis_url: str, target: Target
) -> None:
    outlast(provider_url, redis_url, target, count=2000, seconds=120)
