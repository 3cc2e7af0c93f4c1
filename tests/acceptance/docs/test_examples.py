"""Every example does what its page says."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from history.bridge import drive
from history.message import Message
from history.store import HistoryStore
from tests import ROOT
from tests.acceptance.command_line import CommandLine
from triggers.providers.redis_streams import RedisStreams


def test_first_steps_runs_the_service_once() -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / "first_steps.py"],
        capture_output=True,
        text=True,
        check=True,
    )

    first, second = ended.stdout.splitlines()
    assert first.startswith("NEW | booked N-1 | ")
    assert second.startswith("DUPLICATE | None | ")


@pytest.fixture
def orders(redis_url: str) -> str:
    """Send good orders, copies of one of them, and an order with a negative amount."""
    provider = RedisStreams.from_url(redis_url)
    amounts = {"order-1": 1.0, "order-2": 2.0, "order-3": 3.0, "order-4": -4.0}
    messages = [
        Message(body={"id": uuid.upper(), "amount": amount}, uuid=uuid) for uuid, amount in amounts.items()
    ]
    drive(provider.send("shop-orders", [*messages, messages[0], messages[0]]))
    drive(provider.close())
    return redis_url


def booked(file: Path) -> dict[str, float]:
    with closing(sqlite3.connect(file)) as bookings:
        return dict(bookings.execute("SELECT uuid, amount FROM bookings ORDER BY uuid"))


def test_orders_are_booked_once_also_after_a_crash(
    doubtless: CommandLine, orders: str, store: HistoryStore
) -> None:
    file = doubtless.folder / "mine.db"
    # Two workers died: one after it had booked order-1, one before it could book order-2.
    died = drive(store.claim("book-shop-order", ["order-1", "order-2"], "a worker that died"))
    with closing(sqlite3.connect(file)) as bookings, bookings:
        bookings.execute("CREATE TABLE bookings (uuid TEXT PRIMARY KEY, fence, order_id, amount)")
        bookings.execute("INSERT INTO bookings VALUES ('order-1', ?, 'ORDER-1', 1.0)", [died[0].fence])

    answer = doubtless(
        *("run", "examples.orders", "--until-idle", "0.3", "--json"),
        *("--provider", orders, "--history", orders),
        BOOKINGS=str(file),
    )

    assert answer.json == [
        {"trigger": "book-shop-order", "messages": 6, "duplicate": 3, "failed": 1, "ok": 2}
    ]
    assert booked(file) == {"order-1": 1.0, "order-2": 2.0, "order-3": 3.0}
    assert (
        "book-shop-order: the service failed fatally (body: cannot fill parameter 'order': amount"
        in answer.err
    )


def test_a_worker_that_comes_back_late_cannot_change_a_booking(tmp_path: Path) -> None:
    late = (
        "from examples.orders import Order, book, connected\n"
        "from triggers import Delivery\n"
        "for fence, amount in ((7, 70), (8, 80), (7, 70)):\n"
        "    delivery = Delivery(uuid='order-1', fence=fence, attempt=1, trigger_name='book-shop-order')\n"
        "    book(Order(id='N-1', amount=amount), delivery)\n"
    )

    subprocess.run([sys.executable, "-c", late], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=True)

    assert booked(tmp_path / "bookings.db") == {"order-1": 80.0}
