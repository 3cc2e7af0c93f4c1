"""AMQP 1.0 brokers (Qpid Proton).

``provider.py`` sends and opens receivers, ``consumer.py`` is one receiver, ``codec.py`` turns messages,
``connection.py`` is the connection, with errors translated once, and ``links.py`` has its sending and
receiving links. ``management.py`` declares queues in RabbitMQ 4, ``driver.py`` is the only import of Proton.
The URL holds the settings (``brokers/url.py``).
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.amqp.provider import Amqp as Amqp
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)
