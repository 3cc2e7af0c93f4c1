"""Components for the tests of the Patch Bay, the messages that they received, and the wiring files."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncSession

from history.bridge import drive
from history.store import instant
from tests.fixtures.databases import asked
from triggers import FatalError, Message, TransientError, trigger
from triggers.patchbay import MessageContext, PatchBay, current_context, read_patchbay
from triggers.patchbay.releaser import Releaser
from triggers.pipeline.parking.lot import ParkingLot
from triggers.providers import Provider
from triggers.providers.memory import MemoryProvider

#: The messages that each component received, in order. :func:`forget` clears it.
SEEN: dict[str, list[tuple[str, Message]]] = {}

#: The component ``service`` calls these functions with each message.
DOES: list[Callable[[Message], None]] = []


def forget() -> None:
    SEEN.clear()
    DOES.clear()


def silent(_context: MessageContext) -> None:
    """Send nothing by itself."""


def telling(context: MessageContext) -> None:
    """Send one message, even if a busy machine starts it several times."""
    if not SEEN.get("source"):
        SEEN["source"] = [("", Message(body="from the source"))]
        context.send("DEFAULT", "from the source")


def seen(name: str) -> list[tuple[str, Message]]:
    return SEEN.setdefault(name, [])


def counts(name: str) -> list[int]:
    return [message.delivery_count for _, message in seen(name)]


def service(port: str, message: Message) -> None:
    seen("service").append((port, message))
    for act in DOES:
        act(message)


async def aservice(message: Message, context: MessageContext) -> None:
    seen("service").append(("", message))
    for act in DOES:
        act(message)
    await context.asend("OUT", {"of": message.uuid})


@trigger("orders", name="own-name", history_time_to_live=timedelta(days=1))
def decorated(message: Message) -> None:
    seen("service").append(("", message))
    for act in DOES:
        act(message)
    current_context().send("OUT", {"of": message.uuid})


def atomic(message: Message, connection: Connection, context: MessageContext) -> None:
    """Write an effect and send on, in one transaction; then do what the test wants."""
    seen("atomic").append(("DEFAULT", message))
    connection.execute(text("INSERT INTO effects (uuid) VALUES (:uuid)"), {"uuid": message.uuid})
    context.send("OUT", {"of": message.uuid})
    for act in DOES:
        act(message)


def looping(message: Message, context: MessageContext) -> None:
    """Send on in an event loop that ends before the sent message may leave."""
    seen("service").append(("", message))
    for act in DOES:
        act(message)
    asyncio.run(context.asend("OUT", {"of": message.uuid}))


async def aatomic(message: Message, session: AsyncSession, context: MessageContext) -> None:
    """Do the same under asyncio."""
    seen("atomic").append(("DEFAULT", message))
    await session.execute(text("INSERT INTO effects (uuid) VALUES (:uuid)"), {"uuid": message.uuid})
    await context.asend("OUT", {"of": message.uuid})
    for act in DOES:
        act(message)


def other(message: Message) -> None:
    seen("other").append(("", message))


def lost(port: str, message: Message) -> None:
    seen(port).append((port, message))


def fails(message: Message) -> None:
    raise TransientError(f"cannot do {message.uuid}")


def fails_for_good(message: Message) -> None:
    raise FatalError(f"never {message.uuid}")


def fails_until(attempt: int) -> Callable[[Message], None]:
    def act(message: Message) -> None:
        if message.delivery_count < attempt:
            fails(message)

    return act


WIRING = """
[patchbay]
history = "{history}"
limbo = "{database}"
release_interval = "50ms"
{options}

[providers.main]
url = "{provider}"

[[source]]
name = "shop"
component = "tests.integration.patchbay.components:silent"
[[source.output]]
to = [{{ destination = "orders", type = "topic" }}]

[[sink]]
name = "booking"
component = "tests.integration.patchbay.components:{component}"
[[sink.input]]
port = "orders"
from = [{{ destination = "orders", type = "topic", redelivery = {{ failure_port = "failures", {terms} }} }}]
[[sink.output]]
port = "OUT"
to = ["booked"]
[[sink.redelivery_port]]
port = "failures"
to = ["errors", "dead"]

