"""A consolidated database and two remotes that change the same rows, on the test's own clock."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from sqlalchemy import Connection, text

from history.bridge import drive
from tests.integration.providers.sqlremote.link_ends import Clock, Service, Side
from tests.unit.helpers.lossy import Fate, LossyCarrier, seeded_fates

ROWS = ("r-1", "r-2", "r-3")

PUT = text("INSERT INTO stock VALUES (:id, :value) ON CONFLICT (id) DO UPDATE SET value = excluded.value")


def put(operations: Sequence[Any], connection: Connection) -> None:
    for operation in operations:
        connection.execute(PUT, operation)


class Three:
    """The three databases and their steps."""

    #: The services that apply changes at the consolidated database, and at the remotes.
    services: tuple[Service, Service]
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
        """Change rows in a transaction of the application."""
        raise NotImplementedError

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
        """Whether each peer has confirmed all its transactions."""
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
