"""Local destinations: their sinks are called in the thread and the transaction of the sender, as in ATG.

Without a queue in between, no waiting message can be lost in a crash: the sender's present message is not
completed until all sinks have returned. An exception of a sink reaches the sender. A sink has no separate
history, retries or lease here; it is a part of the sender's run.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from history.bridge import settled
from history.errors import ConfigurationError
from history.message import Message
from history.shell import Shell
from triggers.selectors import Selector
from triggers.service.binding import Binding
from triggers.service.delivery import Delivery
from triggers.service.failures import BodyTooLargeError

if TYPE_CHECKING:
    from history.sql.database.engine import AnyConnection

#: The transaction in which a local sink runs; None if its sender has none.
_JOINED: ContextVar[Any] = ContextVar("doubtless_patchbay_joined", default=None)


def joined_connection() -> Any:
    """Return the connection of the transaction that the running local sink belongs to; None without one."""
    return _JOINED.get()


@dataclass(frozen=True, slots=True)
class LocalSink:
    """A sink of a local destination; ``name`` is the name of its input."""

    name: str
    binding: Binding
    selector: Selector | None
    max_body_size: int


@dataclass(frozen=True, slots=True)
class LocalDestination:
    """A local destination, by its name; if it is a queue, one sink must accept each message."""

    name: str
    is_queue: bool
    sinks: Sequence[LocalSink] = ()

    async def send(
        self, messages: Sequence[Message], connection: "AnyConnection | None", shell: Shell
    ) -> None:
        """Call the sinks with each message, one after the other.

        Raises:
            ConfigurationError: no sink accepts a message of a queue, or a sink cannot run like its sender.
            BaseException: an exception of a sink; its own writes in the transaction are undone.
        """
        for message in messages:
            arrived = _arrived(message, self.name)
            sinks = [sink for sink in self.sinks if sink.selector is None or sink.selector.matches(arrived)]
            if self.is_queue and not sinks:
                raise ConfigurationError(
                    f"local queue {self.name}",
                    "no sink of this file takes the message, and nothing would keep it",
                    "wire a sink to it, correct its selector, or make it a topic",
                )
            for sink in sinks:
                await _call(sink, arrived, connection, shell)


def _arrived(message: Message, destination: str) -> Message:
    """Return a message as its sinks see it."""
    if message.delivery_time is not None and message.delivery_time > datetime.now(UTC):
        raise ConfigurationError(
            f"local destination {destination}",
            "its sinks are called when it is sent, and this message is to be delivered later",
            "set [patchbay] limbo to a database, in which it can wait",
        )
    changes = {
        "message_id": message.message_id or f"ID:local:{uuid4()}",
        "destination": destination,
        "timestamp": message.timestamp or datetime.now(UTC),
        "delivery_count": 1,
    }
    return message.model_copy(update=changes)


async def _call(sink: LocalSink, message: Message, connection: "AnyConnection | None", shell: Shell) -> None:
    binding = sink.binding
    if binding.is_async and shell.blocking:
        raise ConfigurationError(
            f"local sink {sink.name}",
            "is a coroutine function, and its sender blocks",
            "send by asend in a coroutine function, or make the sink a plain function",
        )
    if message.body_size() > sink.max_body_size:
        raise BodyTooLargeError(message.body_size(), sink.max_body_size)
    _check_resources(sink, connection, shell)
    joined = _Joined(connection)
    delivery = Delivery(uuid=message.uuid, fence=None, attempt=1, trigger_name=sink.name, delivery_count=1)
    with _joining(connection):
        mark: Any = None if connection is None else await settled(connection.begin_nested())
        try:
            positional, named = binding.arguments(message.copied(), delivery, joined)
            await settled(binding.service(*positional, **named))
            await joined.keep()
        except BaseException:
            await joined.close()
            if mark is not None and mark.is_active:
                await settled(mark.rollback())
            raise
        if mark is not None:
            await settled(mark.commit())


@contextmanager
def _joining(connection: "AnyConnection | None") -> Generator[None]:
    outer = _JOINED.set(connection)
    try:
        yield
    finally:
        _JOINED.reset(outer)


def _check_resources(sink: LocalSink, connection: "AnyConnection | None", shell: Shell) -> None:
    """Refuse a sink that asks for a resource that its sender does not have."""
    asked = " and ".join(sorted(sink.binding.resources))
    if asked and connection is None:
        raise ConfigurationError(
            f"local sink {sink.name}",
            f"asks for a {asked}, and its sender has no transaction",
            "let the sender take a Connection or Session, or send with connection=",
        )
    if any(for_asyncio == shell.blocking for for_asyncio in sink.binding.resources.values()):
        raise ConfigurationError(
            f"local sink {sink.name}",
            f"asks for a {asked}, which its sender does not have",
            "use AsyncConnection or AsyncSession under asyncio, Connection or Session elsewhere",
        )


@dataclass(slots=True)
class _Joined:
    """The resources of the sender's transaction for a sink."""

    connection: "AnyConnection | None"
    _session: Any = field(default=None)

    @property
    def session(self) -> Any:
        """A session in the transaction; its commit and rollback affect only a savepoint."""
        from history.sql.transaction import session_in  # noqa: PLC0415  (loads a driver)

        if self._session is None and self.connection is not None:
            self._session = session_in(self.connection)
        return self._session

    async def keep(self) -> None:
        """Write the remaining changes in the sink's session.

        Raises:
            EffectsDiscardedError: the sink closed its session.
        """
        if self._session is None:
            return
        from history.sql.transaction import refuse_discarded  # noqa: PLC0415  (loads a driver)

        refuse_discarded(self._session)
        await settled(self._session.commit())
        await self.close()

    async def close(self) -> None:
        """Close the session; unwritten changes are lost."""
        session, self._session = self._session, None
        if session is not None:
            await settled(session.close())


#: The local destinations of a file, by provider and address.
LocalDestinations = Mapping[tuple[str, str], LocalDestination]
