"""Why a message is given up; each is the cause of a retrieval failure event."""

from enum import StrEnum


class Cause(StrEnum):
    """Why a message was given up."""

    __module__ = "triggers"

    SERVICE_FAILED = "the service failed fatally"
    RETRIES_USED_UP = "the service failed transiently and its retries are used up"
    MAX_DELIVERY_COUNT = "max_delivery_count was passed"
    HISTORY_UNAVAILABLE = "the document history was unreachable"
    RESOLVER_UNAVAILABLE = "the resolver failed transiently"
    RESOLVER_FAILED = "the resolver failed"
    FILTER_FAILED = "a filter failed"
    FAILED_BEFORE = "a transacted service failed fatally on an earlier delivery"
    NO_IDENTITY = "the message has neither uuid nor JMSMessageID"
    UNREADABLE = "the delivery could not be read as a message"
    OTHER_BODY = "another body came first under the same uuid"
    JOIN_TIMED_OUT = "the other messages of its join did not come in time"


#: Silenced by ``raise_event_on_exception=False``: the message cannot be processed.
EXCEPTION_CAUSES = frozenset({Cause.SERVICE_FAILED, Cause.FILTER_FAILED, Cause.FAILED_BEFORE})

#: Silenced by ``raise_event_on_retry_failure=False``: it might be processed later, but was given up.
RETRY_FAILURE_CAUSES = frozenset(
    {
        Cause.RETRIES_USED_UP,
        Cause.MAX_DELIVERY_COUNT,
        Cause.HISTORY_UNAVAILABLE,
        Cause.RESOLVER_UNAVAILABLE,
        Cause.RESOLVER_FAILED,
    }
)
