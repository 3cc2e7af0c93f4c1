"""A consolidated database and two remotes change the same rows: in the end all three hold the same."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Connection, text

from history.bridge import drive
from tests.fixtures.scale import sized
from tests.integration.providers.sqlremote.link_ends import ORDERS, Clock, Service, Side
from tests.unit.helpers.lossy import Fate, LossyCarrier, seeded_fates

#: How often all three are left alone until nothing is on its way, and compared.
HISTORIES = sized(40, full=2000)

ROWS = ("r-1", "r-2", "r-3")

PUT = text("INSERT INTO stock VALUES (:id, :value) ON CONFLICT (id) DO UPDATE SET value = excluded.value")


def put(operations: Sequence[Any], connection: Connection) -> None:
    for operation in operations:
        connection.execute(PUT, operation)


def resolve(operations: Sequence[Any], connection: Connection) -> None:
    """The last update that the consolidated database applies wins, and everybody is told."""
    put(operations, connection)
    ORDERS.append(connection, *operations, to_sender=True)


def keep(operations: Sequence[Any], connection: Connection) -> None:
    """As :func:`resolve`, but the sender is not told."""
    put(operations, connection)
    ORDERS.append(connection, *operations)


def three_files(folder: Path) -> Sequence[str]:
    return [f"sqlite:///{folder}/{name}.db" for name in "cab"]


class Three:
    """The three databases, and what happens to them."""

    #: Applies at the consolidated database, and at the remotes.
    services: tuple[Service, Service] = (resolve, put)
    settings: Mapping[str, Any] = {}

    def __init__(self, seed: int, urls: Sequence[str]) -> None:
        self.random = Random(seed)  # noqa: S311  (a test's dice need no secrecy)
        self.carrier = LossyCarrier()
        self.fates = seeded_fates(seed, fault_rate=0.2)
        shared: dict[str, Any] = {"carrier": self.carrier, "clock": Clock()}
        above, below = self.services
        told = [dict(self.settings) for _ in "cab"]
        self.centre = Side(
            "c", "a", urls[0], service=above, names=("orders", "third"), settings=told[0], **shared
        )
        a = Side("a", "c", urls[1], service=below, settings=told[1], **shared)
        b = Side("third-c", "c-third", urls[2], service=below, settings=told[2], **shared)
        self.sides: tuple[Side, ...] = (self.centre, a, b)
        for side in self.sides:
            side.execute("CREATE TABLE stock (id TEXT PRIMARY KEY, value TEXT)")

    def update(self, side: Side) -> None:
        """Change one or two rows in a transaction of the application's own."""
        with side.engine.begin() as connection:
            for row in self.random.sample(ROWS, self.random.choice([1, 2])):
                change = {"id": row, "value": f"{side.name} {self.random.random()}"}
                put([change], connection)
                ORDERS.append(connection, change)

    def run(self, side: Side) -> None:
        for link in side.names:
            side.run(link)

    def live(self) -> None:
        """Change rows everywhere, while agents run, die and start again, and messages get lost."""
        self.carrier.fate = self.fates
        for _ in range(self.random.randrange(3, 12)):
            side = self.random.choice(self.sides)
            match self.random.randrange(8):
                case 0:
                    side.leave()
                    side.restart()
                case 1 | 2:
                    self.run(side)
                case _:
                    self.update(side)

    def settle(self) -> None:
        """Let everything arrive."""
        self.carrier.fate = lambda: Fate.ARRIVES
        for _ in range(40):
            for side in self.sides:
                self.run(side)
            self.centre.clock.pass_by()
            if self.is_quiet():
                return
        raise AssertionError("something is still on its way")

    def is_quiet(self) -> bool:
        """Whether each peer has confirmed everything that is for it."""
        for side in self.sides:
            end = drive(side.links.history.watermarks.end()).last
            for link in side.names:
                log = side.receiver(link).agent.outgoing.log
                if drive(log.read(side.row(link).watermark.outgoing.confirm_sent, end)):
                    return False
        return True

    def stocks(self) -> list[dict[str, str]]:
        return [
            {str(row): str(value) for row, value in side.query("SELECT id, value FROM stock")}
            for side in self.sides
        ]

    def leave(self) -> None:
        for side in self.sides:
            side.leave()
            side.engine.dispose()


@pytest.fixture(params=range(2))
def three(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Three]:
    made = Three(request.param, three_files(tmp_path))
    yield made
    made.leave()


def test_all_databases_end_with_the_same_rows(three: Three) -> None:
    for history in range(HISTORIES // 2):
        three.live()
        three.settle()

        centre, *remotes = three.stocks()
        assert remotes == [centre, centre], f"after history {history}"
    assert len(three.stocks()[0]) == len(ROWS)


def test_without_the_sender_they_differ(tmp_path: Path) -> None:
    three = Three(0, three_files(tmp_path))
    three.centre.service = keep

    _, a, b = three.sides
    for side in (a, b):
        with side.engine.begin() as connection:
            change = {"id": "r-1", "value": side.name}
            put([change], connection)
            ORDERS.append(connection, change)
    three.settle()

    assert len({stock["r-1"] for stock in three.stocks()}) == 2
    three.leave()
