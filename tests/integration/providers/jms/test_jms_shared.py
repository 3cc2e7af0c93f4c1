"""Shared subscriptions of topics (JMS 2.0) on Artemis: each message goes to one of several consumers."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from history.bridge import drive
from tests.fixtures.servers.activemq import ACTIVEMQ
from tests.fixtures.servers.activemq_server import ActiveMqServer
from tests.fixtures.servers.artemis import ARTEMIS
from tests.fixtures.servers.artemis_server import ArtemisServer
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Running
from tests.integration.providers.jms.test_jms import opened, take
from triggers import ConfigurationError, Consumer, Message, trigger
from triggers.providers.jms import JmsProvider


@pytest.fixture
def provider(artemis: ArtemisServer) -> Iterator[JmsProvider]:
    provider = JmsProvider.from_url(artemis.url)
    yield provider
    drive(provider.close())


@pytest.fixture
def topic() -> str:
    return f"topic:jms-{uuid4().hex[:12]}?shared=true"


def send(provider: JmsProvider, topic: str, count: int) -> None:
    messages = [Message(body="", uuid=f"u{number}") for number in range(count)]
    drive(provider.send(topic.partition("?")[0], messages))


@ARTEMIS
def test_two_connections_share_what_was_sent_while_both_were_away(
    artemis: ArtemisServer, provider: JmsProvider, topic: str
) -> None:
    elsewhere = JmsProvider.from_url(artemis.url)
    drive(opened(provider, topic).close())  # this creates the subscription
    send(provider, topic, 4)

    one, other = opened(provider, topic), opened(elsewhere, topic)
    [first], [second] = take(one), take(other)
    drive(one.acknowledge([first]))
    drive(other.close())  # its message comes again, to the remaining consumer
    uuids = [first.message.uuid]
    for _ in range(3):
        [taken] = take(one)
        drive(one.acknowledge([taken]))
        uuids.append(taken.message.uuid)

    assert sorted(map(str, uuids)) == ["u0", "u1", "u2", "u3"]
    assert second.message.uuid in uuids[1:]
    drive(one.close())
    drive(elsewhere.close())


@ARTEMIS
def test_a_subscription_that_is_not_durable_is_shared_while_somebody_listens(
    provider: JmsProvider, topic: str
) -> None:
    one, other = (opened(provider, f"{topic}&durable=false") for _ in range(2))

    send(provider, topic, 2)

    taken = [*take(one), *take(other)]
    assert sorted(str(each.message.uuid) for each in taken) == ["u0", "u1"]
    drive(one.close())
    drive(other.close())


@ARTEMIS
def test_the_workers_of_a_trigger_share_its_subscription(
    artemis: ArtemisServer, provider: JmsProvider, topic: str, tmp_path: Path
) -> None:
    ran: list[str] = []

    @trigger(topic, name="book", history=f"sqlite:///{tmp_path}/history.sqlite3", concurrency=3)
    def book(message: Message) -> None:
        ran.append(message.uuid or "")

    drive(opened(provider, topic, "book").close())
    send(provider, topic, 20)
    with Running(Consumer([book], artemis.url)):
        eventually(lambda: len(ran) >= 20)

    assert sorted(ran) == sorted(f"u{number}" for number in range(20))


@ACTIVEMQ
def test_a_client_of_jms_1_1_is_named(activemq: ActiveMqServer, topic: str) -> None:
    provider = JmsProvider.from_url(activemq.url)

    with pytest.raises(ConfigurationError) as refused:
        opened(provider, topic)

    assert refused.value.setting == "shared"
    drive(provider.close())


def test_a_shared_subscription_has_no_client_id() -> None:
    provider = JmsProvider.from_url("jms+tcp://127.0.0.1:1?factory=a.B")

    with pytest.raises(ConfigurationError) as refused:
        opened(provider, "topic:prices?shared=true&client_id=books")

    assert refused.value.setting == "client_id"
