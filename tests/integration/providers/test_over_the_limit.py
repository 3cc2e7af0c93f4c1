"""A message over the delivery limit is parked with its event and leaves the queue: NATS, SQS and Kafka."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from history.bridge import drive
from history.message import Message, Uuid
from history.store.parking import ParkedKind
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.servers.nats_server import NatsServer
from tests.fixtures.servers.sqs_server import SqsServer
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Running, parked_in
from triggers import RetrievalFailureEvent, TransientError, on_retrieval_failure, trigger
from triggers.consumer import Consumer
from triggers.providers.opening import open_provider

pytestmark = pytest.mark.timeout(120)

#: Starts a server, and returns the URL of a provider and what counts what is left of a trigger's queue.
Start = Callable[[ExitStack, str], tuple[str, Callable[[], int]]]


def nats(closing: ExitStack, queue: str) -> tuple[str, Callable[[], int]]:
    server = closing.enter_context(NatsServer())
    return f"nats://{server.address}", lambda: server.unsettled(queue, f"{queue}:{queue}")


def sqs(closing: ExitStack, queue: str) -> tuple[str, Callable[[], int]]:
    server = closing.enter_context(SqsServer(closing.enter_context(pytest.MonkeyPatch.context())))
    return f"sqs://eu-west-1?endpoint={server.address}", lambda: server.depth(queue)


def kafka_share_group(closing: ExitStack, queue: str) -> tuple[str, Callable[[], int]]:
    server = closing.enter_context(KafkaServer(brokers=2))
    server.create(queue, 1)
    return f"kafka://{server.address}?share=true&record_lock=600", lambda: 0  # which it cannot be asked


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize(
    "start",
    [
        nats,
        pytest.param(sqs, marks=pytest.mark.prove),
        pytest.param(kafka_share_group, marks=pytest.mark.prove),
    ],
)
def test_a_message_over_the_delivery_limit_is_parked_with_its_event_and_leaves_the_queue(
    start: Start, closing: ExitStack, tmp_path: Path
) -> None:
    queue = f"orders-{uuid4().hex[:8]}"
    url, left = start(closing, queue)
    history = f"sqlite:///{tmp_path}/history.sqlite3"
    runs: list[int] = []
    heard: list[RetrievalFailureEvent] = []
    closing.callback(on_retrieval_failure(queue)(heard.append).cancel)

    @trigger(queue, name=queue, history=history, max_delivery_count=2, transacted=True)
    def fail(message: Message) -> None:
        runs.append(message.delivery_count)
        raise TransientError("not now")

    provider = open_provider(url)
    drive(provider.send(queue, [Message(uuid=Uuid("poison"), body="x")]))
    with Running(Consumer([fail], url)):
        eventually(lambda: heard)
        eventually(lambda: left() == 0)
    drive(provider.close())

    assert 1 <= len(runs) <= 2
    assert [(event.cause.name, event.delivery_count) for event in heard] == [("MAX_DELIVERY_COUNT", 3)]
    assert [(one.uuid, one.kind) for one in parked_in(history, queue)] == [("poison", ParkedKind.REJECTED)]
