"""AMQP 1.0 brokers (Qpid Proton)."""

from typing import TYPE_CHECKING

from history.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.amqp.provider import Amqp

__all__ = ["Amqp"]

__getattr__ = lazy(__name__, provider=("Amqp",))
