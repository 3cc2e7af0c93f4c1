"""Kafka, as a member of a consumer group or of a share group (confluent-kafka).

``provider.py`` sends and opens receivers. ``publisher.py`` sends, and waits for the reports of delivery;
``transactions.py`` sends all of a call or nothing, and holds the producers of a provider. ``consumer.py`` is
one consumer, with a receiver that hands out each partition in order. ``codec.py`` turns messages,
``settings.py`` has settings and names. ``membership.py`` is the part that all members of a group share: a
thread that polls, and errors translated once (``errors.py``). ``connection.py`` is the member of a consumer
group, ``share.py`` that of a share group. ``offsets.py`` knows which offsets of a partition are settled, and
what is committed for it. ``beginnings.py`` says where a partition begins, and what retention has deleted;
``positions.py`` begins partitions where SQL says, with the effects. ``lag.py`` says how far a group is
behind, and ``driver.py`` is the only import of the driver.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.kafka.provider import Kafka, KafkaWithOffsets, forget_offsets
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)

__all__ = ["Kafka", "KafkaWithOffsets", "forget_offsets"]
