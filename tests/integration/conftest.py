"""Fixtures of the integration tests."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from history import Message, open_history
from history.bridge import drive
from history.store import HistoryStore
from tests.fixtures.servers.redis import connected
from tests.integration.helpers.consumers import Lane
from tests.integration.helpers.orders import Send
from tests.integration.helpers.rows import Bench
from tests.integration.helpers.service_process import Steering
from triggers.providers.redis_streams import RedisStreams


@pytest.fixture(params=["blocking", "asyncio"])
def lane(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lane:
    """Run the test with the blocking consumer, and again with the asyncio one; both stop soon."""
    monkeypatch.setattr("triggers.consumer.worker.RECEIVE_WAIT", timedelta(seconds=0.05))
    return Lane(asyncio=cast("str", request.param) == "asyncio", folder=tmp_path)


@pytest.fixture
def steering(tmp_path: Path) -> Iterator[Steering]:
    """Watch and steer the services. At the end of the test all running services may end."""
    steering = Steering(tmp_path)
    yield steering
    steering.let_end(*(uuid for uuid, _ in steering.noted("begun")))


@pytest.fixture(params=["blocking", "asyncio"])
def form(request: pytest.FixtureRequest) -> str:
    return cast("str", request.param)


@pytest.fixture
def bench(form: str, history_url: str, tmp_path: Path) -> Iterator[Bench]:
    """Return the means to try a trigger on each kind of history."""
    with ExitStack() as closing:
        yield Bench(history_url, tmp_path, form == "asyncio", closing)


@pytest.fixture
def store(history_url: str) -> Iterator[HistoryStore]:
    """A second client of the history, to read and change its entries."""
    store = open_history(history_url)
    yield store
    drive(store.close())


@pytest.fixture
def send(redis_url: str) -> Iterator[Send]:
    """Return a function that sends messages to the empty stream ``orders``."""
    provider = RedisStreams.from_url(redis_url)

    def to_orders(messages: Sequence[Message]) -> None:
        drive(provider.send("orders", messages))

    yield to_orders
    drive(provider.close())


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    """A plain client of the database that ``redis_url`` leads to, which is empty."""
    with connected(redis_url) as client:
        yield client
