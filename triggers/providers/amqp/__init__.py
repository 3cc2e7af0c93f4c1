"""AMQP 1.0 brokers (Qpid Proton).

``provider.py`` sends and opens receivers, ``consumer.py`` is one receiver, ``codec.py`` turns messages,
``connection.py`` is the connection, with errors translated once, and ``links.py`` what sends and receives on
it. ``management.py`` declares queues in RabbitMQ 4, ``driver.py`` is the one import of Proton. Settings are
the URL's (``brokers/url.py``).
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.amqp.provider import Amqp
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)

__all__ = ["Amqp"]
