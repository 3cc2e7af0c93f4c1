"""Links that the peer does not receive, and the number of deliveries after which RabbitMQ gives up."""

import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any, cast

import pytest
from proton import Url
from proton.reactor import Container

from history.bridge import drive
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.fixtures.waiting import PATIENCE
from tests.integration.helpers.rabbitmq_queues import raw, subscribe
from triggers.providers import DeliveryLimit, GivingUp
from triggers.providers.amqp import connection as amqp_connection
from triggers.providers.contract.common import numbered
from triggers.providers.opening import open_provider
from triggers.providers.rabbitmq.frames import driver
from triggers.providers.rabbitmq.limits import DEFAULT_LIMIT
from triggers.testing.redis_server import free_port

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("rabbitmq")]


class Deaf:
    """A broker that accepts everything, but ignores the links in a connection's first session."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._acceptor: Any = None
        self._unheard: Any = None
        self.listens = threading.Event()
        self.accepted = 0

    def on_reactor_init(self, event: Any) -> None:
        url: Any = Url  # it has no types
        self._acceptor = event.container.listen(url(f"127.0.0.1:{self._port}"))
        self.listens.set()

    def on_connection_remote_open(self, event: Any) -> None:
        event.connection.open()

    def on_session_remote_open(self, event: Any) -> None:
        if self._unheard is None:
            self._unheard = event.session
        else:
            event.session.open()

    def on_link_remote_open(self, event: Any) -> None:
        if event.session != self._unheard:
            event.link.source.copy(event.link.remote_source)
            event.link.target.copy(event.link.remote_target)
            event.link.open()
            event.link.flow(10)

    def on_delivery(self, event: Any) -> None:
        if event.delivery.readable and not event.delivery.partial:
            event.link.recv(event.delivery.pending)
            event.link.advance()
            event.delivery.update(event.delivery.ACCEPTED)
            event.delivery.settle()
            self.accepted += 1

    def on_connection_remote_close(self, event: Any) -> None:
        event.connection.close()
        self._acceptor.close()


@contextmanager
def listening(peer: Deaf) -> Generator[None]:
    thread = threading.Thread(target=Container(peer).run, daemon=True)
    thread.start()
    assert peer.listens.wait(PATIENCE)
    yield
    thread.join(PATIENCE)


def test_a_link_of_which_the_peer_does_not_hear_is_attached_in_another_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(amqp_connection, "_UNHEARD", 0.1)
    peer = Deaf(port := free_port())

    with listening(peer):
        provider = open_provider(f"amqp://127.0.0.1:{port}")
        drive(provider.send("orders", numbered(1)))
        drive(provider.close())

    assert peer.accepted == 1


QUORUM = {"x-queue-type": "quorum"}


#: The arguments of queues, by their names.
QUEUES = {
    "limits-classic": {},
    "limits-plain": QUORUM,
    "limits-set": {
        **QUORUM,
        "x-delivery-limit": 7,
        "x-dead-letter-exchange": "dead.ones",
        "x-dead-letter-routing-key": "here",
        "x-max-length": 1000,
        "x-single-active-consumer": True,
    },
}


def limits(url: str) -> dict[str, DeliveryLimit | None]:
    """Return the delivery limit of each queue, and of a queue that does not exist, by the end of its name."""
    provider = open_provider(url)
    try:
        names = [*QUEUES, "limits-missing"]
        asked = cast("GivingUp", provider)
        found = {name: drive(asked.delivery_limit(f"queue:{name}", "any")) for name in names}
        return found | {"limits-ours": drive(asked.delivery_limit("limits-ours", "limits-ours"))}
    finally:
        drive(provider.close())


@pytest.mark.parametrize("wire", ["rabbitmq", "rabbitmq4", "amqp"])
def test_a_queue_is_asked_for_its_delivery_limit(request: pytest.FixtureRequest, wire: str) -> None:
    server: RabbitmqServer = request.getfixturevalue(
        "rabbitmq_server" if wire == "rabbitmq" else "rabbitmq4_server"
    )
    with closing(raw(server)) as connection:
        for name, arguments in QUEUES.items():
            connection.channel().queue_declare(name, durable=True, arguments=arguments)
    url = request.getfixturevalue(f"{wire}_url")
    subscribe(url, "limits-ours")

    found = limits(url)

    assert (found["limits-classic"], found["limits-missing"]) == (None, None)
    plain, known, ours = (found[f"limits-{name}"] for name in ("plain", "set", "ours"))
    assert plain is not None
    assert known is not None
    assert ours is not None
    assert (plain.deliveries, plain.is_kept) == (None if wire == "rabbitmq" else DEFAULT_LIMIT + 1, False)
    assert (known.deliveries, known.then) == (8, "it goes to the exchange dead.ones")
    assert (ours.deliveries, ours.is_kept) == (None, True)
    assert "a policy" in plain.unseen
    with closing(raw(server)) as connection, pytest.raises(driver.exceptions.ChannelClosedByBroker):
        connection.channel().queue_declare("limits-missing", passive=True)
