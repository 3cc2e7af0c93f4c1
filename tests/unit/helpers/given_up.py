"""Events of messages that were given up."""

from typing import Any

from history.message import Message, Uuid
from triggers.events import Cause, RetrievalFailureEvent

MESSAGE = Message(body=b"\xff", uuid=Uuid("u-1"))


def event(trigger: str = "book", **fields: Any) -> RetrievalFailureEvent:
    """Make an event about ``MESSAGE``; ``fields`` replace its defaults."""
    told: dict[str, Any] = {
        "destination": "orders",
        "delivery_count": 1,
        "cause": Cause.SERVICE_FAILED,
        "message": MESSAGE,
    }
    return RetrievalFailureEvent(trigger_name=trigger, **told | fields)
