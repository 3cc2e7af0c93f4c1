"""Accounts, TLS and permissions on Apache Kafka, with the options and the list of permissions of the docs."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from history import ConfigurationError, MemoryHistory, NotPermittedError, ParkedKind
from history.bridge import drive
from tests import ROOT
from tests.fixtures.servers.apache_kafka import APACHE_KAFKA
from tests.fixtures.servers.apache_kafka_secure import SecureKafkaServer
from tests.fixtures.servers.certificates import make_certificate
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Running, parked_in
from tests.integration.helpers.given_up import hearing
from triggers import Consumer, FatalError, Message, trigger
from triggers.providers import Received, Receiver
from triggers.providers.contract.common import arrivals, take
from triggers.providers.kafka.provider import Kafka
from triggers.sinks import DeadLetterSink

pytestmark = APACHE_KAFKA

#: This account may send and receive in each test.
SHOP = "shop"

#: A row of the rights in the docs: the purpose, the kind of resource, its name, and the operation.
_LISTED = re.compile(
    r"^\| (.+?) \| the (topic|group|transactional id) `([^`]+)`.* \| (\w+) \|$", re.MULTILINE
)

Right = tuple[str, str, str]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafkaServer]:
    folder = tmp_path_factory.mktemp("secure-kafka") / "kafka"
    with SecureKafkaServer(folder, [SHOP]) as server:
        yield server


@pytest.fixture
def topic(kafka: SecureKafkaServer) -> str:
    """Make a topic with a topic for its dead letters; the shop may use both."""
    name = f"orders-{uuid4().hex[:8]}"
    for one in (name, f"DLQ.{name}"):
        kafka.create(one, 1)
        kafka.allow(SHOP, ("TOPIC", one, "READ"), ("TOPIC", one, "WRITE"))
    kafka.allow(SHOP, ("GROUP", f"{name}:book", "READ"))
    return name


@dataclass(frozen=True)
class Account:
    """An account that may do only what its test allows."""

    kafka: SecureKafkaServer
    name: str

    @property
    def url(self) -> str:
        return self.kafka.secure_url(self.name, "SCRAM-SHA-512")

    def may(self, *rights: Right) -> None:
        self.kafka.allow(self.name, *rights)


@pytest.fixture
def account(kafka: SecureKafkaServer) -> Account:
    found = Account(kafka, f"least-{uuid4().hex[:8]}")
    kafka.make_account(found.name)
    return found


def send(url: str, topic: str, *bodies: str) -> None:
    provider = Kafka.from_url(url)
    try:
        drive(provider.send(topic, [Message(body=body) for body in bodies or ["refused"]]))
    finally:
        drive(provider.close())


def received(url: str, topic: str) -> list[object]:
    """Receive and settle the next message of the trigger's group, and return its body."""
    provider = Kafka.from_url(url)
    receiver = drive(provider.open_receiver(topic, subscription="book", name="a"))
    try:
        found = arrivals(drive(take(receiver, 1)))
        drive(receiver.acknowledge(found))
        return [one.message.body for one in found]
    finally:
        drive(receiver.close())
        drive(provider.close())


#: The ways in which an account may log in.
LOGINS: Mapping[str, Callable[[SecureKafkaServer], str]] = {
    "PLAIN": lambda kafka: kafka.secure_url(SHOP, "PLAIN"),
    "SCRAM-SHA-256": lambda kafka: kafka.secure_url(SHOP, "SCRAM-SHA-256"),
    "SCRAM-SHA-512": lambda kafka: kafka.secure_url(SHOP, "SCRAM-SHA-512"),
    "without TLS": lambda kafka: kafka.open_url(SHOP),
    "token": lambda kafka: kafka.token_url(SHOP),
}


@pytest.mark.parametrize("login", LOGINS)
def test_an_account_sends_and_receives(kafka: SecureKafkaServer, topic: str, login: str) -> None:
    url = LOGINS[login](kafka)

    send(url, topic, "one")

    assert received(url, topic) == ["one"]


def test_a_certificate_logs_in_in_place_of_a_password(kafka: SecureKafkaServer, topic: str) -> None:
    url = kafka.certified_url("client")
    rights = [("TOPIC", topic, "READ"), ("TOPIC", topic, "WRITE"), ("GROUP", f"{topic}:book", "READ")]
    kafka.allow("CN=client", *rights)

    send(url, topic, "one")

    assert received(url, topic) == ["one"]


def refused(caplog: pytest.LogCaptureFixture) -> int:
    """Return the number of refusals by Kafka in the log."""
    return sum(record.levelno >= logging.ERROR for record in caplog.records)


