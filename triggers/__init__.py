"""What we do: triggers, the pipeline behind them, and the providers they receive from."""

from history.errors import ConfigurationError, DoubtlessError, MissingExtraError, UnavailableError
from history.message import Message
from triggers.declaration.decorator import Trigger, trigger
from triggers.detection.table import Status
from triggers.events import (
    Cause,
    RetrievalFailureEvent,
    Subscription,
    flush_events,
    on_retrieval_failure,
)
from triggers.pipeline.joining.joins import Joined
from triggers.producer.delivery_failure import DeliveryFailureEvent, DeliverySubscription, on_delivery_failure
from triggers.producer.producer import Producer, send
from triggers.producer.queue.drain import Drained
from triggers.producer.queue.queue import ClientQueue, ClientQueueFullError
from triggers.providers.outgoing import SentMessage
from triggers.providers.provider import ProviderUnavailableError
from triggers.selectors import Filter, Selector, SelectorError
from triggers.service.delivery import Delivery
from triggers.service.failures import FatalError, Retry, TransientError
from triggers.service.outcome import Outcome

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
