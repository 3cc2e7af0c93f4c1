"""RabbitMQ on bad days, over both protocols: refusals, cuts, slow services, and invalid messages."""

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

from history.bridge import drive
from history.shell import ThreadShell
from tests.fixtures.network import NetworkBefore
from tests.fixtures.ports import closed_port
from tests.fixtures.servers.certificates import Certificate, make_certificate, showing
from tests.fixtures.servers.rabbitmq import new_rabbitmq, new_rabbitmq4
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.fixtures.waiting import eventually, measured
from tests.integration.helpers.consumers import Lane
from tests.integration.helpers.rabbitmq_queues import depth, raw, subscribe
from triggers import ConfigurationError, Message, Producer, ProviderUnavailableError, open_provider
from triggers.providers import Arrival, Provider, Receiver
from triggers.providers.amqp.links import ReceiverLink
from triggers.providers.brokers import connection as broker_connection
from triggers.providers.brokers.connection import LivingConnection
from triggers.providers.brokers.push_receiver import Inbox
from triggers.providers.contract.common import A_WHILE, NO_WAIT, arrivals, bodies, numbered, take
from triggers.providers.rabbitmq.codec import Origin
from triggers.providers.rabbitmq.connection import Channel, RabbitConnection
from triggers.providers.rabbitmq.consumer import RabbitmqConsumer
from triggers.providers.rabbitmq.frames import driver
from triggers.providers.rabbitmq.settings import RabbitmqSettings

pytestmark = pytest.mark.xdist_group("rabbitmq")

WIRES = ["rabbitmq", "amqp"]

ORIGIN = Origin(destination="letters", quorum=False)


@dataclass(frozen=True, slots=True)
class Site:
    """A broker, a protocol, and a destination that no other test uses."""

    server: RabbitmqServer
    wire: str
    name: str
    closing: ExitStack

    def url(self, *, options: str = "", account: str | None = None, path: str = "") -> str:
        given = f"{self.server.user}:{self.server.password}" if account is None else account
        return f"{self.wire}://{given}@127.0.0.1:{self.server.port}/{path}{options}"

    def open(self, url: str | None = None) -> Provider:
        """Open a provider that is closed with the test."""
        provider = open_provider(url or self.url())
        self.closing.callback(lambda: drive(provider.close()))
        return provider

    def receive(self, provider: Provider, destination: str | None = None) -> Receiver:
        """Open a receiver that is closed with the test."""
        place = destination or self.name
        receiver = drive(provider.open_receiver(place, subscription=self.name, name="a"))
        # The connection may be lost when this runs.
        self.closing.callback(lambda: _fails(lambda: drive(receiver.close())))
        return receiver


@pytest.fixture(params=WIRES)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    wire = cast("str", request.param)
    server = request.getfixturevalue({"rabbitmq": "rabbitmq_server", "amqp": "rabbitmq4_server"}[wire])
    with ExitStack() as closing:
        yield Site(server, wire, f"orders-{uuid4().hex[:8]}", closing)


@pytest.fixture
def finally_() -> Iterator[ExitStack]:
    """Callbacks that run at the end of the test."""
    with ExitStack() as stack:
        yield stack


