"""The retrieval failure event, raised when a message is given up, and who hears of it.

``event.py`` is the event, ``subscriptions.py`` who hears of it, ``mailbox.py`` how it is told later.
``hearing.py`` is what all kinds of events share.
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
