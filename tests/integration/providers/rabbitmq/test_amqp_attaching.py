"""A peer that does not hear of a session, as RabbitMQ when it has just ended another one on that channel."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from proton import Url
from proton.reactor import Container

from history.bridge import drive
from tests.fixtures.waiting import PATIENCE
from triggers.providers.amqp import connection as amqp_connection
from triggers.providers.contract.common import numbered
from triggers.providers.opening import open_provider
from triggers.testing.redis_server import free_port


class Deaf:
    """A broker that accepts everything, but does not hear what comes in a connection's first session."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._acceptor: Any = None
        self._unheard: Any = None
        self.listens = threading.Event()
        self.accepted = 0

    def on_reactor_init(self, event: Any) -> None:
        url: Any = Url  # it is not typed
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
