"""The retrieval failure event, raised when a message is given up, and its handlers.

``event.py`` is the event, ``subscriptions.py`` has its subscribers, ``mailbox.py`` delivers it later.
``hearing.py`` is shared by all kinds of events.
"""

from triggers.detection.causes import EXCEPTION_CAUSES, RETRY_FAILURE_CAUSES, Cause
from triggers.events.event import EVENT_TYPE, RetrievalFailureEvent
from triggers.events.mailbox import DEFAULT_QUEUE_SIZE, PATIENCE, Handler, flush_events
from triggers.events.subscriptions import Subscription, is_heard, on_retrieval_failure, publish

__all__ = [
    "DEFAULT_QUEUE_SIZE",
    "EVENT_TYPE",
    "EXCEPTION_CAUSES",
    "PATIENCE",
    "RETRY_FAILURE_CAUSES",
    "Cause",
    "Handler",
    "RetrievalFailureEvent",
    "Subscription",
    "flush_events",
    "is_heard",
    "on_retrieval_failure",
    "publish",
]
