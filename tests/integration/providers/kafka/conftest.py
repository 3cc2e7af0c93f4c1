"""The two kinds of brokers that tests of consumer groups run on."""

from collections.abc import Iterator

import pytest

from tests.fixtures.servers.apache_kafka import APACHE_KAFKA
from tests.fixtures.servers.apache_kafka_server import AnyKafka
from tests.fixtures.servers.kafka_server import KafkaServer


@pytest.fixture(scope="module", params=["mock", pytest.param("apache", marks=APACHE_KAFKA)])
def kafka(request: pytest.FixtureRequest) -> Iterator[AnyKafka]:
    """A mock cluster, and the Apache Kafka that most tests share."""
    if request.param == "apache":
        yield request.getfixturevalue("apache_kafka")
        return
    with KafkaServer() as server:
        yield server
