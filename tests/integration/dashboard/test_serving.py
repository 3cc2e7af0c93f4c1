"""The server of the dashboard does not wait forever for a request."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures.waiting import PATIENCE
from triggers.dashboard.access.serving import server_of

WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def application(scope: Any, _receive: Any, send: Any) -> None:
    """Answer each request with an empty page."""
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """The address of a server that waits a short time for a request."""
    monkeypatch.setattr("triggers.dashboard.access.serving.LONGEST_HEAD", 0.2)
    server = server_of(application)
    server.config.lifespan = "off"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield listening.getsockname()
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", WHOLE + b"GET /"]
)
def test_a_connection_whose_request_does_not_arrive_is_closed(address: tuple[str, int], sent: bytes) -> None:
    with socket.create_connection(address, PATIENCE) as client:
        client.sendall(sent)
        answers = b""
        while part := client.recv(1000):
            answers += part

    assert answers.count(b"HTTP/1.1 204") == sent.count(WHOLE)


def test_a_request_in_parts_is_answered(address: tuple[str, int]) -> None:
    with socket.create_connection(address, PATIENCE) as client:
        for part in (WHOLE[:9], WHOLE[9:]):
            client.sendall(part)

        assert client.recv(1000).startswith(b"HTTP/1.1 204")
