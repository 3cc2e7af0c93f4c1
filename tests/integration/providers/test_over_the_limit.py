"""A message over the delivery limit is parked with its event and leaves the queue, on each broker."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from uuid import uuid4

import pytest

from history import Message, ParkedKind
from tests.fixtures.servers.activemq import ACTIVEMQ
from tests.fixtures.servers.activemq_server import ActiveMqServer
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.servers.nats_server import NatsServer
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.fixtures.servers.sqs_server import SqsServer
from tests.fixtures.waiting import eventually
from tests.integration.helpers import jms_queues, rabbitmq_queues
from tests.integration.helpers.consumers import Lane, parked_in, send
from tests.integration.helpers.rabbitmq_queues import subscribe
from triggers import RetrievalFailureEvent, TransientError, on_retrieval_failure

pytestmark = pytest.mark.timeout(120)

#: Returns a provider's URL, and a function that counts the remaining messages of a trigger's queue.
Start = Callable[[pytest.FixtureRequest, ExitStack, str], tuple[str, Callable[[], int]]]


def nats(_request: pytest.FixtureRequest, closing: ExitStack, queue: str) -> tuple[str, Callable[[], int]]:
    server = closing.enter_context(NatsServer())
    return f"nats://{server.address}", lambda: server.unsettled(queue, f"{queue}:{queue}")


def sqs(_request: pytest.FixtureRequest, closing: ExitStack, queue: str) -> tuple[str, Callable[[], int]]:
    server = closing.enter_context(SqsServer(closing.enter_context(pytest.MonkeyPatch.context())))
    return f"sqs://eu-west-1?endpoint={server.address}", lambda: server.depth(queue)


def kafka_share_group(
    _request: pytest.FixtureRequest, closing: ExitStack, queue: str
) -> tuple[str, Callable[[], int]]:
    server = closing.enter_context(KafkaServer(brokers=2))
    server.create(queue, 1)
    return f"kafka://{server.address}?share=true&record_lock=600", lambda: 0  # it cannot be counted


def rabbitmq(
    request: pytest.FixtureRequest, _closing: ExitStack, queue: str, wire: str = "rabbitmq"
) -> tuple[str, Callable[[], int]]:
    name = {"rabbitmq": "rabbitmq_server", "amqp": "rabbitmq4_server"}[wire]
    server: RabbitmqServer = request.getfixturevalue(name)
    subscribe(url := f"{wire}://{server.address}/", queue)
    return url, lambda: rabbitmq_queues.depth(server, queue)


def jms(request: pytest.FixtureRequest, _closing: ExitStack, queue: str) -> tuple[str, Callable[[], int]]:
    server: ActiveMqServer = request.getfixturevalue("activemq")
    return server.url, lambda: jms_queues.depth(server.url, queue)


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
        pytest.param(rabbitmq, marks=pytest.mark.xdist_group("rabbitmq")),
        pytest.param(partial(rabbitmq, wire="amqp"), marks=pytest.mark.xdist_group("rabbitmq"), id="amqp"),
        pytest.param(jms, marks=ACTIVEMQ),
    ],
)
def test_a_message_over_the_delivery_limit_is_parked_with_its_event_and_leaves_the_queue(
    start: Start, request: pytest.FixtureRequest, closing: ExitStack, lane: Lane
) -> None:
    queue = f"orders-{uuid4().hex[:8]}"
    url, left = start(request, closing, queue)
    history = f"sqlite:///{lane.folder}/history.sqlite3"
    runs: list[int] = []
    heard: list[RetrievalFailureEvent] = []
    closing.callback(on_retrieval_failure(queue)(heard.append).cancel)

    def fail(message: Message) -> None:
        runs.append(message.delivery_count)
        raise TransientError("not now")

    send(url, queue, "poison")
    doomed = lane.trigger(queue, fail, history=history, max_delivery_count=2, transacted=True)
    with lane.run([doomed], url):
        eventually(lambda: heard)
        eventually(lambda: left() == 0)

    assert (1 if start in {sqs, kafka_share_group} else 2) <= len(runs) <= 2
    assert [(event.cause.name, event.delivery_count) for event in heard] == [("MAX_DELIVERY_COUNT", 3)]
    assert [(one.uuid, one.kind) for one in parked_in(history, queue)] == [("poison", ParkedKind.REJECTED)]
