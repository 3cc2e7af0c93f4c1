"""RabbitMQ (AMQP 0-9-1, pika)."""

from typing import TYPE_CHECKING

from history.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.rabbitmq.provider import RabbitMQ

__all__ = ["RabbitMQ"]

__getattr__ = lazy(__name__, provider=("RabbitMQ",))
