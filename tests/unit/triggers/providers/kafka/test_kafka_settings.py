"""Kafka URLs: the settings that librdkafka gets, and the options that are refused by name."""

import pytest

from history.bridge import drive
from triggers import ConfigurationError, open_provider
from triggers.configuration.hiding import hidden
from triggers.providers.kafka.driver import driver, made
from triggers.providers.kafka.provider import Kafka
from triggers.providers.kafka.settings import (
    KafkaSettings,
    connecting,
    consuming,
    producing,
    sharing,
    transacting,
)

#: URLs that leave the pause after a full queue to us, and URLs that set it.
WAITS = ["kafka://one", "kafka://one?fetch.queue.backoff.ms=500"]


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

    assert (found["group.id"], settings.start) == ("billing", "latest")
    assert found["auto.offset.reset"] == "earliest"  # no message that retention has kept is skipped
    assert (found["session.timeout.ms"], found["enable.auto.commit"]) == (6000, False)


def test_what_sends_in_transactions_has_an_id_and_more_time_than_a_delivery_takes() -> None:
    settings, read = KafkaSettings.from_url("kafka://one?transactional_id=shop-1")
    found = transacting(read, settings, 30.0)

    assert (found["transactional.id"], found["enable.idempotence"]) == ("shop-1", True)
    assert found["delivery.timeout.ms"] < found["transaction.timeout.ms"]
    assert "transactional.id" not in producing(read, settings, 30.0)


def test_options_with_a_dot_are_passed_on_to_every_client() -> None:
    settings, read = KafkaSettings.from_url("kafka://one?compression.type=zstd&client.rack=eu-1")
    passed = {"compression.type": "zstd", "client.rack": "eu-1"}

    for found in (
        consuming(read, settings, "orders:book", "worker-1"),
        sharing(read, settings, "orders:book", "worker-1"),
        producing(read, settings, 30.0),
    ):
        assert found.items() >= passed.items()


def test_a_full_queue_is_filled_again_soon_unless_the_url_says_when() -> None:
    told = [consuming(read, settings, "g", "n-0") for settings, read in map(KafkaSettings.from_url, WAITS)]

    assert [one["fetch.queue.backoff.ms"] for one in told] == [10, "500"]


def test_settings_that_are_possible_only_together_are_taken() -> None:
    url = "kafka://one?receive.message.max.bytes=2000000&fetch.max.bytes=1000000"

    settings, _ = KafkaSettings.from_url(url)

    assert settings.client.keys() == {"receive.message.max.bytes", "fetch.max.bytes"}


@pytest.mark.parametrize("heartbeat", [6, 300, 1800])
def test_the_client_takes_every_heartbeat_that_brokers_take(heartbeat: int) -> None:
    settings, read = KafkaSettings.from_url(f"kafka://one?heartbeat={heartbeat}")

    made(driver.Consumer, consuming(read, settings, "orders:book", "worker-1")).close()


def test_a_certificate_that_does_not_exist_is_no_outage() -> None:
    provider = open_provider("kafkas://one?cafile=/no/such.pem")

    with pytest.raises(ConfigurationError, match=r"^ssl\.ca\.location: is refused by Kafka's client"):
        drive(provider.open_receiver("orders", subscription="book", name="worker-1"))


