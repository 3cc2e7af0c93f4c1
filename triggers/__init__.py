"""What we do: triggers, the pipeline behind them, and the providers they receive from."""

from history.errors import ConfigurationError, DoubtlessError, MissingExtraError, UnavailableError
from history.message import Message
from triggers.binding import Delivery
from triggers.client_queue import ClientQueue, ClientQueueFullError
from triggers.delivery_failure import DeliveryFailureEvent, DeliverySubscription, on_delivery_failure
from triggers.detection import Status
from triggers.events import (
    Cause,
    RetrievalFailureEvent,
    Subscription,
    flush_events,
    on_retrieval_failure,
)
from triggers.failures import FatalError, Retry, TransientError
from triggers.joins import Joined
from triggers.outcome import Outcome
from triggers.outgoing import SentMessage
from triggers.producer import Producer, send
from triggers.providers.provider import ProviderUnavailableError
from triggers.queue_drain import Drained
from triggers.selectors import Filter, Selector, SelectorError
from triggers.trigger import Trigger, trigger

__all__ = [
    "Cause",
    "ClientQueue",
    "ClientQueueFullError",
    "ConfigurationError",
    "Delivery",
    "DeliveryFailureEvent",
    "DeliverySubscription",
    "DoubtlessError",
    "Drained",
    "FatalError",
    "Filter",
    "Joined",
    "Message",
    "MissingExtraError",
    "Outcome",
    "Producer",
    "ProviderUnavailableError",
    "RetrievalFailureEvent",
    "Retry",
    "Selector",
    "SelectorError",
    "SentMessage",
    "Status",
    "Subscription",
    "TransientError",
    "Trigger",
    "UnavailableError",
    "flush_events",
    "on_delivery_failure",
    "on_retrieval_failure",
    "send",
    "trigger",
]
