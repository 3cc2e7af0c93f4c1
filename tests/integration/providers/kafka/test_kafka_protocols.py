"""Options of a URL for members of a group: the new group protocol, and static membership."""

import logging
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import ConsumerGroupType

from history.bridge import drive
from tests.fixtures.servers.apache_kafka import APACHE_KAFKA
from tests.fixtures.servers.apache_kafka_server import ApacheKafkaServer
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Running
from triggers import ConfigurationError, Consumer, Message, trigger
from triggers.providers.kafka.provider import Kafka

pytestmark = [APACHE_KAFKA, pytest.mark.prove]

#: So many messages are sent together, each with a different key, to so many partitions.
SENT, PARTITIONS = 40, 4


class Group:
    """Consumers of one group; ``ran`` counts the messages."""

    def __init__(self, server: ApacheKafkaServer, history: str) -> None:
        self.topic = f"orders-{uuid4().hex[:8]}"
        self.ran: Counter[str] = Counter()
        self._server, self._history, self._sent = server, history, 0
        server.create(self.topic, PARTITIONS)

    @property
    def described(self) -> Any:
        return self._server.describe(f"{self.topic}:book")

    def member(self, name: str, options: str) -> Running:
        @trigger(self.topic, name="book")
        def book(message: Message) -> None:
            self.ran[message.uuid or ""] += 1

        return Running(
            Consumer([book], f"{self._server.patient_url}&{options}", history=self._history, name=name)
        )

    def send(self) -> None:
        numbers = range(self._sent, self._sent + SENT)
        self._sent += SENT
        provider = Kafka.from_url(self._server.url)
        drive(
            provider.send(self.topic, [Message(uuid=f"{one}", body="", group_id=f"{one}") for one in numbers])
        )
        drive(provider.close())

    def await_all(self) -> None:
        """Wait until all messages have run and are settled, each once."""
        eventually(lambda: len(self.ran) == self._sent)
        eventually(lambda: self._server.depth(self.topic, f"{self.topic}:book") == 0)
        assert set(self.ran.values()) == {1}


@pytest.fixture
def group(apache_kafka: ApacheKafkaServer, tmp_path: Path) -> Group:
    return Group(apache_kafka, f"sqlite:///{tmp_path}/history.sqlite3")


def came_and_went(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message.partition(": ")[2] for message in caplog.messages if ": partitions " in message]


def test_members_of_the_new_protocol_share_partitions_and_hand_them_over(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    new = "group.protocol=consumer"
    with caplog.at_level(logging.INFO, "triggers.providers.kafka"), group.member("a", new):
        group.send()
        group.await_all()
        with group.member("b", new):
            eventually(lambda: len(came_and_went(caplog)) >= 3)  # a gets all, a loses some, b gets them
            assert group.described.type is ConsumerGroupType.CONSUMER
            group.send()
            group.await_all()
        group.send()
        group.await_all()


def test_a_static_member_that_restarts_soon_gets_its_partitions_and_nobody_elses_move(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = "group.instance.id=a", "group.instance.id=b"
    with caplog.at_level(logging.INFO, "triggers.providers.kafka"), group.member("a", a):
        eventually(lambda: came_and_went(caplog))
        with group.member("b", b):
            eventually(lambda: len(came_and_went(caplog)) >= 3)
            group.send()
            group.await_all()
            caplog.clear()
        assert len(group.described.members) == 2  # the member did not leave the group
        with group.member("b", b):
            eventually(lambda: len(came_and_went(caplog)) >= 2)
            group.send()
            group.await_all()
            lost, got = came_and_went(caplog)

    assert lost.replace("are no longer ours", "are ours now") == got


def test_a_consumer_whose_static_id_is_taken_by_another_ends_and_names_it(group: Group) -> None:
    with group.member("a", "group.instance.id=shop") as first:
        group.send()
        group.await_all()
        with group.member("b", "group.instance.id=shop"):
            eventually(lambda: not first.alive)
            group.send()
            group.await_all()
        with pytest.raises(ConfigurationError, match=r"^group\.instance\.id"):
            first.join()


def test_a_static_member_of_the_new_protocol_waits_until_its_id_is_free(group: Group) -> None:
    options = "group.protocol=consumer&group.instance.id=shop"
    with group.member("a", options) as first:
        group.send()
        group.await_all()
        with group.member("b", options) as second:
            [gate] = second.gates
            eventually(lambda: gate.away is not None)
            first.stop()
            group.send()
            group.await_all()


def test_an_assignor_that_the_brokers_do_not_know_is_named(group: Group) -> None:
    options = "group.protocol=consumer&group.remote.assignor=none"
    with group.member("a", options) as member, pytest.raises(ConfigurationError, match=r"^group\.remote"):
        member.join()


def test_a_session_that_the_brokers_do_not_allow_is_named(group: Group) -> None:
    options = "heartbeat=3600"  # they allow half an hour
    with group.member("a", options) as member, pytest.raises(ConfigurationError, match=r"^heartbeat"):
        member.join()
