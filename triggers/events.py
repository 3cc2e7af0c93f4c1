"""The retrieval failure event, raised when a message is given up, and who hears of it.

Source: the webMethods event jmsReceiveErrorEvent and its causes. A subscription is process-wide, as in the
reference system's event manager; it names triggers by a pattern in which ``*`` stands for anything.
"""

import asyncio
import inspect
import logging
import re
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Any, ClassVar
from urllib.parse import quote

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_serializer, field_validator

from history.errors import ConfigurationError
from history.message import Message
from history.parking import encodable

_log = logging.getLogger(__name__)

#: The CloudEvents type of a retrieval failure event.
EVENT_TYPE = "doubtless.retrieval_failure.v1"


class Cause(StrEnum):
    """Why a message was given up."""

    SERVICE_FAILED = "the service failed fatally"
    RETRIES_USED_UP = "the service failed transiently and its retries are used up"
    MAX_DELIVERY_COUNT = "max_delivery_count was passed"
    HISTORY_UNAVAILABLE = "the document history was unreachable"
    RESOLVER_UNAVAILABLE = "the resolver failed transiently"
    RESOLVER_FAILED = "the resolver failed"
    FAILED_BEFORE = "a transacted service failed fatally on an earlier delivery"
    NO_IDENTITY = "the message has neither uuid nor JMSMessageID"
    UNREADABLE = "the delivery could not be read as a message"


class RetrievalFailureEvent(BaseModel):
    """A message was given up: acknowledged or about to be, and parked whole.

    ``message`` is None only for an unreadable delivery. ``destination_index`` is the place of the destination
    in the trigger's list, from 0.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    trigger_name: str
    destination: str
    destination_index: int = 0
    delivery_count: int
    time: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    exception_class: str | None = None
    exception_message: str | None = None
    cause: Cause
    message: Message | None = None

    @field_validator("exception_class", "exception_message")
    @classmethod
    def _make_encodable(cls, text: str | None) -> str | None:
        return None if text is None else encodable(text)

    @field_serializer("message")
    def _write_message(self, message: Message | None) -> str | None:
        return None if message is None else message.to_json().decode()

    @field_validator("message", mode="before")
    @classmethod
    def _read_message(cls, value: object) -> object:
        return Message.from_json(value) if isinstance(value, str) else value

    def to_cloudevent(self) -> dict[str, Any]:
        """Return the event as a CloudEvents 1.0 object, ready for JSON.

        The same event has the same id each time, so that who receives it twice can tell.
        """
        return {
            "specversion": "1.0",
            "id": blake2b(self.model_dump_json().encode(), digest_size=16).hexdigest(),
            "source": f"/doubtless/triggers/{quote(self.trigger_name, safe='')}",
            "type": EVENT_TYPE,
            "time": self.time.isoformat(),
            "datacontenttype": "application/json",
            "data": self.model_dump(mode="json"),
        }


#: What hears of events. It may be a coroutine function.
Handler = Callable[[RetrievalFailureEvent], Awaitable[None] | None]


class Subscription:
    """A handler and the triggers it is for. It works until :meth:`cancel`."""

    def __init__(self, handler: Handler, pattern: str) -> None:
        self.handler = handler
        self.pattern = pattern
        # Not fnmatch: a trigger's name may hold brackets and question marks of its own.
        self._name = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)

    def hears(self, trigger_name: str) -> bool:
        """Whether events of this trigger are for it."""
        return self._name.fullmatch(trigger_name) is not None

    def __call__(self, event: RetrievalFailureEvent) -> Awaitable[None] | None:
        """Call the handler itself."""
        return self.handler(event)

    def cancel(self) -> None:
        """Stop hearing of events; a second time is harmless."""
        with _lock:
            if self in _subscriptions:
                _subscriptions.remove(self)


_lock = threading.Lock()
_subscriptions: list[Subscription] = []


def on_retrieval_failure(trigger: str = "*") -> Callable[[Handler], Subscription]:
    """Subscribe a handler to the retrieval failure events of the triggers whose name matches.

    A handler that fails is logged and changes nothing else. A coroutine function is awaited under asyncio; in
    blocking code it runs to its end on an event loop of its own.

    Raises:
        ConfigurationError: it was used without its parentheses.
    """
    if not isinstance(trigger, str):  # pyright: ignore[reportUnnecessaryIsInstance]  (a user's)
        raise ConfigurationError(
            "on_retrieval_failure", "it was given a function", "write @on_retrieval_failure()"
        )

    def subscribe(handler: Handler) -> Subscription:
        subscription = Subscription(handler, trigger)
        with _lock:
            _subscriptions.append(subscription)
        return subscription

    return subscribe


async def publish(event: RetrievalFailureEvent, *, blocking: bool) -> None:
    """Tell every subscriber whose pattern matches; never raise what they raise."""
    with _lock:
        hearing = [one for one in _subscriptions if one.hears(event.trigger_name)]
    for subscription in hearing:
        try:
            told = subscription.handler(event)
            if inspect.isawaitable(told):
                await _finish(told, blocking=blocking)
        except Exception:  # noqa: BLE001  (the handler is user code)
            _log.exception(
                "a retrieval failure handler failed",
                extra={"trigger": event.trigger_name, "uuid": _uuid(event)},
            )


async def _finish(told: Awaitable[None], *, blocking: bool) -> None:
    if not blocking:
        await told
        return

    async def waiting() -> None:
        await told

    # The calling thread may have a running loop of its own, so the handler gets another thread.
    failure: list[Exception] = []

    def run() -> None:
        try:
            asyncio.run(waiting())
        except Exception as error:  # noqa: BLE001  (handed to the caller, which logs it)
            failure.append(error)

    thread = threading.Thread(target=run, name="doubtless-event")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]


def _uuid(event: RetrievalFailureEvent) -> str | None:
    return None if event.message is None else event.message.uuid
