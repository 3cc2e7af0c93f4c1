"""What stands in a Kafka URL: what librdkafka is told, and what is refused by name."""

import pytest

from history.errors import ConfigurationError
from triggers.providers.kafka.settings import KafkaSettings, connecting, consuming
from triggers.providers.opening import open_provider


def told(url: str) -> dict[str, object]:
    settings, read = KafkaSettings.from_url(url)
    return connecting(read, settings)


def test_hosts_and_ports_are_those_of_the_url() -> None:
    assert told("kafka://one,two:9999")["bootstrap.servers"] == "one:9092,two:9999"
    assert told("kafka://one")["security.protocol"] == "PLAINTEXT"


def test_a_login_and_tls() -> None:
    found = told("kafkas://me:se%20cret@one?mechanism=scram-sha-512&cafile=/ca.pem")

    assert found["security.protocol"] == "SASL_SSL"
    assert (found["sasl.username"], found["sasl.password"]) == ("me", "se cret")
    assert (found["sasl.mechanism"], found["ssl.ca.location"]) == ("SCRAM-SHA-512", "/ca.pem")
    assert told("kafkas://one?sasl=external&certfile=a&keyfile=b")["security.protocol"] == "SSL"


def test_a_group_is_the_triggers_own_unless_one_is_named() -> None:
    assert KafkaSettings().group_of("orders", "book") == "orders:book"
    settings, read = KafkaSettings.from_url("kafka://one?group=billing&start=latest&heartbeat=6")
    found = consuming(read, settings, settings.group_of("orders", "book"), "worker")

    assert (found["group.id"], found["auto.offset.reset"]) == ("billing", "latest")
    assert (found["session.timeout.ms"], found["enable.auto.commit"]) == (6000, False)


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("kafka://one?start=now", "start"),
        ("kafka://one?mechanism=GSSAPI", "mechanism"),
        ("kafka://one?group=", "group"),
        ("kafka://one?topic=orders", "topic"),
        ("kafka://one/orders", "orders"),
        ("kafka://", "host"),
    ],
)
def test_what_cannot_be_is_refused_by_name(url: str, field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        open_provider(url)
