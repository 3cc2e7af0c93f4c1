"""Where a partition begins: where the group has committed, else by ``start``; and what retention has deleted.

librdkafka could begin by itself, but that loses messages. Until something of a partition is committed, it
starts at the end each time. So a group that starts with the newest message would lose what comes while it is
away. If retention has deleted the committed offset, it also goes to the end, although later messages exist.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from triggers.providers.kafka.driver import driver
from triggers.providers.kafka.membership import PATIENCE
from triggers.providers.kafka.offsets import Partition
from triggers.providers.kafka.settings import Start

_log = logging.getLogger(__name__)

#: How often to check a gap in a partition, in seconds: each transaction leaves one.
_LOOKING = 1.0


@dataclass(frozen=True, slots=True)
class Ends:
    """The first offset that a partition still has, and the offset of its next message."""

    low: int
    high: int


def ends_of(consumer: Any, listed: Any, seconds: float = PATIENCE) -> Ends:
    """Ask for the ends of a partition; raises the driver's errors."""
    low, high = consumer.get_watermark_offsets(listed, timeout=seconds)
    return Ends(low, high)


def begin_at(committed: int, ends: Ends, start: Start) -> int:
    """Return where a partition begins: where the group has committed, or else by ``start``."""
    if ends.low <= committed <= ends.high:
        return committed
    # The committed offset is gone, so what came before was read. The messages that still exist were not.
    return ends.low if start == "earliest" or committed >= 0 else ends.high


def committed_by(consumer: Any, partitions: Sequence[Any], *, start: Start) -> Sequence[Any]:
    """Return partitions with what the group has committed.

    If Kafka does not answer, they come back unchanged. With ``start`` "latest" that would lose messages: then
    the driver's error is raised.
    """
    try:
        return cast("Sequence[Any]", consumer.committed(list(partitions), PATIENCE))
    except BaseException as error:
        if start == "latest":
            raise
        _log.warning("could not ask Kafka what is settled (%r): some messages may come again", error)
        return partitions


def resumed(consumer: Any, listed: Any, start: Start) -> Partition:
    """Return a partition as the group has committed it; a new one with start "latest" begins at its end.

    Raises:
        KafkaException: the driver cannot get the end.
    """
    if listed.offset < 0 and start == "latest":
        return Partition.new(listed.topic, listed.partition, ends_of(consumer, listed).high)
    return Partition.resumed(listed.topic, listed.partition, listed.offset, listed.metadata)


@dataclass(slots=True)
class Losses:
    """Messages that retention deletes before they are received; logged when a later message comes."""

    _looked_at: dict[int, float] = field(default_factory=dict[int, float])

    def look(self, consumer: Any, partition: Partition, offset: int) -> None:
        """Warn of what is missing before ``offset``, which came next."""
        if not partition.skipped_by(offset):
            return
        now = time.monotonic()
        if now - self._looked_at.get(partition.number, -_LOOKING) < _LOOKING:
            return
        self._looked_at[partition.number] = now
        topic_partition = driver.TopicPartition(partition.topic, partition.number)
        try:
            ends = ends_of(consumer, topic_partition, _LOOKING)
        except driver.KafkaException:
            return  # a gap is not a reason to delay what is there
        warn_of_lost(partition, min(ends.low, offset))


def warn_of_lost(partition: Partition, low: int) -> None:
    """Warn of unsettled messages before the first offset that a partition still has."""
    if lost := partition.position.missing(low):
        _log.warning(
            "%s:%s: %s messages before offset %s were not run, and are deleted in Kafka: its retention is "
            "too short",
            *(partition.topic, partition.number, lost, low),
        )
