"""Compares transactions over a link, from commit to commit, with the two bare commits."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, text

from benchmarks.bench import Bench
from benchmarks.measuring import Pass
from benchmarks.result import Result, speeds
from benchmarks.servers import private_postgres, scratch
from history.bridge import drive
from history.message import Message
from triggers import Trigger, trigger
from triggers.providers.provider import Receiver
from triggers.providers.sqlremote.agent.agent import Agent
from triggers.providers.sqlremote.carriers.directory import DirectoryCarrier
from triggers.providers.sqlremote.links import Links
from triggers.providers.sqlremote.publication.publication import Publication
from triggers.providers.sqlremote.settings import RemoteSettings
from triggers.testing.postgres_server import find_programs

_INSERT = text("INSERT INTO effects VALUES (:uuid)")

#: The number of rounds. Each round is some hundred commits that reach the disk.
ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Ends:
    """Both ends of a link in this process, and the applications' own engines."""

    sender: Agent
    receiver: Receiver
    trigger: Trigger[..., None]
    engines: tuple[Engine, Engine]

    def replicate(self, messages: Sequence[Message]) -> None:
        """Commit each message as a transaction at one end, and apply it at the other end."""
        publication = Publication("orders")
        for message in messages:
            with self.engines[0].begin() as connection:
                connection.execute(_INSERT, {"uuid": message.uuid})
                publication.append(connection, {"uuid": message.uuid})
        left, pipeline = len(messages), self.trigger.pipeline()
        while left:
            drive(self.sender.step())
            while received := drive(self.receiver.receive(20, timedelta(0))):
                drive(pipeline.deliver(self.receiver, received))
                left -= len(received)

    def commit_twice(self, messages: Sequence[Message]) -> None:
        """Commit each message in both databases, by hand."""
        for message in messages:
            for engine in self.engines:
                with engine.begin() as connection:
                    connection.execute(_INSERT, {"uuid": message.uuid})


def measure(bench: Bench) -> Iterable[Result]:
    """Measure on SQLite, and on PostgreSQL if it is installed. Both flush every commit."""
    with scratch() as folder:
        yield _measure(bench, "SQLite", [f"sqlite:///{folder}/{name}.db" for name in "xy"], folder)
    if find_programs() is None:
        return
    with scratch() as folder, private_postgres() as server:
        yield _measure(bench, "PostgreSQL", list(_schemas(server.url)), folder)


def _measure(bench: Bench, where: str, urls: Sequence[str], folder: Path) -> Result:
    what = f"transactions over a link on {where}"
    with _ends(urls, folder / "exchange") as ends:
        passes: dict[str, Pass[Message]] = {"link": ends.replicate, "bare": ends.commit_twice}
        times = bench.rounds(most=ROUNDS).run(what, bench.fresh, passes)
    beside = "the same row committed in both databases, by hand"
    return speeds(times, "link", "bare", what=what, beside=beside, unit="/s")


@contextmanager
def _ends(urls: Sequence[str], exchange: Path) -> Generator[Ends]:
    x, y = (_links(url, *names, exchange) for url, names in zip(urls, (("x", "y"), ("y", "x")), strict=True))
    engines = tuple(create_engine(url.replace("postgresql://", "postgresql+psycopg://")) for url in urls)
    for links, engine in ((x, engines[0]), (y, engines[1])):
        drive(links.setup("orders"))
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE effects (uuid TEXT)"))

    @trigger("link:orders", name="apply", history=y.history, transacted=True)
    def apply(operations: list[Any], connection: Connection) -> None:
        for operation in operations:
            connection.execute(_INSERT, operation)

    receiver = drive(y.open_receiver("link:orders", subscription="apply", name="bench"))
    try:
        yield Ends(x.agent("orders", applies=False), receiver, apply, (engines[0], engines[1]))
    finally:
        for links, engine in ((x, engines[0]), (y, engines[1])):
            drive(links.close())
            engine.dispose()


def _links(url: str, name: str, peer: str, exchange: Path) -> Links:
    link = {"carrier": f"file://{exchange}", "inbox": name, "outbox": peer, "poll": 0.001}
    settings = RemoteSettings.model_validate({"database": url, "links": {"orders": link}}).beside(exchange)
    return Links(settings, open_carrier=lambda _link, _settings: DirectoryCarrier(exchange))


def _schemas(url: str) -> Iterable[str]:
    """Two schemas of one server stand for two databases."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    for name in ("x", "y"):
        with engine.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA bench_{name}"))
        yield f"{url}?options=-csearch_path%3Dbench_{name}"
    engine.dispose()
