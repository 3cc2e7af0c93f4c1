"""The message context, with which a component sends."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from history.bridge import drive, settled
from history.errors import ConfigurationError
from history.message import Message
from history.store import instant
from triggers.patchbay.local import joined_connection
from triggers.patchbay.outputs import Outputs
from triggers.patchbay.wiring.model import DEFAULT_PORT
from triggers.providers.outgoing import Body, SendOptions, compose, running_sends

if TYPE_CHECKING:
    from history.sql.database.engine import AnyConnection

#: The property in which ATG's sources set the delivery time of a message: ms since 1970.
DELIVERY_DATE = "DELIVERY_DATE"

#: The arguments of the running service, which may include the connection to write with.
_ARGUMENTS: ContextVar[tuple[object, ...]] = ContextVar("doubtless_patchbay_arguments", default=())

_CONTEXT: ContextVar["MessageContext | None"] = ContextVar("doubtless_patchbay_context", default=None)


class MessageContext:
    """Sends messages by the output ports of one component; safe to share between threads.

    Inside an atomic sink or filter, its messages are a part of the transaction. Sinks of local destinations
    run before the call returns, and it raises their exceptions. A source may use it from its start on;
    :attr:`stopping` then says when the source must end.
    """

    def __init__(
        self, name: str, *, outputs: Callable[[], Outputs], async_outputs: Callable[[], Outputs]
    ) -> None:
        self.name = name
        self._outputs = outputs
        self._async_outputs = async_outputs
        self._stop = threading.Event()

    @property
    def stopping(self) -> bool:
        """Whether the Patch Bay stops: a source must end."""
        return self._stop.is_set()

    def pause(self, duration: timedelta) -> bool:
        """Wait, at most while the Patch Bay runs; return whether it still does."""
        return not self._stop.wait(duration.total_seconds())

    def stop(self) -> None:
        """Make the source end."""
        self._stop.set()

    def send(
        self,
        port: str,
        body: Body | Message,
        *,
        connection: "AnyConnection | None" = None,
        **options: Unpack[SendOptions],
    ) -> str:
        """Send one message to every destination of a port and return its uuid.

        With ``delay=``, a delivery time, or the property ``DELIVERY_DATE``, it waits in limbo. Options are as
        in :meth:`triggers.producer.producer.Producer.send`. ``connection`` is a connection with an open
        transaction in the database of limbo: the message is sent when that commits, and not at all otherwise.

        Raises:
            ConfigurationError: the port does not exist, or the message or connection cannot be used.
            ProviderUnavailableError: it is unknown whether it arrived; send it again under the same uuid.
        """
        message = _composed(body, options)
        drive(self._send(self._outputs(), port, message, connection))
        return message.uuid or ""

    async def asend(
        self,
        port: str,
        body: Body | Message,
        *,
        connection: "AnyConnection | None" = None,
        **options: Unpack[SendOptions],
    ) -> str:
        """Send one message under asyncio; the same as :meth:`send`."""
        message = _composed(body, options)
        sends = running_sends()
        # What a blocking service sends in an event loop of its own leaves after that loop has ended.
        outputs = self._outputs() if sends is not None and sends.blocking else self._async_outputs()
        await self._send(outputs, port, message, connection)
        return message.uuid or ""

    async def _send(
        self, outputs: Outputs, port: str, message: Message, connection: "AnyConnection | None"
    ) -> None:
        if connection is not None:
            await outputs.prepare()
            if not await outputs.is_here(connection):
                raise ConfigurationError(
                    "connection",
                    "does not belong to the database of limbo",
                    "leave it out, or set limbo= to it",
                )
        transaction = connection if connection is not None else await _running_transaction()
        transaction = joined_connection() if transaction is None else transaction
        await outputs.send(self.name, port, [message], transaction)


def current_context() -> MessageContext:
    """Return the context of the sink or filter that is running.

    Raises:
        ConfigurationError: none is running.
    """
    context = _CONTEXT.get()
    if context is None:
        raise ConfigurationError(
            "current_context", "no component of a Patch Bay is running", "call it in a sink or filter"
        )
    return context


@contextmanager
def running(context: MessageContext, arguments: tuple[object, ...]) -> Generator[None]:
    """Declare which component runs, and with which arguments, for the length of the block."""
    outer_context, outer_arguments = _CONTEXT.set(context), _ARGUMENTS.set(arguments)
    try:
        yield
    finally:
        _CONTEXT.reset(outer_context)
        _ARGUMENTS.reset(outer_arguments)


async def _running_transaction() -> Any:
    """Return the connection of the atomic service that is running; None if none is."""
    for argument in _ARGUMENTS.get():
        argument_class = type(argument)
        # By name: without SQL, SQLAlchemy need not be loaded.
        if not argument_class.__module__.startswith("sqlalchemy."):
            continue
        if argument_class.__name__ in {"Connection", "AsyncConnection"}:
            return argument
        if argument_class.__name__ in {"Session", "AsyncSession"}:
            session: Any = argument
            return await settled(session.connection())
    return None


def _composed(body: Body | Message, options: SendOptions) -> Message:
    message = compose(DEFAULT_PORT, body, **options)
    date = message.properties.get(DELIVERY_DATE)
    if date is None:
        return message
    if isinstance(date, int) and not isinstance(date, bool):
        with suppress(OverflowError):  # microseconds, or similar
            return message.model_copy(update={"delivery_time": instant(date)})
    raise ConfigurationError(
        f"property {DELIVERY_DATE}",
        f"must be milliseconds since 1970, not {date!r:.40}",
        "give milliseconds since 1970",
    )
