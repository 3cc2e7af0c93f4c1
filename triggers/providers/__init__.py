"""The messaging systems that a trigger receives from, and how to write another one.

=====================  ==============================================================================
``provider.py``        the protocol: :class:`Provider` and :class:`Receiver`, what they hand over, and
                       their optional capabilities (:func:`capabilities_of`). Start here
``contract/``          the suite that every provider must pass; subclass it in your tests
``memory.py``          the smallest provider, in one file: an example to read
``opening.py``         from a URL to a provider; your own needs no URL: hand the object to a consumer
``outgoing.py``        what a producer sends: a message made of a body and options
``backlog.py``         the backlog of a provider, in one form for all providers
``brokers/``           what several providers share: URLs, connections, decoding, delivery counts
=====================  ==============================================================================

Each messaging system has a folder, and the files in it have the same names:

=====================  ==============================================================================
``provider.py``        the class that users name: sends, opens receivers
``receiver.py``        one consumer; over ``brokers/push_receiver.py`` it is ``consumer.py``
``codec.py``           a message as the system has it, and back
``settings.py``        what can be set in the constructor or in the URL
``link.py``            the edge to the driver, where its errors are translated once; if the driver
                       needs its own thread it is ``connection.py``
=====================  ==============================================================================

``redis_streams/``, ``jms/``, ``amqp/``, ``rabbitmq/``, ``kafka/``, ``nats/``, ``sqs/`` and ``sqljms/``
(queues in a SQL database) are brokers. ``sqlremote/`` carries committed transactions from one database to
another.

To write one: implement the two protocols with coroutine methods (over a blocking driver they never
suspend), raise :class:`ProviderUnavailableError` when the server does not answer, decode through
:func:`read`, and pass the suite.
``docs/how-to/write-a-store-or-provider.md`` goes through it step by step.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.brokers.delivery import UndecodableError as UndecodableError
    from triggers.providers.brokers.delivery import read as read
    from triggers.providers.opening import open_provider as open_provider
    from triggers.providers.provider import AT_ONCE as AT_ONCE
    from triggers.providers.provider import NO_LIMITS as NO_LIMITS
    from triggers.providers.provider import RECEIVE_WAIT as RECEIVE_WAIT
    from triggers.providers.provider import Answering as Answering
    from triggers.providers.provider import Answers as Answers
    from triggers.providers.provider import Arrival as Arrival
    from triggers.providers.provider import Bounded as Bounded
    from triggers.providers.provider import Capabilities as Capabilities
    from triggers.providers.provider import CountingRefusals as CountingRefusals
    from triggers.providers.provider import DeliveryLimit as DeliveryLimit
    from triggers.providers.provider import DestinationGoneError as DestinationGoneError
    from triggers.providers.provider import DividingGroups as DividingGroups
    from triggers.providers.provider import FetchingAhead as FetchingAhead
    from triggers.providers.provider import GivingUp as GivingUp
    from triggers.providers.provider import InDatabase as InDatabase
    from triggers.providers.provider import Interruptible as Interruptible
    from triggers.providers.provider import KeepingOrder as KeepingOrder
    from triggers.providers.provider import Limited as Limited
    from triggers.providers.provider import Limits as Limits
    from triggers.providers.provider import Pausing as Pausing
    from triggers.providers.provider import Provider as Provider
    from triggers.providers.provider import ProviderUnavailableError as ProviderUnavailableError
    from triggers.providers.provider import Received as Received
    from triggers.providers.provider import Receiver as Receiver
    from triggers.providers.provider import Remembering as Remembering
    from triggers.providers.provider import SharingTransactions as SharingTransactions
    from triggers.providers.provider import TakingFailures as TakingFailures
    from triggers.providers.provider import TakingOver as TakingOver
    from triggers.providers.provider import TellingPermissions as TellingPermissions
    from triggers.providers.provider import TemporaryDestinations as TemporaryDestinations
    from triggers.providers.provider import Unreadable as Unreadable
    from triggers.providers.provider import capabilities_of as capabilities_of
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)
