"""What a consumer group of Apache Kafka says of a message that was delivered before: at most a flag.

Each consumer writes beside the group's offset how far it was handed messages, five times a second. So after a
kill the flag may be there, and may not: the profile says the worse of the two.
"""

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

import pytest

from history.bridge import drive
from history.message import Message
from tests.fixtures.servers.apache_kafka import APACHE_KAFKA
from tests.fixtures.servers.apache_kafka_server import ApacheKafkaServer
from triggers.providers.brokers.trust import KAFKA, Effect, Happening
from triggers.providers.contract.common import SOON, numbered, take
from triggers.providers.kafka.provider import Kafka
from triggers.providers.provider import Arrival, ProviderUnavailableError, Receiver

pytestmark = APACHE_KAFKA


def opened(kafka: ApacheKafkaServer, topic: str) -> Receiver:
    return drive(Kafka.from_url(kafka.url).open_receiver(topic, subscription="s", name="a"))


def first_of(receiver: Receiver) -> Arrival:
    [arrival] = drive(take(receiver, 1))
    return arrival


def sent_to(kafka: ApacheKafkaServer) -> str:
    """Return a topic with one message."""
    topic = f"orders-{uuid4().hex[:8]}"
    kafka.create(topic, 1)
    provider = Kafka.from_url(kafka.url)
    drive(provider.send(topic, numbered(1)))
    drive(provider.close())
    return topic


def give_back(kafka: ApacheKafkaServer, topic: str) -> Message:
    receiver = opened(kafka, topic)
    drive(receiver.recover([first_of(receiver)]))
    again = first_of(receiver).message
    drive(receiver.close())
    return again


def close(kafka: ApacheKafkaServer, topic: str) -> Message:
    receiver = opened(kafka, topic)
    first_of(receiver)
    drive(receiver.close())
    return next_of(kafka, topic)


def next_of(kafka: ApacheKafkaServer, topic: str) -> Message:
    receiver = opened(kafka, topic)
    again = first_of(receiver).message
    drive(receiver.close())
    return again


@pytest.mark.parametrize(
    ("happening", "bring_about"), [(Happening.RETURNED, give_back), (Happening.RELEASED, close)]
)
def test_what_is_given_back_is_flagged(
    apache_kafka: ApacheKafkaServer,
    happening: Happening,
    bring_about: Callable[[ApacheKafkaServer, str], Message],
) -> None:
    again = bring_about(apache_kafka, sent_to(apache_kafka))

    assert KAFKA.effects[happening] is Effect.FLAGGED
    assert (again.delivery_count, again.redelivered) == (-1, True)


@pytest.mark.crash
def test_what_a_killed_consumer_had_comes_without_a_count(apache_kafka: ApacheKafkaServer) -> None:
    topic = sent_to(apache_kafka)
    taker = [sys.executable, "-m", "tests.integration.providers.rabbitmq.taker", apache_kafka.url, topic]
    assert subprocess.run(taker, check=False, timeout=SOON).returncode == -signal.SIGKILL

    again = next_of(apache_kafka, topic)

    assert KAFKA.effects[Happening.CONSUMER_KILLED] is Effect.FORGOTTEN
    assert (again.uuid, again.delivery_count) == ("u0", -1)


@pytest.mark.crash
@pytest.mark.prove
def test_what_was_delivered_before_the_broker_was_killed_comes_without_a_count(
    private_apache_kafka: ApacheKafkaServer,
) -> None:
    kafka = private_apache_kafka
    topic = sent_to(kafka)
    receiver = opened(kafka, topic)
    first_of(receiver)
    kafka.kill()
    kafka.start()
    with suppress(ProviderUnavailableError):
        drive(receiver.close())

    again = next_of(kafka, topic)

    assert KAFKA.effects[Happening.BROKER_KILLED] is Effect.FORGOTTEN
    assert (again.uuid, again.delivery_count) == ("u0", -1)
