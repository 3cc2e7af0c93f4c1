"""Clients repeat requests while the server is killed. Each order is charged at most once."""

import os
import socket
import sys
from collections import defaultdict
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from history import open_history
from history.bridge import drive
from tests.fixtures.ledger import Ledger
from tests.fixtures.waiting import PATIENCE, eventually
from triggers.testing.child import Child

COPIES = 5

#: After one of these answers a client stops asking.
LAST_WORDS = {"urn:doubtless:in-doubt", "urn:doubtless:answer-not-kept"}


class Shop:
    """The application. Its port stays open when its process dies: connections wait for the next process."""

    def __init__(self, folder: Path, history: str) -> None:
        self.effects = Ledger(folder / "effects")
        self.gate = folder / "gate"
        self.history = history
        self.run = uuid4().hex
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/charges"

    @contextmanager
    def served(self) -> Generator[Child]:
        names = {"EFFECTS": str(self.effects.file), "GATE": str(self.gate), "HISTORY": self.history}
        words = ["-m", "uvicorn", "tests.integration.guards.hosts.http_app:app", "--log-level", "warning"]
        number = self.socket.fileno()
        child = Child(
            [sys.executable, *words, "--fd", str(number)], env={**os.environ, **names}, pass_fds=[number]
        )
        try:
            yield child
        finally:
            child.kill()
            child.wait()

    def wait_for_more_than(self, before: int) -> None:
        """Wait until there are more charges than ``before``."""
        eventually(lambda: len(self.effects.lines()) > before)

    def ask(self, order: str) -> dict[str, Any]:
        """Ask with the same key until there is an answer, like a patient client."""

        def once() -> dict[str, Any] | None:
            try:
                reply = httpx.post(
                    self.url,
                    json={"order": order},
                    headers={"Idempotency-Key": f"{self.run}-{order}", "X-API-Key": "till-1"},
                    timeout=PATIENCE,
                )
            except httpx.TransportError:
                return None  # the server was killed
            answer: dict[str, Any] = reply.json()
            final = reply.status_code == 201 or answer["type"] in LAST_WORDS
            return {**answer, "http_status": reply.status_code} if final else None

        return eventually(once)


@pytest.fixture(params=["redis", pytest.param("sqlite", marks=pytest.mark.prove)])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    history = f"sqlite:///{tmp_path}/history.sqlite3"
    if request.param == "redis":
        history = request.getfixturevalue("redis_url")
    shop = Shop(tmp_path, history)
    with shop.socket:
        yield shop


def charge_with_kills(shop: Shop, orders: int, kills: int, copies: int) -> dict[str, list[dict[str, Any]]]:
    """Several clients ask for each order while the server is killed. Return their answers."""
    names = [f"order-{number}" for number in range(orders)]
    answers: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with ThreadPoolExecutor(orders * copies) as clients:
        some = max(1, orders // (kills + 1))
        asking = [(name, clients.submit(shop.ask, name)) for name in names[:some] for _ in range(copies)]
        for kill in range(1, kills + 1):
            before = len(shop.effects.lines())
            with shop.served():
                shop.wait_for_more_than(before)
            more = names[some * kill : orders if kill == kills else some * (kill + 1)]
            asking += [(name, clients.submit(shop.ask, name)) for name in more for _ in range(copies)]
        shop.gate.touch()
        with shop.served():
            for name, answer in asking:
                answers[name].append(answer.result())
            for name in names:
                answers[name].append(shop.ask(name))
    return answers


def check(shop: Shop, answers: dict[str, list[dict[str, Any]]]) -> None:
    charged = [order for (order,) in shop.effects.lines()]
    assert len(set(charged)) == len(charged), "an order was charged twice"
    doubted = {order for order, given in answers.items() if any(one["http_status"] == 409 for one in given)}
    for order, given in answers.items():
        booked = [one for one in given if one["http_status"] == 201]
        assert len({one["by"] for one in booked}) <= 1, "clients got different answers"
        assert order in charged or order in doubted
        assert booked or order in doubted
    assert doubted, "a kill in the middle leaves something that nobody can know"
    with_store = open_history(shop.history)
    try:
        parked = {one.id for one in drive(with_store.parking.list(trigger="charges"))}
        unknown = [given for given in answers.values() if all(one["http_status"] == 409 for one in given)]
        named = {one["parked_id"] for given in unknown for one in given if "parked_id" in one}
        assert named
        assert named <= parked
    finally:
        drive(with_store.close())


@pytest.mark.crash
@pytest.mark.prove
@pytest.mark.parametrize(
    ("orders", "kills", "copies"), [(40, 6, COPIES), (4, 2, 50)], ids=["many requests", "many copies"]
)
def test_a_request_that_comes_many_times_is_charged_once_although_the_server_is_killed(
    shop: Shop, orders: int, kills: int, copies: int
) -> None:
    check(shop, charge_with_kills(shop, orders, kills, copies))
