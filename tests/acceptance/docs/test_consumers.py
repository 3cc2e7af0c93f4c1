"""The consumers of pages about brokers: each runs on a server of its kind, and books a message."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import Engine, create_engine, text

from history import DoubtlessError, Message
from history.bridge import drive
from tests import ROOT
from tests.acceptance.docs.pages import Block, blocks, pages
from tests.fixtures.histories import with_store
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.servers.nats_server import NatsServer
from tests.fixtures.servers.sqs_server import SqsServer
from tests.fixtures.waiting import PATIENCE, eventually
from triggers import open_provider

pytestmark = pytest.mark.prove

#: The addresses of brokers and servers in the pages.
REDIS, POSTGRES = "redis://localhost:6379/0", "postgresql://shop@localhost/shop"

#: The identity of the message to the consumer.
UUID = "order-1"

SHOWN = [(page, block) for page in pages() for block in blocks(page) if block.kind == "python consumer"]


@contextmanager
def kafka() -> Generator[dict[str, str]]:
    with KafkaServer() as server:
        yield {"localhost:9092": server.address}


@contextmanager
def nats() -> Generator[dict[str, str]]:
    with NatsServer() as server:
        yield {"localhost:4222": server.address}


@pytest.fixture
def addresses(request: pytest.FixtureRequest, page: Path) -> Iterator[dict[str, str]]:
    """The addresses in a page, each with the address of a running server that replaces it."""

    def rabbitmq() -> dict[str, str]:
        url: str = request.getfixturevalue("rabbitmq_url")
        return {"rabbitmq://guest:guest@localhost:5672": url}

    def sqs() -> dict[str, str]:
        server: SqsServer = request.getfixturevalue("sqs_server")
        return {"sqs://eu-west-1": server.url}

    started: dict[str, Callable[[], AbstractContextManager[dict[str, str]]]] = {
        "run-on-kafka": kafka,
        "run-on-nats": nats,
        "run-on-rabbitmq": lambda: nullcontext(rabbitmq()),
        "run-on-sqs": lambda: nullcontext(sqs()),
    }
    with started[page.stem]() as addresses:
        yield addresses


@pytest.mark.parametrize(("page", "block"), SHOWN, ids=[f"{page.stem}-{block.line}" for page, block in SHOWN])
def test_the_consumer_of_a_page_books_a_message(
    page: Path, block: Block, addresses: dict[str, str], redis_url: str, postgres_url: str, tmp_path: Path
) -> None:
    shop = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    with shop.begin() as connection:
        connection.execute(text("CREATE TABLE bookings (id TEXT)"))
    source = "\n".join(block.lines) + "\n"
    nested = {f"offsets={POSTGRES}": f"offsets={quote(postgres_url, safe='')}"}
    for shown, real in {**addresses, **nested, REDIS: redis_url, POSTGRES: postgres_url}.items():
        source = source.replace(shown, real)
    script = tmp_path / "block_of_a_page.py"
    script.write_text(source, encoding="utf-8")

    runs = re.search(r'Consumer\(\s*\[book\], "(.*)"\s*\)', source)

    with subprocess.Popen(
        [sys.executable, script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            if runs is not None:
                eventually(lambda: process.poll() is not None or _is_booked(runs[1], source, redis_url, shop))
                process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
            shop.dispose()

    expected = {0} if runs is None else {-signal.SIGINT, 128 + signal.SIGINT}
    assert process.returncode in expected, said
    assert "Warning" not in said


def _is_booked(url: str, source: str, redis_url: str, shop: Engine) -> bool:
    """Send the message again, because a consumer may begin at the end. Return whether it has run."""
    (destination,) = re.findall(r'@trigger\(\s*"(\w+)"', source)
    (name,) = re.findall(r'name="([\w-]+)"', source)
    provider = open_provider(url.partition("?")[0] if "kafka" in url else url)
    with suppress(DoubtlessError):  # its queue does not exist yet
        drive(provider.send(destination, [Message(body=b"N-1", uuid=UUID)]))
    drive(provider.close())
    if "connection" in source:
        with shop.connect() as connection:
            return bool(connection.execute(text("SELECT count(*) FROM bookings")).scalar())
    (entry,) = with_store(redis_url, lambda store: store.lookup(name, [UUID]))
    return entry is not None
