"""A connection that is cut at any moment, even in a login, is an outage and not a wrong setting."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from history import Message, UnavailableError, open_history
from history.bridge import drive
from tests.fixtures.needed import missing
from tests.fixtures.network import Network, NetworkBefore
from tests.fixtures.proof import Proved
from tests.fixtures.servers.certificates import make_certificate
from tests.fixtures.servers.nats_server import NatsServer
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.integration.helpers.rabbitmq_queues import subscribe
from triggers import open_provider
from triggers.testing.postgres_server import PostgresServer
from triggers.testing.redis_server import RedisServer, free_port

#: One use of a connection receives at most so many chunks.
MOST = 60

pytestmark = [pytest.mark.prove, pytest.mark.timeout(600)]


def cut_at_each_chunk(network: Network, use: Callable[[], None]) -> int:
    """Use a connection again and again, and cut it one chunk later each time. Return the number of chunks."""
    for chunk in range(1, MOST):
        cut = network.cut_before(chunk)
        with suppress(UnavailableError):
            use()
        if not cut.is_set():
            return chunk - 1
    pytest.fail(f"one use takes more than {MOST} chunks")


def remember(url: str) -> None:
    """Claim and complete a message."""
    history = open_history(url)
    try:
        claim = drive(history.claim("book", ["order-1"], "worker", lease=timedelta(minutes=1)))[0]
        drive(history.complete("book", "order-1", claim.fence))
    finally:
        drive(history.close())


def send(url: str) -> None:
    provider = open_provider(url)
    try:
        drive(provider.send("orders", [Message(uuid="order-1", body={})]))
    finally:
        drive(provider.close())


def receive(url: str) -> None:
    """Open a receiver and ask it for a message."""
    provider = open_provider(url)
    try:
        receiver = drive(provider.open_receiver("orders", subscription="book", name="one"))
        try:
            drive(receiver.receive(1, timedelta(milliseconds=50)))
        finally:
            with suppress(UnavailableError):
                drive(receiver.close())
    finally:
        drive(provider.close())


@pytest.fixture
def redis_with_tls(tmp_path: Path) -> Iterator[str]:
    if shutil.which("redis-server") is None:
        missing("redis-server", "apt-get install redis-server")
    own, port = make_certificate(tmp_path, "server"), free_port()
    settings = {
        "tls-port": str(port),
        "tls-cert-file": str(own.certificate),
        "tls-key-file": str(own.key),
        "tls-auth-clients": "no",
    }
    with RedisServer(tmp_path, **settings):
        yield f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={own.certificate}&ssl_cert_reqs=required"


@pytest.fixture
def postgres_with_tls(postgres_folder: Path, tmp_path: Path) -> Iterator[str]:
    own = make_certificate(tmp_path, "server")
    files = {"ssl_cert_file": own.certificate, "ssl_key_file": own.key}
    settings = {name: Path(shutil.copy(file, postgres_folder)) for name, file in files.items()}
    for file in settings.values():
        file.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(file, "postgres")
    named = {name: str(file) for name, file in settings.items()}
    with PostgresServer(postgres_folder, ssl="on", **named) as server:
        yield f"{server.url}?sslmode=verify-full&sslrootcert={own.certificate}"


@pytest.mark.parametrize("server", ["redis_url", "redis_with_tls", "postgres_url", "postgres_with_tls"])
def test_a_history_whose_line_is_cut_at_any_moment_is_away(
    server: str, request: pytest.FixtureRequest, network_before: NetworkBefore, proved: Proved
) -> None:
    url = request.getfixturevalue(server)
    remember(url)  # makes its tables
    network = network_before(url)

    chunks = cut_at_each_chunk(network, lambda: remember(network.url(url)))

    assert chunks > 3
    proved(moments=chunks)


@pytest.mark.parametrize("use", [send, receive])
def test_a_nats_server_whose_line_is_cut_at_any_moment_is_away(
    use: Callable[[str], None], network_before: NetworkBefore, proved: Proved
) -> None:
    with NatsServer() as server:
        url = f"nats://{server.address}"
        receive(url)  # makes stream and consumer
        network = network_before(url)

        chunks = cut_at_each_chunk(network, lambda: use(network.url(url)))

    assert chunks > 3
    proved(moments=chunks)


@pytest.mark.parametrize("use", [send, receive])
@pytest.mark.parametrize(
    "wire",
    [
        pytest.param("rabbitmq", marks=pytest.mark.xdist_group("rabbitmq")),
        pytest.param("amqp", marks=pytest.mark.xdist_group("rabbitmq")),
    ],
)
def test_a_broker_whose_line_is_cut_at_any_moment_is_away(
    wire: str,
    use: Callable[[str], None],
    request: pytest.FixtureRequest,
    network_before: NetworkBefore,
    proved: Proved,
) -> None:
    fixture = {"rabbitmq": "rabbitmq_server", "amqp": "rabbitmq4_server"}[wire]
    server: RabbitmqServer = request.getfixturevalue(fixture)
    url = f"{wire}://{server.address}/"
    subscribe(url, "orders")
    network = network_before(url)

    chunks = cut_at_each_chunk(network, lambda: use(network.url(url)))

    assert chunks > 3
    proved(moments=chunks)
