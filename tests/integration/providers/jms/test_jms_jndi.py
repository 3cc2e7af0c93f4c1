"""JNDI names of the connection factory, of queues and of topics, on a real ActiveMQ."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from history.bridge import drive
from tests.fixtures.servers.activemq import ACTIVEMQ
from tests.fixtures.servers.activemq_server import HOME, ActiveMqServer
from tests.integration.helpers.consumers import Running
from tests.integration.providers.jms.test_jms import bodies, opened, take
from triggers import ConfigurationError, Consumer, Message, Producer, trigger
from triggers.providers.jms import JmsProvider
from triggers.providers.jms.settings import JmsSettings

pytestmark = ACTIVEMQ

INITIAL = "org.apache.activemq.jndi.ActiveMQInitialContextFactory"


@pytest.fixture
def name() -> str:
    return f"jms-{uuid4().hex[:12]}"


@pytest.fixture
def provider(activemq: ActiveMqServer, name: str) -> Iterator[JmsProvider]:
    """A provider that looks up its connection factory, queue and topic in JNDI."""
    settings = JmsSettings(
        jndi="ConnectionFactory",
        environment={
            "java.naming.factory.initial": INITIAL,
            "java.naming.provider.url": activemq.broker_url,
            "queue.jms/Orders": f"{name}-queue",
            "topic.jms/Prices": f"{name}-topic",
        },
        classpath=(f"{HOME}/lib/*.jar",),
    )
    provider = JmsProvider(settings)
    yield provider
    drive(provider.close())


def test_a_connection_factory_may_come_from_jndi(provider: JmsProvider, name: str) -> None:
    drive(provider.send(name, [Message(body="by name")]))
    receiver = opened(provider, name)

    assert bodies(receiver, 1) == ["by name"]
    drive(receiver.close())


@pytest.mark.parametrize("known_as", ["jndi:jms/Orders", "jndi:dynamicQueues/{name}-queue"])
def test_a_queue_is_found_by_its_name_in_jndi(provider: JmsProvider, name: str, known_as: str) -> None:
    destination = known_as.format(name=name)
    drive(provider.send(destination, [Message(body="sent by name", reply_to=destination)]))
    drive(provider.send(f"{name}-queue", [Message(body="sent to the queue")]))
    receiver = opened(provider, destination)

    [first] = take(receiver)
    drive(receiver.acknowledge([first]))

    assert bodies(receiver, 1) == ["sent to the queue"]
    assert first.message.body == "sent by name"
    assert (first.message.destination, first.message.reply_to) == (f"{name}-queue", f"{name}-queue")
    drive(receiver.close())


def test_a_topic_in_jndi_has_the_same_durable_subscription_as_by_its_own_name(
    provider: JmsProvider, name: str
) -> None:
    drive(opened(provider, "jndi:jms/Prices?subscriber=mine&client_id=us").close())
    drive(provider.send("jndi:jms/Prices", [Message(body="kept")]))
    receiver = opened(provider, f"topic:{name}-topic?subscriber=mine&client_id=us")

    assert bodies(receiver, 1) == ["kept"]
    drive(receiver.close())


def test_a_trigger_reads_a_queue_by_its_name_in_jndi_with_a_selector(
    activemq: ActiveMqServer, name: str
) -> None:
    ran: list[object] = []
    url = f"{activemq.url}&jndi.java.naming.factory.initial={INITIAL}&jndi.queue.jms/Orders={name}"

    @trigger("jndi:jms/Orders", name=name, selector="region = 'EU'")
    def work(message: Message) -> None:
        ran.append(message.body)

    with Producer(url) as producer:
        for region in ("US", "EU"):
            producer.send(name, region, properties={"region": region})
    with Running(Consumer([work], url, history="memory://"), until_idle=0.5) as running:
        running.join()

    assert ran == ["EU"]


@pytest.mark.parametrize(
    ("destination", "setting"),
    [
        ("jndi:jms/Nobody", "jndi"),
        ("jndi:ConnectionFactory", "destination"),
        ("jndi:jms/Orders?durable=false", "destination"),
        ("jndi:jms/Orders?consumer.priority=5", "destination"),
    ],
    ids=["unknown", "not a destination", "options of a topic", "options of the provider"],
)
def test_a_name_in_jndi_that_cannot_be_used_is_refused(
    provider: JmsProvider, destination: str, setting: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        opened(provider, destination)

    assert caught.value.setting == setting