def ping(url: str, topic: str) -> None:
    provider = Kafka.from_url(url)
    try:
        drive(provider.ping())
    finally:
        drive(provider.close())


def consume(url: str, topic: str) -> None:
    @trigger(topic, name="book", history=MemoryHistory(), max_delivery_count=4)
    def book(message: Message) -> None: ...

    Consumer([book], url).run(until_idle=0.5)


#: Everything that connects.
ATTEMPTS = pytest.mark.parametrize("attempt", [send, ping, consume])


@ATTEMPTS
@pytest.mark.parametrize("mechanism", ["PLAIN", pytest.param("SCRAM-SHA-512", marks=pytest.mark.prove)])
def test_a_wrong_password_is_named(
    kafka: SecureKafkaServer,
    topic: str,
    mechanism: str,
    attempt: Callable[[str, str], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = kafka.secure_url(SHOP, mechanism, password="wrong")  # noqa: S106  (of a server of a test)

    with pytest.raises(ConfigurationError, match=r"refuses the login .* correct user, password"):
        attempt(url, topic)

    assert refused(caplog) == 0  # the error contains it


@ATTEMPTS
@pytest.mark.parametrize("trusted", ["another", pytest.param("none", marks=pytest.mark.prove)])
def test_a_certificate_that_is_not_trusted_is_named(
    kafka: SecureKafkaServer, topic: str, tmp_path: Path, trusted: str, attempt: Callable[[str, str], None]
) -> None:
    another = make_certificate(tmp_path, "another").certificate
    named, _, _ = kafka.secure_url(SHOP).rpartition("&cafile=")
    url = f"{named}&cafile={another}" if trusted == "another" else named

    with pytest.raises(ConfigurationError, match=r"cannot be reached over TLS .* name its cafile"):
        attempt(url, topic)


@pytest.mark.prove  # the client tries for half a minute
def test_a_transaction_of_a_wrong_password_says_so(kafka: SecureKafkaServer, topic: str) -> None:
    url = kafka.secure_url(SHOP, password="wrong")  # noqa: S106  (of a server of a test)

    with pytest.raises(ConfigurationError, match="refuses the login"):
        send(f"{url}&transactional_id={topic}", topic, "refused")


def test_a_producer_goes_on_when_its_account_is_there(kafka: SecureKafkaServer, topic: str) -> None:
    late = f"late-{uuid4().hex[:8]}"
    kafka.allow(late, ("TOPIC", topic, "WRITE"))
    provider = Kafka.from_url(kafka.secure_url(late, "SCRAM-SHA-512"))
    with pytest.raises(ConfigurationError, match="refuses the login"):
        drive(provider.send(topic, [Message(body="refused")]))

    kafka.make_account(late)

    drive(provider.send(topic, [Message(body="sent")]))
    drive(provider.close())
    assert received(kafka.secure_url(SHOP), topic) == ["sent"]


def listed(*purposes: str, topic: str) -> list[Right]:
    """Return the rights that the docs list for these purposes, with the test's topic instead."""
    page = (ROOT / "docs" / "how-to" / "run-on-kafka.md").read_text("utf-8")
    return [
        (
            kind.replace(" ", "_").upper(),
            re.sub("orders|NAME", topic, name).replace(":book-order", ":book"),
            operation.upper(),
        )
        for purpose, kind, name, operation in _LISTED.findall(page)
        if purpose.startswith(purposes) or purpose.startswith(tuple(f"[{one}" for one in purposes))
    ]


@pytest.mark.parametrize("kept_in", ["entries", "offsets"])
def test_the_documented_rights_are_enough_for_a_trigger_that_parks_and_writes_dead_letters(
    kafka: SecureKafkaServer, account: Account, topic: str, tmp_path: Path, kept_in: str
) -> None:
    kafka.create(f"{topic}.dead", 1)
    rights = listed("a trigger", "dead letters", topic=topic)
    assert sorted(operation for *_, operation in rights) == ["READ", "READ", "WRITE"]
    account.may(*rights)
    url, database = account.url, f"sqlite:///{tmp_path}/shop.sqlite3"
    send(kafka.secure_url(SHOP), topic, "good", "bad", "good")

    with hearing(DeadLetterSink(Kafka.from_url(url)), "book"):
        ran = (run_atomic if kept_in == "offsets" else run)(url, topic, database)

    assert ran == ["good", "bad", "good"]
    assert [one.kind for one in parked_in(database, "book")] == [ParkedKind.REJECTED]
    assert kafka.depth(topic, f"{topic}:book") == 0
    kafka.allow(SHOP, ("TOPIC", f"{topic}.dead", "READ"), ("GROUP", f"{topic}.dead:book", "READ"))
    assert received(kafka.secure_url(SHOP), f"{topic}.dead") == ["bad"]


def run(url: str, topic: str, history: str) -> list[object]:
    ran: list[object] = []

    @trigger(topic, name="book", history=history)
    def book(message: Message) -> None:
        work(message.body, ran)

    return finished(Consumer([book], url), ran, history)


def run_atomic(url: str, topic: str, database: str) -> list[object]:
    ran: list[object] = []

    @trigger(topic, name="book", transacted=True)
    def book(message: Message, connection: Connection) -> None:
        work(message.body, ran)

    return finished(Consumer([book], f"{url}&offsets={quote(database, safe='')}"), ran, database)


def work(body: object, ran: list[object]) -> None:
    ran.append(body)
    if body == "bad":
        raise FatalError("no such account")


def finished(consumer: Consumer, ran: list[object], history: str) -> list[object]:
    """Run until all three messages have run and one of them is parked. Return the runs."""
    with Running(consumer) as running:
        eventually(lambda: (len(ran) == 3 and parked_in(history, "book")) or not running.alive)
    return ran


@pytest.mark.parametrize("share", ["", "&share=true"])
@pytest.mark.parametrize("missing", [0, 1], ids=["topic", "group"])
def test_each_right_that_a_trigger_lacks_is_named(
    kafka: SecureKafkaServer, account: Account, topic: str, missing: int, share: str
) -> None:
    rights = listed("a trigger", topic=topic)
    kind, name, _ = rights.pop(missing)
    account.may(*rights)

    with pytest.raises(NotPermittedError, match=f"{name}.*give the account Read on this {kind.lower()}"):
        consume(account.url + share, topic)


def test_a_topic_that_may_be_written_and_not_read_is_named_when_it_is_fetched(
    kafka: SecureKafkaServer, account: Account, topic: str
) -> None:
    account.may(("TOPIC", topic, "WRITE"), ("GROUP", f"{topic}:book", "READ"))

    with pytest.raises(NotPermittedError, match=f"{topic}.*give the account Read on this topic"):
        consume(account.url, topic)


@pytest.mark.parametrize("known", [(), ("READ",)], ids=["nothing", "reading"])
def test_a_dead_letter_topic_that_may_not_be_written_is_named(
    kafka: SecureKafkaServer, account: Account, topic: str, known: tuple[str, ...]
) -> None:
    letters = f"DLQ.{topic}"
    account.may(*listed("a trigger", topic=topic), *(("TOPIC", letters, one) for one in known))
    send(kafka.secure_url(SHOP), topic, "bad")
    provider = Kafka.from_url(account.url)
    receiver = drive(provider.open_receiver(topic, subscription="book", name="a"))
    found = arrivals(drive(take(receiver, 1)))

    with pytest.raises(NotPermittedError, match=f"{letters}.*or Write to send to it"):
        drive(receiver.dead_letter(found, "no sense"))

    account.may(*listed("`Receiver.dead_letter`", topic=topic))
    eventually(lambda: is_written(receiver, found))  # the client remembers the refusal for a moment
    drive(receiver.close())
    drive(provider.close())


def is_written(receiver: Receiver, letters: Sequence[Received]) -> bool:
    try:
        drive(receiver.dead_letter(letters, "no sense"))
    except NotPermittedError:
        return False
    return True


def test_the_documented_rights_are_enough_for_transactions(
    kafka: SecureKafkaServer, account: Account, topic: str
) -> None:
    url = f"{account.url}&transactional_id={topic}"
    account.may(*listed("sending", topic=topic))
    with pytest.raises(NotPermittedError, match=r"transactional_id.*give the account Write on it"):
        send(url, topic, "refused")

    account.may(*listed("`?transactional_id=", topic=topic))

    send(url, topic, "sent")
    assert received(kafka.secure_url(SHOP), topic) == ["sent"]


def test_the_documented_rights_are_enough_for_a_share_group(
    kafka: SecureKafkaServer, account: Account, topic: str
) -> None:
    kafka.set_group(f"{topic}:book", share_auto_offset_reset="earliest")
    account.may(*listed("a trigger", topic=topic))
    send(kafka.secure_url(SHOP), topic, "one")

    assert received(f"{account.url}&share=true", topic) == ["one"]
