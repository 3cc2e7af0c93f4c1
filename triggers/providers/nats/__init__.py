"""NATS JetStream: a subject is a destination, a durable pull consumer is a subscription.

=====================  ==============================================================================
``provider.py``        the class that users name: sends, opens receivers
``settings.py``        what can be set in the URL, and the names that things are given
``codec.py``           a message as JetStream has it, and back
``consumer.py``        one consumer, over ``brokers/push_receiver.py``: pulls, answers, renews
``streams.py``         finds or makes the stream of a subject, and the durable consumer of a subscription
``publisher.py``       sends, and waits for the stream's word
``connection.py``      the edge to nats-py: a connection with a thread of its own
``pulling.py``         requests for messages, on that connection's thread
``replies.py``         requests whose answers are waited for together
``driver.py``          the one import of nats-py
=====================  ==============================================================================
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.nats.provider import Nats
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)

__all__ = ["Nats"]