def test_in_the_new_protocol_the_brokers_decide_about_sessions_and_partitions() -> None:
    settings, read = KafkaSettings.from_url("kafka://one?group.protocol=consumer")
    found = consuming(read, settings, "orders:book", "worker-1")

    classic = {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"}
    assert (found["group.protocol"], found.keys() & classic) == ("consumer", set())
    driver.Consumer(found).close()  # librdkafka refuses settings that contradict each other


def test_each_worker_has_a_static_id_of_its_own() -> None:
    settings, read = KafkaSettings.from_url("kafka://one?group.instance.id=shop-1")
    names = ["host-77-ab-book-1", "host-77-ab-book-2"]

    found = [consuming(read, settings, "orders:book", name)["group.instance.id"] for name in names]

    assert found == ["shop-1-1", "shop-1-2"]


def test_oauth_logs_in_without_an_account_and_its_secret_is_in_no_text() -> None:
    url = "kafkas://one?mechanism=OAUTHBEARER&sasl.oauthbearer.method=oidc&sasl.oauthbearer.client.secret=hunter2"
    settings, read = KafkaSettings.from_url(url)
    found = connecting(read, settings)

    assert (found["security.protocol"], found["sasl.mechanism"]) == ("SASL_SSL", "OAUTHBEARER")
    assert found["sasl.oauthbearer.client.secret"] == "hunter2"
    assert "sasl.username" not in found
    assert "hunter2" not in f"{settings} {read} {hidden(url)}"


def test_a_share_group_is_told_little_for_its_settings_are_the_brokers() -> None:
    settings, read = KafkaSettings.from_url(
        "kafka://one?share=true&fetch=7&record_lock=60&delivery_limit=9&first_count=as_told"
    )
    found = sharing(read, settings, settings.group_of("orders", "book"), "worker")

    assert (found["group.id"], found["client.id"], found["max.poll.records"]) == ("orders:book", "worker", 7)
    assert "session.timeout.ms" not in found
    assert (settings.share, settings.record_lock, settings.delivery_limit) == (True, 60, 9)


def test_a_count_of_1_proves_nothing_unless_it_is_asked_for() -> None:
    weighed, _ = KafkaSettings.from_url("kafka://one?share=true")
    believed, _ = KafkaSettings.from_url("kafka://one?share=true&first_count=as_told")

    assert [weighed.count_of(count) for count in (1, 2, 5)] == [-1, 2, 5]
    assert [believed.count_of(count) for count in (1, 2)] == [1, 2]


def test_a_limit_that_the_brokers_reach_first_is_refused_with_the_number_to_give() -> None:
    settings, _ = KafkaSettings.from_url("kafka://one?share=true")
    KafkaSettings().check_limit(100)
    settings.check_limit(4)

    with pytest.raises(ConfigurationError, match=r"max_delivery_count: is 5.*set it to 4 or less"):
        settings.check_limit(5)


def test_a_client_without_share_groups_is_named_with_the_one_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(driver, "ShareConsumer")
    provider = Kafka.from_url("kafka://one?share=true")

    with pytest.raises(ConfigurationError, match=r"share: confluent-kafka .* install confluent-kafka>=2\.16"):
        drive(provider.open_receiver("orders", subscription="s", name="a"))


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("kafka://one?start=now", "start"),
        ("kafka://one?mechanism=GSSAPI", "mechanism"),
        ("kafka://one?group=", "group"),
        ("kafka://one?transactional_id=", "transactional_id: is empty"),
        ("kafka://one?topic=orders", "topic"),
        ("kafka://one/orders", "orders"),
        ("kafka://", "host"),
        ("kafka://one?share=yes", "share"),
        ("kafka://one?fetch=5", "fetch: is for a share group"),
        ("kafka://one?share=false&first_count=as_told", "first_count: is for a share group"),
        ("kafka://one?share=true&start=latest", r"share\.auto\.offset\.reset"),
        ("kafka://one?share=true&fetch=0", "fetch: must be a whole number from 1"),
        ("kafka://one?share=true&record_lock=soon", "record_lock"),
        ("kafka://one?share=true&delivery_limit=1", "delivery_limit: must be a whole number from 2"),
        ("kafka://one?share=true&first_count=2", "first_count"),
        ("kafka://one?offsets=", "offsets: is empty"),
        ("kafka://one?no.such=1", r"no\.such: is refused by Kafka's client"),
        ("kafka://one?compression.type=best", r"compression\.type: is refused by Kafka's client"),
        ("kafka://one?heartbeat=3601", "heartbeat: is 3601 seconds"),
        ("kafka://one?max.in.flight=10", r"max\.in\.flight: is refused by Kafka's client"),
        ("kafka://one?max.poll.interval.ms=1000", r"max\.poll\.interval\.ms: is refused by Kafka's client"),
        ("kafka://one?delivery.report.only.error=true", r"delivery\.report\.only\.error: is refused"),
        ("kafka://one?default.topic.config=1", r"default\.topic\.config: is refused by Kafka's client"),
        ("kafka://one?share=true&queued.min.messages=1", r"queued\.min\.messages: is refused"),
        ("kafka://one?message.send.max.retries=0", r"message\.send\.max\.retries: is not yours to set"),
        ("kafka://one?group.id=shop", r"group\.id: is not yours to set; use group="),
        ("kafka://one?enable.auto.commit=true", r"enable\.auto\.commit"),
        ("kafka://one?isolation.level=read_uncommitted", r"isolation\.level"),
        ("kafka://one?share=true&group.instance.id=a", r"group\.instance\.id: is for a consumer group"),
        ("rabbitmq://one?compression.type=zstd", "compression"),
        (
            "kafka://one?share=true&offsets=sqlite:///a.db",
            "offsets: a share group has none; leave share=true",
        ),
        ("kafka://one?offsets=sqlite://", "offsets: a SQLite database in memory"),
        ("kafka://one?offsets=redis://two", "cannot use redis"),
    ],
)
def test_what_cannot_be_is_refused_by_name(url: str, field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        open_provider(url)


@pytest.mark.parametrize(
    "offsets", ["postgresql://me:hunter2@two/shop", "postgresql%3A%2F%2Fme%3Ahunter2%40two%2Fshop"]
)
def test_the_password_of_the_offsets_is_in_no_text(offsets: str) -> None:
    settings, read = KafkaSettings.from_url(f"kafka://one?offsets={offsets}")

    assert settings.offsets == "postgresql://me:hunter2@two/shop"
    assert "hunter2" not in f"{settings} {read}"
    with pytest.raises(ConfigurationError) as refused:
        open_provider(f"kafka://one?start=never&offsets={offsets}")
    assert "hunter2" not in str(refused.value)
