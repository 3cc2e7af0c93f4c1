"""Given-up messages as messages again: sent to a dead-letter destination of a provider."""

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from history.bridge import drive
from history.message import UNDEFINED_COUNT, Message, PropertyValue
from triggers.events import RetrievalFailureEvent
from triggers.providers.opening import open_provider
from triggers.providers.provider import Provider
from triggers.sinks.sink import settle_here

_log = logging.getLogger(__name__)

#: The default suffix after the trigger's destination.
SUFFIX = ".dead"

_EPOCH = datetime.fromtimestamp(0, UTC)


class DeadLetterSink:
    """Sends the message of each event, whole and under the same uuid, to a dead-letter destination.

    ``provider`` is a URL, which the sink opens and closes, or a provider, which the caller closes. An asyncio
    provider works only under asyncio, on its own event loop, and so only with ``synchronous=True``.
    ``destination`` is one name for all, or makes a name of the trigger's destination; by default that of
    ``orders`` is ``orders.dead``.

    A letter has the message's properties and :func:`failure_facts`. Its delivery count starts again, and it
    does not expire: JMSExpiration becomes the property ``doubtless_expiration``, in ms since 1970. Unreadable
    deliveries, which are not messages, are only parked. So is a dead letter that failed again, if its new
    letter would go back to the destination that it came from.

    Raises:
        ConfigurationError: the URL's scheme is unknown.
    """

    def __init__(
        self, provider: str | Provider, *, destination: str | Callable[[str], str] | None = None
    ) -> None:
        self._owned = isinstance(provider, str)
        self._provider = open_provider(provider) if isinstance(provider, str) else provider
        self._destination = destination

    def __call__(self, event: RetrievalFailureEvent) -> Awaitable[None] | None:
        """Send one message.

        Raises:
            ProviderUnavailableError: the provider does not answer.
        """
        extra = {"trigger": event.trigger_name, "uuid": event.uuid}
        if event.message is None:
            _log.warning("an unreadable delivery has no message to send: it is parked only", extra=extra)
            return None
        destination = self.letters_of(event.destination)
        if destination == event.destination:
            _log.error("a letter to %s would come back here: it is parked only", destination, extra=extra)
            return None
        return settle_here(self._send(destination, letter(event, event.message)))

    def letters_of(self, destination: str) -> str:
        """Return where the dead letters of a destination go."""
        target = self._destination
        if target is None:
            return destination + SUFFIX
        return target if isinstance(target, str) else target(destination)

    async def _send(self, destination: str, message: Message) -> None:
        await self._provider.send(destination, [message])

    def close(self) -> None:
        """Close the provider, if the sink opened it."""
        if self._owned:
            drive(self._provider.close())


def letter(event: RetrievalFailureEvent, message: Message) -> Message:
    """Return the message to send."""
    properties: dict[str, Any] = {**message.properties, **failure_facts(event)}
    if message.sent_uuid is not None:
        # Even if it was the JMSMessageID, because the provider may assign a new one.
        properties["uuid"] = message.sent_uuid
    if message.expiration is not None:
        properties["doubtless_expiration"] = (message.expiration - _EPOCH) // timedelta(milliseconds=1)
    update = {
        "properties": properties,
        "delivery_count": UNDEFINED_COUNT,
        "redelivered": False,
        "expiration": None,
    }
    return message.model_copy(update=update)


def failure_facts(event: RetrievalFailureEvent) -> dict[str, PropertyValue]:
    """Return the properties of a letter about the failure; facts that do not apply are left out.

    ``dead-letter-reason`` is the cause and the exception's text, as for a receiver's ``dead_letter``.
    """
    reason = event.cause.value
    facts: dict[str, PropertyValue] = {
        "dead-letter-reason": f"{reason}: {event.exception_message}" if event.exception_message else reason,
        "doubtless_event": event.id,
        "doubtless_trigger": event.trigger_name,
        "doubtless_destination": event.destination,
        "doubtless_delivery_count": event.delivery_count,
        "doubtless_time": event.time.isoformat(),
        "doubtless_cause": reason,
        "doubtless_exception_class": event.exception_class,
        "doubtless_exception_message": event.exception_message,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}
