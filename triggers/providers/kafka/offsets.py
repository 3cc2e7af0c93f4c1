"""Which offsets of a partition are settled, and what is committed for it.

Kafka keeps one number for each group and partition: everything before it is done. Here messages are settled
out of order, so the number is that of the first unsettled message. Settled offsets beyond it are written into
the text that Kafka keeps beside the number (its *metadata*, 4,096 bytes by default). So the next consumer
skips it, and knows what was handed out before. If the text is missing or has no room, messages come again,
and the document history drops them. This module does no I/O.

If SQL keeps the offsets with the effects, a partition begins where its row says. Some offsets have no
message at all (it was compacted away, or a transaction ends there). They are settled as well, and
:attr:`quiet`: no transaction of effects stores them.
"""

import re
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from history.sql.offsets.position import Position, Range, merged, ranges_in, within, written

#: The text begins with this mark; texts of other programs are ignored.
MARK = "doubtless1"

#: The longest text, in characters: brokers refuse more than 4,096 bytes.
ROOM = 4000

_TEXT = re.compile(rf"{MARK} (\d{{1,19}}) ((?:\d{{1,19}}(?:-\d{{1,19}})?,?)*)")


@dataclass(slots=True, eq=False)
class Partition:
    """One partition of a topic, as long as it is assigned to this consumer.

    ``begun`` is the offset after the highest one that was ever handed out, as far as is known.
    ``next_offset`` is the offset after the last one that came.
    """

    topic: str
    number: int
    begun: int = 0
    next_offset: int = 0
    #: Whether it was taken away: then nobody settles what came from it.
    gone: bool = False
    #: The ranges that its row had settled, beyond the first offset, when it was assigned.
    done: Sequence[Range] = ()
    #: Settled offsets that no row has yet; None without rows.
    quiet: list[Range] | None = None
    _open: list[int] = field(default_factory=list[int])
    _settled: set[int] = field(default_factory=set[int])
    #: The last known commit in Kafka; the beginning at 0 need not be committed.
    _committed: tuple[int, str] = (0, "")

    @classmethod
    def resumed(cls, topic: str, number: int, offset: int, text: str | None) -> Self:
        """Continue from a committed ``offset``; a negative one means that no place is known."""
        self = cls(topic, number)
        if offset >= 0:
            self.next_offset = self.begun = offset
            self._read(offset, text or "")
            self._committed = (offset, text or "")
        return self

    @classmethod
    def new(cls, topic: str, number: int, offset: int) -> Self:
        """Begin here, which must be committed: a partition that is new to its group."""
        self = cls(topic, number, offset, _committed=(-1, ""))
        self.next_offset = offset
        return self

    @classmethod
    def placed(cls, topic: str, number: int, position: Position, *, begun: int) -> Self:
        """Continue where a row says; ``begun`` is how far messages were handed out, as far as Kafka knows."""
        handed_out = max(begun, position.next_offset, *(last + 1 for _, last in position.beyond))
        self = cls(topic, number, handed_out, done=position.beyond, quiet=[])
        self.next_offset = position.next_offset
        return self

    def _read(self, offset: int, text: str) -> None:
        matched = _TEXT.fullmatch(text)
        if matched is None:
            return
        self.begun = max(offset, offset + int(matched[1]))
        for first, last in ranges_in(matched[2]):
            if offset + last <= self.begun:
                self._settled.update(range(offset + first, offset + last + 1))

    @property
    def position(self) -> Position:
        """What is settled: everything before the first unsettled message, and ranges beyond it."""
        offset = self._open[0] if self._open else self.next_offset
        return Position(offset).settled([*((offset_, offset_) for offset_ in self._settled), *self.done])

    @property
    def settled_beyond(self) -> int:
        """How many messages are settled beyond the first unsettled one."""
        return len(self._settled)

    @property
    def has_open(self) -> bool:
        """Whether an unsettled message came."""
        return bool(self._open)

    def take(self, offset: int) -> bool | None:
        """Note that a message came. Return whether it was handed out before; None if it is settled."""
        if (
            offset == self.next_offset
            and offset >= self.begun
            and not self.done
            and offset not in self._settled
        ):
            # The usual message: the next one, which nobody has had.
            self.next_offset = self.begun = offset + 1
            self._open.append(offset)
            return False
        if self.quiet is not None and offset > self.next_offset:
            self.quiet.append((self.next_offset, offset - 1))
        self.next_offset = max(self.next_offset, offset + 1)
        if offset in self._settled or within(self.done, offset):
            return None
        again = offset < self.begun
        self.begun = max(self.begun, offset + 1)
        index = bisect_right(self._open, offset)
        if index == 0 or self._open[index - 1] != offset:
            insort(self._open, offset)
        return again

    def skipped_by(self, offset: int) -> bool:
        """Whether there is a gap between the last message and this one, in a partition that has begun."""
        return offset > self.next_offset and (self.next_offset, self._committed) != (0, (0, ""))

    def is_begun_anew_by(self, offset: int) -> bool:
        """Whether a message cannot belong to the previous log, because that already went further."""
        return offset < self.next_offset

    def settle(self, offset: int) -> None:
        """Note that a message is settled."""
        if self._open and self._open[0] == offset:
            # The usual message: nothing before it is open, so the position passes it.
            del self._open[0]
            return
        index = bisect_right(self._open, offset) - 1
        if index >= 0 and self._open[index] == offset:
            del self._open[index]
            self._settled.add(offset)

    def to_commit(self, *, surely: bool = False) -> tuple[int, str] | None:
        """Return offset and text if they differ from the last ones; with ``surely``, return them again.

        The last commit may still be on its way, or may have been refused.
        """
        offset = self._open[0] if self._open else self.next_offset
        self._settled = {settled for settled in self._settled if settled >= offset}
        commit = (offset, self._text(offset))
        nothing_known = self.next_offset == 0 and self._committed == (0, "")
        if nothing_known or (commit == self._committed and not surely):
            return None
        return commit

    def committed(self, commit: tuple[int, str]) -> None:
        """Note what is committed."""
        self._committed = commit

    def _text(self, offset: int) -> str:
        done = [(max(first, offset), last) for first, last in self.done]
        settled = merged([*((offset_, offset_) for offset_ in self._settled), *done])
        if self.begun <= offset and not settled:
            return ""
        text = f"{MARK} {max(0, self.begun - offset)} "
        pieces = (written((first - offset, last - offset)) for first, last in settled)
        return text + ",".join(_fitting(pieces, ROOM - len(text)))


def _fitting(pieces: Iterable[str], room: int) -> Iterator[str]:
    for piece in pieces:
        room -= len(piece) + 1
        if room < 0:
            return
        yield piece
