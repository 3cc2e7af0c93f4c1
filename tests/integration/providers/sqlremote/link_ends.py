"""Both ends of a link in one process: databases, agents and a trigger, on the test's own clock."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, MetaData, create_engine, text

from history.bridge import drive
from history.sql.links.watermark import LinkRow
from history.store.watermark import Offset
from tests.unit.helpers.lossy import LossyCarrier
from triggers import Outcome, Trigger, trigger
from triggers.providers.sqlremote.carriers.carrier import Carrier
from triggers.providers.sqlremote.links import Links, everything
from triggers.providers.sqlremote.publication.publication import Publication
from triggers.providers.sqlremote.receiver import LinkReceiver
from triggers.providers.sqlremote.settings import RemoteSettings

START = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
POLL = timedelta(minutes=1)
ORDERS = Publication("orders")

#: Applies a transaction.
Service = Callable[[list[Any], Connection], None]


@dataclass
class Clock:
    now: datetime = START

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, time: timedelta = POLL) -> None:
        self.now += time


def insert(operations: list[Any], connection: Connection) -> None:
    for operation in operations:
        connection.execute(text("INSERT INTO got (operation) VALUES (:o)"), {"o": str(operation)})


@dataclass
class Side:
    """One end: its database, and the agent and trigger that run its link when the test says so."""

    name: str
    peer: str
    url: str
    carrier: Carrier = field(default_factory=LossyCarrier)
    clock: Clock = field(default_factory=Clock)
    service: Service = insert
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    horizon: Callable[[str], Offset | None] = everything
    folder: Path = Path()
    names: Sequence[str] = ("orders",)
    #: The settings of single links.
    own: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    receivers: dict[str, LinkReceiver] | None = None

    def __post_init__(self) -> None:
        self.engine: Engine = create_engine(self.url.replace("postgresql://", "postgresql+psycopg://"))
        serial = "SERIAL" if self.engine.dialect.name == "postgresql" else "INTEGER"
        with self.engine.begin() as connection:
            connection.execute(text(f"CREATE TABLE got (place {serial} PRIMARY KEY, operation TEXT)"))
        self.outcomes: list[Outcome] = []
        self.links: Links
        self.restart()
        for name in self.names:
            drive(self.links.setup(name))

    def restart(self, **settings: Any) -> None:
        """Restart the process: everything in memory is lost, and only stored data stays."""
        if self.receivers is not None:
            drive(self.links.history.close())
        self.settings |= settings
        ends: dict[str, dict[str, Any]] = {
            name: {
                "carrier": "file:///nowhere",
                "inbox": self.name if name == "orders" else f"{self.name}-{name}",
                "outbox": self.peer if name == "orders" else f"{name}-{self.name}",
                "publication": "orders",
                **self.settings,
                **self.own.get(name, {}),
            }
            for name in self.names
        }
        told = RemoteSettings.model_validate({"database": self.url, "links": ends}).beside(self.folder)
        self.links = Links(
            told, open_carrier=lambda _link, _settings: self.carrier, horizon=self.horizon, clock=self.clock
        )
        self.trigger: Trigger[..., None] = self.make_trigger()
        self.receivers = {}

    def make_trigger(self) -> Trigger[..., None]:
        @trigger("link:orders", name="apply", history=self.links.history, transacted=True)
        def apply(operations: list[Any], connection: Connection) -> None:
            self.service(operations, connection)

        return apply

    def commit(self, *operations: Any) -> Offset:
        with self.engine.begin() as connection:
            return ORDERS.append(connection, *operations)

    def receiver(self, link: str = "orders") -> LinkReceiver:
        assert self.receivers is not None
        found = self.receivers.get(link)
        if found is None:
            opened = drive(self.links.open_receiver(f"link:{link}", subscription="apply", name=self.name))
            assert isinstance(opened, LinkReceiver)
            found = self.receivers[link] = opened
        return found

    def run(self, link: str = "orders", *, deliveries: int | None = None) -> list[Outcome]:
        """Run one cycle of a link: read and apply, report, send."""
        receiver, pipeline = self.receiver(link), self.trigger.pipeline()
        outcomes: list[Outcome] = []
        while deliveries is None or deliveries > 0:
            received = drive(receiver.receive(20, timedelta(0)))
            if not received:
                break
            outcomes += drive(pipeline.deliver(receiver, received))
            deliveries = None if deliveries is None else deliveries - 1
        self.outcomes += outcomes
        return outcomes

    def leave(self) -> None:
        drive(self.links.close())

    @property
    def got(self) -> list[str]:
        return [str(row[0]) for row in self.query("SELECT operation FROM got ORDER BY place")]

    def query(self, statement: str) -> Sequence[Any]:
        with self.engine.connect() as connection:
            return connection.execute(text(statement)).all()

    def execute(self, statement: str) -> None:
        with self.engine.begin() as connection:
            connection.execute(text(statement))

    def row(self, link: str = "orders") -> LinkRow:
        found = drive(self.links.history.watermarks.read(link))
        assert found is not None
        return found

    @property
    def p(self) -> tuple[int, int, int]:
        """P of the test vectors: log_sent, confirm_sent, resend_count."""
        outgoing = self.row().watermark.outgoing
        return outgoing.log_sent, outgoing.confirm_sent, outgoing.resend_count

    @property
    def s(self) -> tuple[int, int]:
        """S of the test vectors: log_received, rereceive_count."""
        incoming = self.row().watermark.incoming
        return incoming.log_received, incoming.rereceive_count

    def back_up(self) -> dict[str, list[dict[str, Any]]]:
        tables = MetaData()
        tables.reflect(self.engine)
        with self.engine.connect() as connection:
            return {
                table.name: [dict(row) for row in connection.execute(table.select()).mappings()]
                for table in tables.sorted_tables
            }

    def restore(self, backup: dict[str, list[dict[str, Any]]]) -> None:
        """Restore the whole database to an earlier state, and start the process again."""
        self.leave()
        tables = MetaData()
        tables.reflect(self.engine)
        with self.engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SET LOCAL session_replication_role = replica"))  # no trigger fires
            for table in tables.sorted_tables:
                connection.execute(table.delete())
                if backup.get(table.name):
                    connection.execute(table.insert(), backup[table.name])
            connection.execute(text("UPDATE sysremoteuser SET doubtless_agent = NULL"))
        self.restart()


def both(x: Side, y: Side, rounds: int = 1) -> None:
    """Let both ends run in turns, while the clock moves on."""
    for _ in range(rounds):
        x.run()
        y.run()
        x.clock.pass_by()


@contextmanager
def linked(
    urls: Sequence[str], carrier: Carrier | None = None, **settings: Any
) -> Generator[tuple[Side, Side]]:
    shared: dict[str, Any] = {"carrier": carrier or LossyCarrier(), "clock": Clock()}
    x = Side("x", "y", urls[0], settings=dict(settings), **shared)
    y = Side("y", "x", urls[1], settings=dict(settings), **shared)
    try:
        yield x, y
    finally:
        for side in (x, y):
            side.leave()
            side.engine.dispose()
