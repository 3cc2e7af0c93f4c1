"""Consumers: they receive, hand each message to its trigger, and answer the provider.

``core.py`` is what a consumer is; ``threads.py`` has it for blocking code, ``tasks.py`` for asyncio.
``crew.py`` makes the workers of a trigger, ``worker.py`` is what each does with one receiver, ``gate.py``
when it may. ``orders.py`` is what operators order, ``monitors.py`` what resource monitors say, ``drain.py``
when the end has come; ``housekeeping.py`` is done beside the work, ``join_sweeper.py`` finds joins that are
due, ``complaints.py`` logs once what many workers say. ``options.py`` checks what a consumer is given,
``supervisor.py`` is ``--processes``. ``ordering/`` is about ordered triggers, ``receivers/`` about what
stands before a provider's own.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.consumer.tasks import AsyncConsumer
    from triggers.consumer.threads import Consumer
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)

__all__ = ["AsyncConsumer", "Consumer"]
