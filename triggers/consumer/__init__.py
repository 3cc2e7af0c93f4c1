"""Consumers: they receive, hand each message to its trigger, and answer the provider.

``core.py`` is what a consumer is; ``threads.py`` has it for blocking code, ``tasks.py`` for asyncio.
``worker.py`` is what each worker does with one receiver, ``gate.py`` when it may, ``orders.py`` what
operators order, ``housekeeping.py`` what is done beside the work.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.consumer.tasks import AsyncConsumer
    from triggers.consumer.threads import Consumer
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__, tasks=("AsyncConsumer",), threads=("Consumer",))

__all__ = ["AsyncConsumer", "Consumer"]
