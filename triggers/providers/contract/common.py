"""Helpers that the checks of the providers' conformance suite share."""

import json
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any, ClassVar
from uuid import uuid4

from history.errors import MissingExtraError
from history.message import Message, Uuid
from triggers.providers.provider import Arrival, Provider, Received, Receiver

if find_spec("pytest") is None:
    raise MissingExtraError("the conformance suite of providers", extra="contract", package="pytest")

#: The time limit for anything that should happen soon, in seconds.
SOON = 60.0

#: How long messages may take to arrive on a busy machine, in seconds: some brokers form a group first.
PATIENCE = 120.0

#: Long enough to see that something is not delivered.
A_WHILE = timedelta(milliseconds=300)

NO_WAIT = timedelta(0)


class ContractTools:
    """The properties of a provider, and how its checks receive."""

    #: Fields of Message that the provider sets when a message is sent, whatever the sender says.
    assigned: ClassVar[frozenset[str]] = frozenset()

    #: Whether the delivery count is kept; without it, it is -1 and only ``redelivered`` is known.
    counts: ClassVar[bool] = True

    #: The shortest delay that the provider accepts, which the tests use.
    delay: ClassVar[timedelta] = timedelta(milliseconds=400)

    #: Whether a message waits for its future delivery time; a provider that cannot delay refuses it.
    delays: ClassVar[bool] = True

    #: The longest body that the tests use, in bytes or characters.
    largest: ClassVar[int] = 2**20

    #: Whether a message for later comes marked as redelivered when it is due, with an undefined count.
    marks_later: ClassVar[bool] = False

    #: Whether a message that waits for its delay lets the next ones pass.
    holds_nothing_up: ClassVar[bool] = True

    #: Whether messages arrive in the order in which they were sent.
    keeps_order: ClassVar[bool] = True

    #: Whether two running consumers of one subscription cannot have the same name.
    refuses_same_name: ClassVar[bool] = True

    #: Whether a forked child can use its parent's provider. False: the child gets an error that explains it;
    #: None: the provider lives in the memory of one process.
    survives_forks: ClassVar[bool | None] = True

    #: Whether each subscription gets everything; else a destination is one queue, which all of them share.
    subscribes: ClassVar[bool] = True

    #: Whether it reports its backlog.
    tells_backlog: ClassVar[bool] = True

    def new_destination(self) -> str:
        """Return a destination that has no messages yet."""
        return f"contract-{uuid4().hex[:12]}"

    def dead_letters_of(self, destination: str) -> str:
        """Return where the dead letters of a destination go."""
        return f"DLQ.{destination}"

    @property
    def destination(self) -> str:
        """The destination of this test."""
        if not hasattr(self, "_destination"):
            self._destination = self.new_destination()
        return self._destination

    @asynccontextmanager
    async def receiving(
        self, provider: Provider, destination: str | None = None, *, subscription: str = "s", name: str = "a"
    ) -> AsyncGenerator[Receiver, None]:
        """Open a receiver, by default of the test's destination, and close it at the end."""
        wanted = self.destination if destination is None else destination
        receiver = await provider.open_receiver(wanted, subscription=subscription, name=name)
        try:
            yield receiver
        finally:
            await receiver.close()

    def arranged(self, bodies: Iterable[Any]) -> list[Any]:
        """Return bodies in a form to compare: in their order, unless the provider does not keep it."""
        return list(bodies) if self.keeps_order else sorted(bodies, key=repr)

    def delivered(self, arrival: Arrival, times: int) -> bool:
        """Whether the message reports its ``times``-th delivery."""
        message = arrival.message
        return message.delivery_count == (times if self.counts else -1) and message.redelivered == (times > 1)

    def headers(self, message: Message) -> dict[str, Any]:
        """Return the headers that must arrive as they were sent, without body and properties."""
        left_out = {"body", "properties", "delivery_count", "redelivered", *self.assigned}
        return message.model_dump(exclude=left_out)

    def typed(self, properties: Any) -> dict[str, tuple[type, Any]]:
        """Tell apart values that Python calls equal: 1, 1.0 and True."""
        return {name: (type(value), value) for name, value in properties.items()}


def everything(body: Any = b"\xff\x00 body") -> Message:
    """Return a message with every header, each different from its default, and every type of property."""
    sent = datetime(2024, 2, 29, 12, 30, 15, 250_000, tzinfo=UTC)
    return Message(
        body=body,
        uuid=Uuid("order 17/é"),
        message_id="ID:somebody-1",
        persistent=False,
        correlation_id="correlation \N{SNOWMAN}",
        type="order.created",
        destination="elsewhere",
        reply_to="answers",
        priority=9,
        timestamp=sent,
        expiration=sent + timedelta(days=40000),
        group_id="customer 5",
        group_sequence=3,
        properties={
            "text": "grüße \N{SNOWMAN}\n",
            "empty": "",
            "yes": True,
            "no": False,
            "zero": 0,
            "big": 2**62,
            "half": 0.5,
            "whole": 3.0,
            "nothing": None,
            "body": "a property of that name",
        },
    )


async def take(receiver: Receiver, count: int) -> list[Arrival]:
    """Receive exactly ``count`` messages, in :data:`PATIENCE`."""
    taken: list[Arrival] = []
    deadline = time.monotonic() + PATIENCE
    while len(taken) < count and time.monotonic() < deadline:
        taken += arrivals(await receiver.receive(count - len(taken), timedelta(milliseconds=200)))
    assert len(taken) == count, f"{count} messages should have arrived, not {len(taken)}"
    return taken


def arrivals(received: Sequence[Received]) -> list[Arrival]:
    """Assert that all of these are messages."""
    unreadable = [delivery for delivery in received if not isinstance(delivery, Arrival)]
    assert not unreadable, unreadable
    return [delivery for delivery in received if isinstance(delivery, Arrival)]


def numbered(count: int) -> list[Message]:
    """Return messages with the bodies 0, 1, 2 ... and uuids to match."""
    return [Message(body=str(number), uuid=Uuid(f"u{number}")) for number in range(count)]


def bodies(received: Sequence[Arrival]) -> list[Any]:
    """Return the bodies, in order."""
    return [delivery.message.body for delivery in received]


def kind(body: Any) -> str:
    """Spell a body out, so that bytes differ from text and 1 from 1.0 and True."""
    return f"bytes {body.hex()}" if isinstance(body, bytes) else json.dumps(body, sort_keys=True)