def test_a_refused_login_is_said_without_the_password(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    with pytest.raises(ConfigurationError, match=r"refuses the login; correct user and password") as refused:
        site.receive(site.open(site.url(account="doubtless:wrong-secret")))

    assert "wrong-secret" not in f"{refused.value!r} {caplog.text}"


def test_a_good_password_is_not_logged_either(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    site.receive(site.open())

    assert site.server.password not in caplog.text


def test_a_virtual_host_that_does_not_exist_is_named_as_the_problem(site: Site) -> None:
    if site.wire == "amqp":
        return  # RabbitMQ hangs up over AMQP 1.0, and does not say why
    with pytest.raises(ConfigurationError, match="virtual host"):
        site.receive(site.open(site.url(path="elsewhere")))


def test_a_queue_that_does_not_exist_is_refused_for_receiving_and_for_sending(site: Site) -> None:
    provider = site.open()

    with pytest.raises(ConfigurationError, match=r"(?is)nowhere.*declare it"):
        site.receive(provider, "queue:nowhere")
    with pytest.raises(ConfigurationError, match=r"declare"):
        drive(provider.send("queue:nowhere", numbered(1)))


def test_a_stream_is_refused_with_the_remedy(site: Site) -> None:
    with closing(raw(site.server)) as connection:
        arguments = {"x-max-length-bytes": 1_000_000, "x-queue-type": "stream"}
        connection.channel().queue_declare(site.name, durable=True, arguments=arguments)

    with pytest.raises(ConfigurationError, match=r"is a stream.*; consume a quorum queue"):
        site.receive(site.open(), f"queue:{site.name}")


def test_what_nobody_would_receive_is_refused(site: Site) -> None:
    with pytest.raises(ConfigurationError, match=r"start its consumer first"):
        drive(site.open().send(site.name, numbered(1)))


def test_a_message_larger_than_the_limit_is_refused_and_the_next_one_sent(site: Site) -> None:
    provider = site.open()
    receiver = site.receive(provider)

    with pytest.raises(ConfigurationError, match=r"(?i)^message:.*size"):
        drive(provider.send(site.name, [Message(body=b"x" * 5_000_000)]))
    drive(provider.send(site.name, [Message(body="small")]))

    assert bodies(drive(take(receiver, 1))) == ["small"]


def fill(site: Site, queue: str, exchange: str = "") -> None:
    """Declare a queue that accepts no more messages."""
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    with closing(raw(site.server)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, durable=True, arguments=arguments)
        if exchange:
            channel.exchange_declare(exchange, "fanout", durable=True)
            channel.queue_bind(queue, exchange)
        channel.confirm_delivery()
        with pytest.raises(driver.exceptions.NackError):
            _publish_often(channel, queue)


def _publish_often(channel: Any, queue: str) -> None:
    for _ in range(10):
        channel.basic_publish("", queue, b"full")


def test_what_was_held_when_the_broker_took_no_dead_letter_comes_again(site: Site) -> None:
    provider = site.open()
    receiver = site.receive(provider)
    fill(site, f"full-{site.name}", f"DLQ.{site.name}")
    drive(provider.send(site.name, numbered(3)))
    held = drive(take(receiver, 3))

    with pytest.raises(ProviderUnavailableError):
        drive(receiver.dead_letter(held[:1], "because"))

    assert sorted(bodies(drive(take(receiver, 3)))) == sorted(bodies(held))


def test_what_the_broker_did_not_take_uses_up_nothing_of_the_connection(site: Site) -> None:
    """A connection to RabbitMQ has 64 sessions. In this test it also has 64 channels."""
    provider = site.open()
    site.receive(provider)
    fill(site, f"full-{site.name}")

    for _ in range(70):
        with pytest.raises(ProviderUnavailableError, match="sending"):
            drive(provider.send(f"queue:full-{site.name}", numbered(1)))

    drive(provider.send(site.name, numbered(1)))


def test_a_consumer_that_cannot_declare_its_queue_in_time_keeps_no_channel(
    rabbitmq_server: RabbitmqServer, finally_: ExitStack
) -> None:
    async def declare(_: Channel) -> str:
        raise ProviderUnavailableError("RabbitMQ", "declaring")

    account = f"{rabbitmq_server.user}:{rabbitmq_server.password}"
    _, url = RabbitmqSettings.from_url(f"rabbitmq://{account}@127.0.0.1:{rabbitmq_server.port}/")
    connection = LivingConnection(partial(RabbitConnection, url, ThreadShell()))
    finally_.callback(lambda: drive(connection.close()))
    consumer = RabbitmqConsumer(connection.opened, declare, origin=ORIGIN, name="a")

    for _ in range(70):  # a connection has 64 channels here
        with pytest.raises(ProviderUnavailableError, match="declaring"):
            drive(consumer.open(Inbox()))


@pytest.mark.prove
def test_a_consumer_goes_on_while_the_broker_takes_no_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_connection, "PATIENCE", 2.0)
    with new_rabbitmq(tmp_path) as server, ExitStack() as closing:
        site = Site(server, "rabbitmq", "orders", closing)
        provider = site.open()
        receiver = site.receive(provider)
        drive(provider.send(site.name, numbered(20)))
        server.control("set_disk_free_limit", "9000GB")

        def refused_for_the_disk() -> bool:
            with pytest.raises(ProviderUnavailableError) as refused:
                drive(provider.send(site.name, [Message(body="late")]))
            return "low on disk" in str(refused.value)

        eventually(refused_for_the_disk)  # RabbitMQ reports it some time after a message was sent
        assert refused_for_the_disk()
        for _ in range(20):  # one call for each message
            drive(receiver.acknowledge(drive(take(receiver, 1))))

        server.control("set_disk_free_limit", "10MB")
        assert bodies(drive(take(receiver, 1))) == ["late"]  # RabbitMQ now reads what it had


def test_the_first_host_that_answers_is_used(site: Site) -> None:
    account = (
        f"{site.server.user}:{site.server.password}@127.0.0.1:{closed_port()},127.0.0.1:{site.server.port}"
    )

    site.receive(site.open(f"{site.wire}://{account}/"))


def test_no_host_that_answers_is_unavailable(site: Site) -> None:
    with pytest.raises(ProviderUnavailableError):
        site.receive(site.open(f"{site.wire}://127.0.0.1:{closed_port()}/"))


def test_an_acknowledgement_over_a_line_that_is_cut_is_an_error_and_the_message_comes_again(
    site: Site, network_before: NetworkBefore
) -> None:
    network = network_before(site.url())
    provider = site.open(network.url(site.url()))
    receiver = site.receive(provider)
    drive(provider.send(site.name, numbered(1)))
    first = drive(take(receiver, 1))

    network.cut()
    # The next call notices the cut, and it is logged once.
    eventually(lambda: _fails(lambda: drive(receiver.acknowledge(first))))
    [again] = drive(take(receiver, 1))
    drive(receiver.acknowledge([again]))

    assert (again.message.uuid, again.message.delivery_count) == ("u0", 2)
    assert drive(receiver.receive(1, A_WHILE)) == []


def _fails(work: Any) -> bool:
    try:
        work()
    except ProviderUnavailableError:
        return True
    return False


def test_a_service_longer_than_the_heartbeat_keeps_its_message(
    rabbitmq_server: RabbitmqServer, rabbitmq4_server: RabbitmqServer
) -> None:
    # Longer on a slow machine: a connection without traffic for this time counts as lost.
    heartbeat = min(20, round(2 * measured()))
    with ExitStack() as closing:
        held: list[tuple[Receiver, Receiver, Arrival]] = []
        for wire, server in zip(WIRES, (rabbitmq_server, rabbitmq4_server), strict=True):
            site = Site(server, wire, f"orders-{uuid4().hex[:8]}", closing)
            provider = site.open(site.url(options=f"?heartbeat={heartbeat}"))
            receiver, another = site.receive(provider), site.receive(site.open())
            drive(provider.send(site.name, numbered(1)))
            held.append((receiver, another, drive(take(receiver, 1))[0]))

        time.sleep(3 * heartbeat)  # RabbitMQ ends a connection that missed two heartbeats

        for receiver, another, arrival in held:
            drive(receiver.acknowledge([arrival]))
            assert drive(another.receive(1, A_WHILE)) == []
            assert drive(receiver.receive(1, A_WHILE)) == []


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_than_was_asked_for_is_fetched(site: Site, limit: int) -> None:
    provider = site.open()
    receiver = site.receive(provider)
    drive(provider.send(site.name, numbered(10)))

    held = drive(take(receiver, limit))
    eventually(lambda: depth(site.server, site.name) == 10 - limit)
    drive(receiver.acknowledge(held))
    drive(receiver.receive(limit, timedelta(seconds=5)))

    assert depth(site.server, site.name) >= 10 - 2 * limit


def test_credit_that_is_granted_late_is_granted_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection may grant credit late, when the message has already come with earlier credit."""
    if site.wire == "rabbitmq":
        return  # this protocol sets a window instead of adding credit
    provider = site.open()
    receiver = site.receive(provider)
    drive(receiver.receive(3, NO_WAIT))  # has credit for 3 now
    late: list[tuple[ReceiverLink, Callable[[], object]]] = []

    def tell_later(link: ReceiverLink, work: Callable[[], object]) -> None:
        late.append((link, work))

    with monkeypatch.context() as slow:
        slow.setattr(ReceiverLink, "tell", tell_later)
        asking = threading.Thread(target=lambda: drive(receiver.receive(3, timedelta(seconds=60))))
        asking.start()
        eventually(lambda: late)
        drive(provider.send(site.name, numbered(10)))
        asking.join()
    eventually(lambda: depth(site.server, site.name) == 7)

    for link, grant in late:
        link.tell(grant)

    assert {depth(site.server, site.name) for _ in range(20)} == {7}


def test_what_was_pushed_while_nobody_asked_goes_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triggers.providers.brokers.push_receiver.IDLE", 0.0)
    provider = site.open()
    receiver, another = site.receive(provider), site.receive(site.open())
    drive(receiver.receive(5, NO_WAIT))  # it has credit now, and no more calls ask
    drive(provider.send(site.name, numbered(2)))

    def given_back() -> bool:
        drive(receiver.keep_alive())
        return depth(site.server, site.name) == 2

    eventually(given_back)
    assert bodies(drive(take(another, 2))) == ["0", "1"]


def test_a_deleted_queue_is_declared_again(site: Site) -> None:
    provider = site.open()
    receiver = site.receive(provider)
    drive(receiver.receive(1, NO_WAIT))
    connection = raw(site.server)
    connection.channel().queue_delete(f"{site.name}:{site.name}")
    connection.close()

    eventually(lambda: _fails(lambda: drive(receiver.receive(1, A_WHILE))))
    assert drive(receiver.receive(1, NO_WAIT)) == []
    drive(provider.send(site.name, numbered(1)))

    assert bodies(drive(take(receiver, 1))) == ["0"]


def test_a_request_is_answered_over_a_temporary_destination(site: Site, lane: Lane) -> None:
    subscribe(site.url(), site.name)
    with Producer(site.url()) as producer, Producer(site.url()) as service:
        answering = lane.trigger(site.name, lambda request: service.reply(request, "!"), history=None)
        with lane.run([answering], site.url()):
            reply = producer.request(site.name, "?", timeout=timedelta(seconds=20))

    assert reply is not None
    assert reply.body == "!"


def test_an_expired_certificate_is_refused_by_its_reason(site: Site, tmp_path: Path) -> None:
    expired = make_certificate(tmp_path, "server", days=-1)

    with showing(expired) as port, pytest.raises(ConfigurationError, match=r"(?i)certificate.*expired"):
        site.receive(site.open(f"{site.wire}s://a:b@localhost:{port}/?cafile={expired.certificate}"))


@pytest.mark.parametrize("wire", WIRES)
def test_certificates_are_verified_and_may_log_in(wire: str, tmp_path: Path) -> None:
    authority = make_certificate(tmp_path, "authority")
    theirs, ours = (make_certificate(tmp_path, name, authority=authority) for name in ("server", "doubtless"))
    server = new_tls_server(wire, tmp_path, theirs, authority)
    with server, ExitStack() as closing:
        site = Site(server, wire, "orders", closing)
        port = int(server.settings["listeners.ssl.1"].rpartition(":")[2])
        beginning, trusted = (
            f"{wire}s://{server.user}:{server.password}@localhost:{port}/",
            authority.certificate,
        )
        eventually(lambda: _listens(port))  # RabbitMQ's plain port answers a moment earlier
        account = f"certfile={ours.certificate}&keyfile={ours.key}"

        with pytest.raises(ConfigurationError, match=r"(?i)TLS.*certificate"):
            site.receive(site.open(beginning))
        receiver = site.receive(site.open(f"{beginning}?cafile={trusted}"))
        provider = site.open(f"{wire}s://localhost:{port}/?cafile={trusted}&sasl=external&{account}")
        drive(provider.send("orders", numbered(1)))

        assert bodies(arrivals(drive(receiver.receive(1, timedelta(seconds=10))))) == ["0"]


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def new_tls_server(wire: str, folder: Path, own: Certificate, authority: Certificate) -> RabbitmqServer:
    """Return a server with TLS. Clients log in with certificates of the authority."""
    server = new_rabbitmq(folder) if wire == "rabbitmq" else new_rabbitmq4()
    server.folder.mkdir(parents=True)
    files = {"certfile": own.certificate, "keyfile": own.key, "cacertfile": authority.certificate}
    for name, file in files.items():
        (server.folder / name).write_bytes(file.read_bytes())
    inside = "/" + str(server.folder.relative_to(server.root))
    server.settings |= {f"ssl_options.{name}": f"{inside}/{name}" for name in files}
    server.settings |= {
        "listeners.ssl.1": f"127.0.0.1:{closed_port()}",
        "ssl_options.verify": "verify_peer",
        "ssl_options.fail_if_no_peer_cert": "false",
        "ssl_cert_login_from": "common_name",
        "auth_mechanisms.1": "PLAIN",
        "auth_mechanisms.2": "EXTERNAL",
    }
    server.plugins = ("rabbitmq_auth_mechanism_ssl",)
    return server
