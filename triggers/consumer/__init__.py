"""Consumers: they receive, hand each message to its trigger, and answer the provider.

``core.py`` is the common part of consumers; ``threads.py`` is the consumer for blocking code, ``tasks.py``
for asyncio. ``crew.py`` makes the workers of a trigger, ``worker.py`` is a worker with one receiver, and
``gate.py`` says when it may receive. ``orders.py`` carries out operators' commands, ``monitors.py`` asks
resource monitors, and ``drain.py`` notices when a consumer must end. ``housekeeping.py`` runs beside the
workers, ``join_sweeper.py`` finds joins that are due, and ``complaints.py`` logs once what many workers
report. ``options.py`` checks a consumer's arguments, and ``supervisor.py`` is ``--processes``. ``ordering/``
is for ordered triggers, and ``receivers/`` wraps a provider's receivers.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.consumer.tasks import AsyncConsumer
    from triggers.consumer.threads import Consumer
else:  # a type checker would accept any name
    __getattr__ = lazy(__name__)

__all__ = ["AsyncConsumer", "Consumer"]
