"""The delivery failure event: a message of a client-side queue was given up; and its handlers.

Source: the webMethods event jmsDeliveryFailureError. It is not raised for direct sends: those raise to their
caller. A subscription is process-wide and names aliases by a pattern in which ``*`` stands for anything.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC
from hashlib import blake2b
from typing import Any, ClassVar
from urllib.parse import quote

from pydantic import AwareDatetime, BaseModel, ConfigDict

from history.errors import ConfigurationError
from history.shell import Shell
from history.store.parking import EncodableText, MessageText
from history.support.forks import forkable_lock
from history.support.rendering import exception_info
from history.support.user_code import is_failure
from triggers.events.hearing import finish, wildcard
from triggers.service.checking import check_takes

_log = logging.getLogger(__name__)

#: The CloudEvents type of a delivery failure event.
EVENT_TYPE = "doubtless.delivery_failure.v1"


class DeliveryFailureEvent(BaseModel):
    """A message could not be delivered from a client-side queue, and is kept there among the failed.

    Its ``number`` serves to queue it again or discard it there; ``attempts`` counts the sends that failed
    although the provider was there.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    alias: str
    destination: str
    number: int
    time: AwareDatetime
    attempts: int
    exception_class: EncodableText
    exception_message: EncodableText
    message: MessageText

    @property
    def id(self) -> str:
        """The same for the same event each time, so that a handler can recognise a repeated event."""
        return blake2b(self.model_dump_json().encode(), digest_size=16).hexdigest()

    def to_cloudevent(self) -> dict[str, Any]:
        """Return the event as a CloudEvents 1.0 object, ready for JSON."""
        return {
            "specversion": "1.0",
            "id": self.id,
            "source": f"/doubtless/producers/{quote(self.alias, safe='')}",
            "type": EVENT_TYPE,
            "time": self.time.astimezone(UTC).isoformat(),
            "datacontenttype": "application/json",
            "data": self.model_dump(mode="json"),
        }


#: Receives events. It may be a coroutine function.
DeliveryFailureHandler = Callable[[DeliveryFailureEvent], Awaitable[None] | None]


class DeliverySubscription:
    """A handler and the aliases that it handles. It works until :meth:`cancel`."""

    def __init__(self, handler: DeliveryFailureHandler, pattern: str) -> None:
        self.handler = handler
        self.pattern = pattern
        self._alias = wildcard(pattern)

    def hears(self, alias: str) -> bool:
        """Whether it handles events of this alias; case matters, and ``*`` is the only wildcard."""
        return self._alias.fullmatch(alias) is not None

    def __call__(self, event: DeliveryFailureEvent) -> Awaitable[None] | None:
        """Call the handler itself."""
        return self.handler(event)

    def cancel(self) -> None:
        """Stop receiving events; a second time is harmless."""
        with _lock:
            if self in _subscriptions:
                _subscriptions.remove(self)


_lock = forkable_lock()
_subscriptions: list[DeliverySubscription] = []


def on_delivery_failure(alias: str = "*") -> Callable[[DeliveryFailureHandler], DeliverySubscription]:
    """Subscribe a handler to the delivery failure events of the producers with a matching alias.

    The process that drains the queue calls the handler, after it has moved the message to the failed ones. If
    that process dies before the handler returns, the next process that drains calls it again. If a handler
    fails, this is logged and changes nothing else. A coroutine function is awaited under asyncio; in blocking
    code it runs to its end on a separate event loop.

    Raises:
        ConfigurationError: it was used without its parentheses, or the handler cannot be called with one
            event.
    """
    if not isinstance(alias, str):  # pyright: ignore[reportUnnecessaryIsInstance]  (a user's)
        raise ConfigurationError(
            "on_delivery_failure", "it was given a function", "write @on_delivery_failure()"
        )

    def subscribe(handler: DeliveryFailureHandler) -> DeliverySubscription:
        check_takes("on_delivery_failure", handler, "one event", remedy="write def handler(event)")
        subscription = DeliverySubscription(handler, alias)
        with _lock:
            _subscriptions.append(subscription)
        return subscription

    return subscribe


async def publish(event: DeliveryFailureEvent, shell: Shell) -> None:
    """Log the event, and call every handler with a matching pattern; never raise what they raise."""
    extra = {"alias": event.alias, "uuid": event.message.uuid, "status": "given up"}
    _log.error(
        "producer %s gave up message %s for %s after %d attempts (%s: %s); "
        "it is kept in its queue as failed message %d: queue it again, or discard it",
        event.alias,
        event.message.uuid,
        event.destination,
        event.attempts,
        event.exception_class,
        event.exception_message,
        event.number,
        extra=extra,
    )
    with _lock:
        hearing = [each for each in _subscriptions if each.hears(event.alias)]
    for subscription in hearing:
        try:
            # A separate event: what the handler does to the message affects no other handler.
            returned = subscription.handler(event.model_copy(update={"message": event.message.copied()}))
            if inspect.isawaitable(returned):
                await finish(returned, shell)
        except BaseException as error:
            if not is_failure(error):
                raise
            _log.error(
                "a handler of delivery failure events failed; the others are called",
                exc_info=exception_info(error),
                extra=extra,
            )
