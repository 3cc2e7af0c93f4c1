"""NATS JetStream: a subject is a destination, a durable pull consumer is a subscription.

=====================  ==============================================================================
``provider.py``        the class that users name: sends until the stream confirms, opens receivers
``settings.py``        the settings in the URL, and the names that the provider makes
``codec.py``           a message as JetStream has it, and back
``consumer.py``        one consumer, over ``brokers/push_receiver.py``: requests, settles, renews
``streams.py``         finds or makes the stream of a subject, and the durable consumer of a subscription
``connection.py``      the edge to nats-py, and its only import: a connection with its own thread
``replies.py``         sends requests and waits for their answers together
=====================  ==============================================================================
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.nats.provider import Nats as Nats
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)
