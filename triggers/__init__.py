"""What we do: triggers, the pipeline behind them, and the providers they receive from."""

from history.errors import ConfigurationError, DoubtlessError, MissingExtraError, UnavailableError
from history.message import Message
from triggers.binding import Delivery
from triggers.detection import Status
from triggers.events import Cause, RetrievalFailureEvent, Subscription, on_retrieval_failure
from triggers.failures import FatalError, Retry, TransientError
from triggers.outcome import Outcome
from triggers.trigger import Trigger, trigger

__all__ = [
    "Cause",
    "ConfigurationError",
    "Delivery",
    "DoubtlessError",
    "FatalError",
    "Message",
    "MissingExtraError",
    "Outcome",
    "RetrievalFailureEvent",
    "Retry",
    "Status",
    "Subscription",
    "TransientError",
    "Trigger",
    "UnavailableError",
    "on_retrieval_failure",
    "trigger",
]
