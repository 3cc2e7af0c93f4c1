"""The report of a failed attempt, and the copy that leaves by the failure port after the last one."""

from dataclasses import dataclass

from history.errors import HistoryUnavailableError
from history.message import Message
from history.support.rendering import class_of, name_of, text_of
from triggers.events import Cause, RetrievalFailureEvent
from triggers.patchbay.wiring.model import RedeliveryEntry
from triggers.service.failures import FatalError, LeaseLostError, Transient
from triggers.service.outcome import Outcome
from triggers.sinks.dead_letter import letter

#: The longest text of an error that is stored with a message.
_LONGEST_ERROR = 2000

#: The property that holds the JMSMessageID of a message that was given up.
ORIGINAL_ID = "doubtless_message_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTerms:
    """One input from the view of its receivers: its owner, and the handling of its failures."""

    trigger: str
    component: str
    port: str
    destination: str
    redelivery: RedeliveryEntry
    transient: Transient


class DiedError(Exception):
    """The failure of an attempt during which its process died."""

    def __init__(self, attempts: int) -> None:
        super().__init__(f"the process ended during attempt {attempts}")


def failure_of(outcome: Outcome) -> BaseException | None:
    """Return why an attempt failed; None if it did not, or was not an attempt."""
    error = outcome.error
    if outcome.acknowledge or outcome.suspend or outcome.status is None:
        return None
    if error is None or issubclass(type(error), (LeaseLostError, HistoryUnavailableError)):
        return None
    # A message that never ran, and was not refused for good, is left to the history or the resolver.
    return error if outcome.executed or issubclass(type(error), FatalError) else None


def failure_event(
    terms: InputTerms, message: Message, error: BaseException, *, attempts: int, cause: Cause
) -> RetrievalFailureEvent:
    """Return the event that reports that a message was given up."""
    return RetrievalFailureEvent(
        trigger_name=terms.trigger,
        destination=message.destination or terms.destination,
        delivery_count=attempts,
        exception_class=class_of(error),
        exception_message=short_text(error),
        cause=cause,
        message=message,
    )


def failure_copy(event: RetrievalFailureEvent, message: Message) -> Message:
    """Return the message for the failure port: a new message under the same uuid."""
    copy = letter(event, message)
    properties = {**copy.properties}
    if message.message_id is not None:
        properties[ORIGINAL_ID] = message.message_id
    changes = {"message_id": None, "destination": None, "timestamp": None, "delivery_time": None}
    return copy.model_copy(update={**changes, "properties": properties})


def short_text(error: BaseException) -> str:
    """Return the text of an error, with a length and characters that a database can store."""
    text = text_of(error) or name_of(error)
    return text.replace("\0", "")[:_LONGEST_ERROR]
