"""Lines between producer, broker, consumers and history are cut, delayed and half-closed; effects count."""

import random
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import cast

import pytest

from tests.crash.helpers.aftermath import count_unanswered
from tests.crash.helpers.books import MESSAGES, PROCESSES, Books, end, fleet_of
from tests.crash.helpers.producing import produce
from tests.crash.victims.booking_service import CONCURRENCY, LONG_LEASE, NAME
from tests.fixtures.network import Network, NetworkBefore
from tests.fixtures.proof import Proved
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from tests.integration.helpers.rabbitmq_queues import depth, subscribe

pytestmark = [pytest.mark.crash, pytest.mark.prove, pytest.mark.timeout(600)]

#: How much later a delayed line passes on, in seconds.
LATE = 0.05

#: The troubles of a line. When the next trouble begins, the line works again.
TROUBLES: dict[str, Callable[[Network], None]] = {
    "cut": Network.cut,
    "delayed": lambda line: line.delay(LATE),
    "half-closed towards the client": lambda line: line.half_close(towards_client=True),
    "half-closed towards the server": lambda line: line.half_close(towards_client=False),
}


@dataclass(frozen=True, slots=True)
class Ground:
    """A provider, a history, and a function that counts the waiting messages in the provider."""

    provider: str
    history: str
    depth: Callable[[], int]


def redis_streams(request: pytest.FixtureRequest) -> Ground:
    url = cast("str", request.getfixturevalue("redis_url"))
    return Ground(url, url, partial(count_unanswered, url, NAME))


def sqljms(request: pytest.FixtureRequest) -> Ground:
    url = cast("str", request.getfixturevalue("postgres_url"))
    return Ground(url, url, partial(count_unanswered, url, NAME))


def rabbitmq(request: pytest.FixtureRequest) -> Ground:
    server = cast("RabbitmqServer", request.getfixturevalue("rabbitmq_server"))
    url = f"rabbitmq://{server.address}/"
    subscribe(url, NAME)
    return Ground(url, cast("str", request.getfixturevalue("redis_url")), lambda: depth(server, NAME))


@pytest.mark.parametrize(
    "make", [redis_streams, sqljms, pytest.param(rabbitmq, marks=pytest.mark.xdist_group("rabbitmq"))]
)
def test_each_order_is_booked_once_whatever_happens_to_the_lines(
    make: Callable[[pytest.FixtureRequest], Ground],
    tmp_path: Path,
    network_before: NetworkBefore,
    request: pytest.FixtureRequest,
    proved: Proved,
) -> None:
    ground = make(request)
    sending, receiving, remembering = (
        network_before(url) for url in (ground.provider, ground.provider, ground.history)
    )
    books = Books(tmp_path, receiving.url(ground.provider), remembering.url(ground.history), ground.depth)
    troubles = list(product(TROUBLES, [sending, receiving, remembering]))
    random.shuffle(troubles)  # from the seed that pytest prints
    producing = threading.Thread(target=produce, args=[sending.url(ground.provider)])

    with ExitStack() as ending, fleet_of(books, lease=LONG_LEASE) as fleet:
        producing.start()
        for effects in fleet.watch(lambda: not troubles and books.over()):
            if troubles and effects >= due(len(troubles)):
                ending.close()
                trouble, line = troubles.pop()
                TROUBLES[trouble](line)
                ending.callback(line.delay, 0.0)
        ending.close()
        producing.join()
        end(fleet, books)

    books.check(most_in_doubt=PROCESSES * CONCURRENCY * len(TROUBLES))
    proved(messages=MESSAGES, troubles=3 * len(TROUBLES))


def due(left: int) -> int:
    """Return the number of effects at which the next trouble happens, with so many troubles left."""
    every = 3 * len(TROUBLES)
    return MESSAGES * (every - left + 1) // (every + 2)