[[sink]]
name = "other"
component = "tests.integration.patchbay.components:other"
[[sink.input]]
from = [{{ destination = "orders", type = "topic" }}]

[[sink]]
name = "lost"
component = "tests.integration.patchbay.components:lost"
[[sink.input]]
port = "errors"
from = ["errors"]
[[sink.input]]
port = "dead"
from = ["dead"]
[[sink.input]]
port = "booked"
from = ["booked"]
"""


@dataclass(slots=True)
class Patched:
    """A Patch Bay on a database. Its limbo has a test clock that starts at 0."""

    file: Path
    database: str
    now: int = 0
    idle: float = 0.12
    elsewhere: bool = False
    providers: dict[str, Provider] = field(default_factory=dict[str, Provider])

    @contextmanager
    def bay(self) -> Generator[PatchBay]:
        file = read_patchbay(self.file)
        with PatchBay(file, clock=lambda: self.now, providers=self.providers) as bay:
            yield bay

    def prepare(self) -> None:
        with self.bay() as bay:
            bay.run(until_idle=self.idle)

    def send(self, message: Message) -> None:
        with self.bay() as bay:
            bay.context("shop").send("DEFAULT", message)

    def run_at(self, now: int) -> None:
        """Run at an instant of limbo's clock until no more messages come."""
        self.now = now
        for _ in range(20):
            with self.bay() as bay:
                bay.run(until_idle=self.idle)
            # On a busy machine a consumer may be called idle while it still waits for an answer.
            if not self._is_anything_left():
                return

    def _is_anything_left(self) -> bool:
        """Whether something is due in limbo, or waits in a queue or for a subscription."""
        tables = {"dms_limbo_msg": f" WHERE delivery_date <= {self.now}"}
        if not self.elsewhere:
            tables |= {"dms_queue_entry": "", "dms_topic_entry": ""}
        counted = [self.rows(f"SELECT COUNT(*) FROM {name}{which}") for name, which in tables.items()]  # noqa: S608
        return any(rows != [(0,)] for rows in counted)

    def release_at(self, now: int) -> int:
        self.now = now
        with self.bay() as bay:
            return drive(Releaser(outputs=bay.outputs, lot=ParkingLot(None)).release_due())

    def rows(self, query: str) -> Sequence[tuple[object, ...]]:
        return asked(self.database, query)

    def waiting(self) -> Sequence[tuple[object, ...]]:
        return self.rows("SELECT delivery_count, delivery_date FROM dms_limbo_msg ORDER BY msg_id")

    def is_empty(self) -> bool:
        """Whether no table of limbo has a row of a message left."""
        tables = ("msg", "replyto", "body", "props", "ptypes", "delay", "state")
        counted = [self.rows(f"SELECT COUNT(*) FROM dms_limbo_{name}") for name in tables]  # noqa: S608
        return all(rows == [(0,)] for rows in counted)


def wire(
    folder: Path,
    database: str,
    *,
    provider: str | None = None,
    history: str | None = None,
    component: str = "service",
    terms: str = 'max_attempts = 3, delay = "60s"',
    options: str = "",
) -> Patched:
    told = WIRING.format(
        history=history or database,
        database=database,
        provider=provider or database,
        component=component,
        terms=terms,
        options=options,
    )
    file = folder / "patchbay.toml"
    file.write_text(told)
    shared: dict[str, Provider] = {"main": MemoryProvider()} if provider == "memory://" else {}
    elsewhere = provider not in {None, database}
    # The number of waiting messages is unknown, so wait a little longer.
    idle = 0.3 if elsewhere and not shared else 0.12
    return Patched(file, database, idle=idle, elsewhere=elsewhere, providers=shared)


def later(millis: int, **told: Any) -> Message:
    """Return a message that is to be delivered at an instant of limbo's clock."""
    return Message(body={"n": 1}, delivery_time=instant(millis), **told)
