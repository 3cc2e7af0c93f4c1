"""A receiver in a consumer group: each partition is one consumer's, and hands out its messages in order."""

from history.shell import Shell
from triggers.providers.brokers.push_receiver import PushReceiver
from triggers.providers.kafka.codec import Consumed
from triggers.providers.kafka.consumer import KafkaConsumer


class GroupReceiver(PushReceiver):
    """One consumer of a group, for ordered triggers, too: messages of one key stand in one partition."""

    def __init__(self, consumer: KafkaConsumer, shell: Shell) -> None:
        super().__init__(consumer, shell, name_of=name_of)
        self._consumer = consumer

    async def hand_out_in_order(self) -> None:
        """Have what was recovered come next, in the order of each partition; a new session does so anyway."""
        if self._inbox is not None:
            await self._guarded(self._consumer.hand_out_in_order)

    def take_moved(self) -> bool:
        """Whether a partition went to another consumer with something that is not settled; asked once."""
        return self._consumer.take_moved()


def name_of(raw: object) -> str:
    """Name a record by its place."""
    return raw.name if isinstance(raw, Consumed) else ""
