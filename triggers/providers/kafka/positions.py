"""Where a member's partitions begin when their offsets are kept in SQL, with the effects.

A row decides it, not the group's commit to Kafka. The group still commits, for tools that show how far it
is. A partition without a row gets one before any of its messages is handed out, from what the group has
committed. Everything here happens on the member's thread, on its own connection.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from history.bridge import drive
from history.errors import ConfigurationError, HistoryUnavailableError
from history.sql.offsets.position import Position, Range
from history.sql.offsets.rows import SqlOffsets
from history.sql.offsets.seen import Place, Seen
from triggers.providers.kafka.beginnings import Ends, begin_at, ends_of
from triggers.providers.kafka.offsets import Partition
from triggers.providers.kafka.settings import Start
from triggers.providers.provider import ProviderUnavailableError

_log = logging.getLogger(__name__)

#: How often offsets settled without effects are stored, in seconds; also when a partition is taken away.
_STORING = 2.0


def first(listed: Any, ends: Ends, start: Start) -> Position:
    """Return the position of a partition without a row; it includes the text beside the offset."""
    begin, position = begin_at(listed.offset, ends, start), committed_of(listed).position
    return position if listed.offset == begin else Position(begin)


def resumed(source: Place, position: Position, ends: Ends) -> Position:
    """Return a row's position as the topic is now, and warn of what is lost.

    Raises:
        ConfigurationError: the row has offsets that the topic has not reached: it is another topic now.
    """
    if position.next_offset > ends.high:
        group, topic, number = source
        raise ConfigurationError(
            "offsets",
            f"partition {number} of the topic {topic} ends at {ends.high}, and offsets up to "
            f"{position.next_offset} of it are settled in the database: the topic was recreated, or has lost "
            "messages",
            f"to read it from its beginning, forget_offsets(URL, group={group!r}, topic={topic!r})",
        )
    if lost := position.missing(ends.low):
        _log.warning(
            "%s:%s: %s messages before offset %s were not run, and are deleted in Kafka: its retention is "
            "too short",
            *(source.topic, source.number, lost, ends.low),
        )
    return position.settled([(0, ends.low - 1)])


class Positions:
    """The rows of one member."""

    def __init__(self, rows: SqlOffsets, seen: Seen, *, group: str, start: Start) -> None:
        self._rows = rows
        self._seen = seen
        self._group = group
        self._start: Start = start
        self._stored_at = time.monotonic()

    def assigned(self, consumer: Any, committed: Sequence[Any]) -> Mapping[int, Partition]:
        """Return where partitions begin, from their rows; ``committed`` is what the group has committed.

        Raises:
            HistoryUnavailableError: the database does not answer.
            ConfigurationError: a row does not fit its partition.
        """
        topic, listed = committed[0].topic, {partition.partition: partition for partition in committed}
        ends = {number: ends_of(consumer, partition) for number, partition in listed.items()}
        positions = dict(drive(self._rows.read(self._group, topic, listed)))
        if missing := listed.keys() - positions.keys():
            new = {number: first(listed[number], ends[number], self._start) for number in missing}
            positions |= drive(self._rows.begin(self._group, topic, new))
        return {number: self._place_at(listed[number], positions[number], ends[number]) for number in listed}

    def _place_at(self, listed: Any, position: Position, ends: Ends) -> Partition:
        source = Place(self._group, listed.topic, listed.partition)
        begun = committed_of(listed).begun
        partition = Partition.placed(
            source.topic, source.number, resumed(source, position, ends), begun=begun
        )
        if position.next_offset < ends.low:
            partition.quiet = [(position.next_offset, ends.low - 1)]
        self._seen.begin(source, position.next_offset)
        return partition

    def settle(self, partition: Partition, offset: int) -> None:
        """Note that a message is settled; if no transaction of effects stored it, store it here, later."""
        if partition.quiet is not None and not self._seen.take_stored(self._place(partition), offset):
            partition.quiet.append((offset, offset))

    def take_quiet(self, partitions: Sequence[Partition], *, now: bool) -> Mapping[int, Sequence[Range]]:
        """Return, now and then, what partitions settled without effects, to be stored."""
        if not now and time.monotonic() - self._stored_at < _STORING:
            return {}
        self._stored_at = time.monotonic()
        ranges = {partition.number: partition.quiet for partition in partitions if partition.quiet}
        for partition in partitions:
            partition.quiet = []
        return ranges

    def store(self, topic: str, ranges: Mapping[int, Sequence[Range]]) -> None:
        """Store what was settled without effects.

        If it cannot be stored immediately, it is not stored: those messages come again. When the database
        answers again, it may be an older copy, which lacks the parked copies of these messages.
        """
        if ranges:
            with suppress(HistoryUnavailableError):
                drive(self._rows.settle(self._group, topic, ranges))

    def check(self, partitions: Sequence[Partition]) -> None:
        """Make the member begin again if its database is now an older copy.

        Raises:
            ProviderUnavailableError: it is.
        """
        for partition in partitions:
            if self._seen.has_gone_back(self._place(partition)):
                error = ProviderUnavailableError("Kafka", "receiving")
                error.__cause__ = HistoryUnavailableError(
                    f"storing offsets of {partition.topic}:{partition.number}, which have gone back"
                )
                raise error

    def end(self, partition: Partition) -> None:
        """Forget a partition that was taken away."""
        self._seen.end(self._place(partition))

    def _place(self, partition: Partition) -> Place:
        return Place(self._group, partition.topic, partition.number)


def committed_of(listed: Any) -> Partition:
    """Return a partition as it is committed to Kafka."""
    return Partition.resumed(listed.topic, listed.partition, listed.offset, listed.metadata)
