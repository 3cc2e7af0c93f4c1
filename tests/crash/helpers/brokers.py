"""Crash tests for the consumers of every broker; the module of a broker defines how it is started."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.crash.helpers.aftermath import Left, run_matrix
from tests.crash.helpers.books import (
    BROKER_KILLS,
    KILLS,
    MESSAGES,
    MOST_IN_DOUBT,
    Books,
    end,
    fleet_of,
    kill_both,
    kill_now_and_then,
)
from tests.crash.helpers.deaths import DEATHS, Death
from tests.crash.helpers.producing import produce
from tests.crash.helpers.sends import SendsLeft, run_sends
from tests.crash.victims.booking_service import LONG_LEASE, NAME
from tests.crash.victims.sending_victim import POINTS, Case
from tests.fixtures.proof import Proved
from tests.fixtures.servers.rabbitmq_server import RabbitmqServer
from triggers.testing.child import ChildServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A running broker.

    ``depth`` counts the unsettled messages of the trigger with a destination's name; ``make`` makes a
    destination. In each of ``outages`` the broker goes away and comes back. Producers wait while more than
    ``room`` messages are in the queue.
    """

    url: str
    depth: Callable[[str], int]
    make: Callable[[str], object] = str
    outages: Sequence[Callable[[], object]] = ()
    room: int | None = None

    def books(self, folder: Path, history: str) -> Books:
        self.make(NAME)
        return Books(folder, self.url, history, partial(self.depth, NAME))

    def deaths(self, folder: Path, history: str | None = None) -> dict[Death, Left]:
        for death in DEATHS:
            self.make(death.name)
        return run_matrix(folder, self.url, history or f"sqlite:///{folder}/history.sqlite3", self.depth)

    def sends(self, folder: Path) -> SendsLeft:
        return run_sends(folder, self.url, f"sqlite:///{folder}/sends.sqlite3", self.depth, self.make)

    def producer(self) -> threading.Thread:
        """Return a producer of the orders, which has not begun."""
        return threading.Thread(target=produce, args=[self.url, self._has_room])

    def _has_room(self) -> bool:
        return self.room is None or self.depth(NAME) < self.room


def outages_of(server: ChildServer | RabbitmqServer, settling: float = 0.0) -> Sequence[Callable[[], object]]:
    """Return two outages: the server is killed, ``settling`` seconds later, and it is stopped."""

    def killed() -> None:
        time.sleep(settling)
        server.kill()
        server.start()

    def stopped() -> None:
        server.stop()
        server.start()

    return [killed, stopped]


class KilledAtAnyStep:
    """Needs a fixture ``broker``, or ``deaths_left``: the result of :meth:`Broker.deaths`."""

    @pytest.mark.prove
    @pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.name)
    def test_a_consumer_killed_at_any_step_leaves_what_the_pipeline_says(
        self, deaths_left: dict[Death, Left], death: Death, proved: Proved
    ) -> None:
        proved(processes_killed=1)
        deaths_left[death].check(death)


class KilledWhileItSends:
    """Needs a fixture ``broker``, or ``sends_left``: the result of :meth:`Broker.sends`."""

    @pytest.mark.prove
    @pytest.mark.parametrize("kind", ["single", "batch"])
    @pytest.mark.parametrize("point", POINTS)
    def test_each_message_that_a_service_sent_runs_once_downstream(
        self, sends_left: SendsLeft, kind: str, point: str, proved: Proved
    ) -> None:
        proved(processes_killed=1)
        sends_left.check(Case(kind, point))


class KilledAtRandom:
    """Needs a fixture ``broker``."""

    @pytest.mark.prove
    def test_each_order_is_booked_once_however_often_its_consumers_are_killed(
        self, tmp_path: Path, broker: Broker, redis_url: str, proved: Proved
    ) -> None:
        books, producing = broker.books(tmp_path, redis_url), broker.producer()
        with fleet_of(books) as fleet:
            producing.start()
            kills = kill_now_and_then(fleet, books)
            producing.join()
            end(fleet, books)

        books.check(MOST_IN_DOUBT)
        assert kills == KILLS
        proved(messages=MESSAGES, processes_killed=KILLS)


class BrokerIsAway:
    """Needs a fixture ``private_broker``, with outages."""

    @pytest.mark.prove
    def test_consumers_and_producers_go_on_when_the_broker_comes_back(
        self, tmp_path: Path, private_broker: Broker, redis_url: str, proved: Proved
    ) -> None:
        books, producing = private_broker.books(tmp_path, redis_url), private_broker.producer()
        outages = list(private_broker.outages)
        many = len(outages)
        assert outages
        with fleet_of(books, lease=LONG_LEASE) as fleet:
            producing.start()
            for effects in fleet.watch(lambda: not outages and books.over()):
                if outages and effects >= MESSAGES * (many - len(outages) + 1) // (2 * many):
                    outages.pop(0)()
            producing.join()
            end(fleet, books)

        books.check(most_in_doubt=0)
        proved(messages=MESSAGES)


class KilledWithTheBroker:
    """Needs a fixture ``private_broker``; its first outage must be a kill."""

    @pytest.mark.prove
    @pytest.mark.timeout(3600)
    def test_each_order_is_booked_once_while_consumers_and_the_broker_are_killed(
        self, tmp_path: Path, private_broker: Broker, redis_url: str, proved: Proved
    ) -> None:
        books, producing = private_broker.books(tmp_path, redis_url), private_broker.producer()
        with fleet_of(books) as fleet:
            producing.start()
            kills = kill_both(fleet, books, private_broker.outages[0])
            producing.join()
            end(fleet, books)

        books.check(MOST_IN_DOUBT)
        assert kills == (KILLS, BROKER_KILLS)
        proved(messages=MESSAGES, processes_killed=KILLS, brokers_killed=BROKER_KILLS)
