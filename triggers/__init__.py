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
except ModuleNotFoundError:  # printed here: none of our other modules can be imported
    import history

    raise ImportError(
        f"{history.__file__} has the name of a package of doubtless, so that only one of them can be "
        "imported: rename it, such as to my_history.py"
    ) from None

if TYPE_CHECKING:
    from history.errors import ConfigurationError as ConfigurationError
    from history.errors import DoubtlessError as DoubtlessError
    from history.errors import MissingExtraError as MissingExtraError
    from history.errors import UnavailableError as UnavailableError
    from history.message import Message as Message
    from history.support.redaction import CARD_NUMBERS as CARD_NUMBERS
    from history.support.redaction import IBANS as IBANS
    from history.support.redaction import TOKENS as TOKENS
    from triggers.consumer import AsyncConsumer as AsyncConsumer
    from triggers.consumer import Consumer as Consumer
    from triggers.declaration.decorator import Trigger as Trigger
    from triggers.declaration.decorator import trigger as trigger
    from triggers.detection.table import Status as Status
    from triggers.events import Cause as Cause
    from triggers.events import RetrievalFailureEvent as RetrievalFailureEvent
    from triggers.events import Subscription as Subscription
    from triggers.events import flush_events as flush_events
    from triggers.events import on_retrieval_failure as on_retrieval_failure
    from triggers.pipeline.joining.joins import Joined as Joined
    from triggers.pipeline.joining.parts import NoActivationError as NoActivationError
    from triggers.pipeline.joining.parts import PlaceTakenError as PlaceTakenError
    from triggers.producer.delivery_failure import DeliveryFailureEvent as DeliveryFailureEvent
    from triggers.producer.delivery_failure import DeliverySubscription as DeliverySubscription
    from triggers.producer.delivery_failure import on_delivery_failure as on_delivery_failure
    from triggers.producer.producer import Producer as Producer
    from triggers.producer.producer import send as send
    from triggers.producer.queue.drain import Drained as Drained
    from triggers.producer.queue.queue import ClientQueue as ClientQueue
    from triggers.producer.queue.queue import ClientQueueFullError as ClientQueueFullError
    from triggers.providers.opening import open_provider as open_provider
    from triggers.providers.outgoing import SentMessage as SentMessage
    from triggers.providers.provider import ProviderUnavailableError as ProviderUnavailableError
    from triggers.selectors import Filter as Filter
    from triggers.selectors import Selector as Selector
    from triggers.selectors import SelectorError as SelectorError
    from triggers.service.delivery import Delivery as Delivery
    from triggers.service.failures import BodyInvalidError as BodyInvalidError
    from triggers.service.failures import BodyTooLargeError as BodyTooLargeError
    from triggers.service.failures import FatalError as FatalError
    from triggers.service.failures import LazyResultError as LazyResultError
    from triggers.service.failures import LeaseLostError as LeaseLostError
    from triggers.service.failures import Redelivery as Redelivery
    from triggers.service.failures import Retry as Retry
    from triggers.service.failures import TransientError as TransientError
    from triggers.service.failures import UnawaitedError as UnawaitedError
    from triggers.service.filters import FilterAnswerError as FilterAnswerError
    from triggers.service.identity import UnidentifiedError as UnidentifiedError
    from triggers.service.keeping import FailedBeforeError as FailedBeforeError
    from triggers.service.keeping import Keep as Keep
    from triggers.service.outcome import Outcome as Outcome
else:  # a type checker would accept any name
    __getattr__ = lazy(__name__)
