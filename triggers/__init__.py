"""Triggers, the pipeline behind them, and the providers from which they receive.

=====================  ==============================================================================
``service/``           the user's function: its settings, how it is called, what its failures mean
``detection/``         the decision table: pure
``pipeline/``          one message from its claim to its answer; ``pipeline.py`` has the order of steps
``declaration/``       ``@trigger``, and the ``Trigger`` that it makes
``providers/``         where messages come from: a folder for each messaging system
``consumer/``          receives messages, and hands them to triggers
``producer/``          sends messages
``selectors/``         conditions on messages
``events/``            the event when a message is given up; ``sinks/``: where it goes
``guards/``            the same for tasks of Celery and others, and for HTTP requests
``spark/``             the same for micro-batches of Spark
``patchbay/``          components that a file wires to destinations
``metrics/``           numbers for monitoring; ``security/``: the security log
``configuration/``     ``doubtless.toml`` and the environment
``operations/``        what people do with triggers: look, decide, run again
``cli/``               the command line; ``dashboard/``: the same in a browser; ``demo/``: its main job
``testing/``           tools with which users test their triggers
=====================  ==============================================================================

Each name is loaded at its first use, so importing this package costs nothing.
"""

from typing import TYPE_CHECKING

try:
    from history.support.faces import lazy
except ModuleNotFoundError as error:  # printed here: none of our other modules can be imported
    import history

    raise ImportError(
        f"{history.__file__} has the name of a package of doubtless, so that only one of them can be "
        "imported: rename it, such as to my_history.py"
    ) from error

if TYPE_CHECKING:
    from history.errors import ConfigurationError, DoubtlessError, MissingExtraError, UnavailableError
    from history.message import Message
    from history.support.redaction import CARD_NUMBERS, IBANS, TOKENS
    from triggers.consumer import AsyncConsumer, Consumer
    from triggers.declaration.decorator import Trigger, trigger
    from triggers.detection.table import Status
    from triggers.events import Cause, RetrievalFailureEvent, Subscription, flush_events, on_retrieval_failure
    from triggers.pipeline.joining.joins import Joined
    from triggers.pipeline.joining.parts import NoActivationError, PlaceTakenError
    from triggers.producer.delivery_failure import (
        DeliveryFailureEvent,
        DeliverySubscription,
        on_delivery_failure,
    )
    from triggers.producer.producer import Producer, send
    from triggers.producer.queue.drain import Drained
    from triggers.producer.queue.queue import ClientQueue, ClientQueueFullError
    from triggers.providers.opening import open_provider
    from triggers.providers.outgoing import SentMessage
    from triggers.providers.provider import ProviderUnavailableError
    from triggers.selectors import Filter, Selector, SelectorError
    from triggers.service.delivery import Delivery
    from triggers.service.failures import (
        BodyInvalidError,
        BodyTooLargeError,
        FatalError,
        LazyResultError,
        LeaseLostError,
        Redelivery,
        Retry,
        TransientError,
        UnawaitedError,
    )
    from triggers.service.filters import FilterAnswerError
    from triggers.service.identity import UnidentifiedError
    from triggers.service.keeping import FailedBeforeError, Keep
    from triggers.service.outcome import Outcome
else:  # a type checker would accept any name
    __getattr__ = lazy(__name__)

__all__ = [
    "CARD_NUMBERS",
    "IBANS",
    "TOKENS",
    "AsyncConsumer",
    "BodyInvalidError",
    "BodyTooLargeError",
    "Cause",
    "ClientQueue",
    "ClientQueueFullError",
    "ConfigurationError",
    "Consumer",
    "Delivery",
    "DeliveryFailureEvent",
    "DeliverySubscription",
    "DoubtlessError",
    "Drained",
    "FailedBeforeError",
    "FatalError",
    "Filter",
    "FilterAnswerError",
    "Joined",
    "Keep",
    "LazyResultError",
    "LeaseLostError",
    "Message",
    "MissingExtraError",
    "NoActivationError",
    "Outcome",
    "PlaceTakenError",
    "Producer",
    "ProviderUnavailableError",
    "Redelivery",
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
    "UnawaitedError",
    "UnidentifiedError",
    "flush_events",
    "on_delivery_failure",
    "on_retrieval_failure",
    "open_provider",
    "send",
    "trigger",
]
