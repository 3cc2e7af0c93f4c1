"""RabbitMQ (AMQP 0-9-1, pika).

``provider.py`` sends and opens receivers, ``consumer.py`` is one consumer, ``codec.py`` turns messages,
``settings.py`` has settings and the names of queues, ``connection.py`` is the connection and its channels,
with errors translated once. ``publisher.py`` sends with confirms, ``properties.py`` reads and writes the
bytes beside a body, ``frames.py`` keeps pika from decoding them. ``later.py`` delays messages, ``limits.py``
finds out when a queue gives a message up.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.rabbitmq.provider import RabbitMQ as RabbitMQ
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)
