"""Consumers: they receive, hand each message to its trigger, and answer the provider.

``core.py`` has the consumer for blocking code and the one for asyncio. ``crew.py`` makes the workers of a
trigger and finds joins that are due, ``worker.py`` is a worker with one receiver, and ``gate.py`` says when
it may receive. ``calls.py`` notices silent servers. ``orders.py`` carries out operators' commands, and
``drain.py`` notices when a consumer must end. ``housekeeping.py`` runs beside the workers, and asks resource
monitors. ``options.py`` checks a consumer's arguments, and ``supervisor.py`` is ``--processes``.
``loaded.py`` spares loaded objects the garbage collection. ``ordering/`` is for ordered triggers, and
``receivers.py`` wraps a provider's receivers.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.consumer.core import AsyncConsumer as AsyncConsumer
    from triggers.consumer.core import Consumer as Consumer
else:  # a type checker would accept any name
    __getattr__ = lazy(__name__)
