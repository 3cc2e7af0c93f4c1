"""The history of atomic triggers on Kafka: a position for each partition, no entry for each message.

A message has the uuid ``kafka:GROUP:TOPIC:PARTITION:OFFSET``. If the row of its partition counts it as
settled, it is a DUPLICATE; every other message is NEW. Settling a message means moving the row, in the
transaction of the effects.

=============================  ========================================================================
while a message is claimed     its row is read, but not locked: messages of one partition run in parallel
while it is settled            the row is locked, and moved if nobody has settled the message since. So
                               if two consumers have the same message, only one can commit: the
                               consumer that has lost its partition, or the consumer that has it now
a failure that is given up     an entry is written, and the row stays: the message comes again, and is
                               parked. So it can be run by hand later
the row has gone back          the database is an older copy, or somebody lets a message run again: nothing
                               is committed, and the consumer begins again at the row's offset
=============================  ========================================================================
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from typing import ClassVar, NamedTuple, Self, Unpack

from history.entry import (
    DEFAULT_TIME_TO_LIVE,
    Claim,
    Entry,
    EntryOutcome,
    Fence,
    Settlement,
    State,
    digest,
)
from history.errors import ConfigurationError, TransactionConflictError
from history.sql.database.engine import (
    AnyConnection,
    AnyEngine,
    CallersConnection,
    Pooled,
    execute,
    fetch,
    in_memory,
    open_twin,
)
from history.sql.database.riders import ride
from history.sql.history import SqlOptions
from history.sql.offsets.position import Position
from history.sql.offsets.rows import SqlOffsets, lock, position_of, values_of
from history.sql.offsets.seen import Place, Seen
from history.sql.placed import REMEMBERED, PlacedHistory
from history.sql.statements.dialects import wanted
from history.sql.statements.offsets import READ_FOR_CLAIM, SAVE, these
from history.sql.tables.history import Prepared
from history.sql.tables.offsets import create_history_with_offsets, history_with_offsets_exists
from history.store import BatchOwner, Owner

_PREFIX = "kafka:"

#: How many pieces of an identity follow the group.
_PIECES = 3


class OffsetIdentity(NamedTuple):
    """The parts of a message's identity."""

    partition: Place
    offset: int

    @property
    def uuid(self) -> str:
        """The identity as text."""
        group, topic, number = self.partition
        return f"{_PREFIX}{group}:{topic}:{number}:{self.offset}"

    @classmethod
    def read(cls, uuid: str) -> Self | None:
        """Read an identity; None for any other text."""
        group, *rest = uuid.removeprefix(_PREFIX).rsplit(":", _PIECES)
        if not uuid.startswith(_PREFIX) or len(rest) != _PIECES:
            return None
        topic, number, offset = rest
        if not all(digits.isascii() and digits.isdigit() for digits in (number, offset)):
            return None
        return cls(Place(group, topic, int(number)), int(offset))


@dataclass(frozen=True, slots=True)
class _Found:
    """The result of a look-up: the rows, and the entries of failures, by uuid."""

    positions: Mapping[Place, Position]
    entries: Mapping[str, Entry]


class OffsetHistory(PlacedHistory[tuple[OffsetIdentity, str]]):
    """A SQL history that keeps Kafka's offsets, for atomic triggers of a consumer group.

    :class:`~triggers.providers.kafka.KafkaWithOffsets` provides it. For other messages it works as a
    SqlHistory.

    Guarantee: atomic: effects and offset share one SQL transaction. If a publisher sends something twice, it
    has two offsets, and is two messages.
    """

    #: Only atomic triggers may use this history, and they identify messages by their offsets.
    keeps_offsets: ClassVar[bool] = True

    def __init__(self, engine: AnyEngine, **options: Unpack[SqlOptions]) -> None:
        super().__init__(engine, **options)
        if engine.dialect.name == "sqlite" and in_memory(engine.url):
            raise ConfigurationError(
                "offsets", "a SQLite database in memory forgets them", "use a file, or PostgreSQL"
            )
        _with_offsets(self._database)
        self.seen = Seen()

    def for_asyncio(self) -> Self:
        """Do as :class:`SqlHistory` does; both share what they have seen."""
        twin = super().for_asyncio()
        twin.seen = self.seen
        return twin

    def offsets(self) -> SqlOffsets:
        """Return the rows, for a thread that must not wait for a service's connection; the caller closes it.

        They have their own blocking engine; a caller's engine is shared if it is blocking.
        """
        inner = self._database.inner
        if isinstance(inner, Pooled) and not inner.disposable and not self.is_for_asyncio:
            return SqlOffsets(self._database)
        engine = open_twin(self._engine, asyncio=False)
        database = Prepared(Pooled(engine, disposable=True))
        _with_offsets(database)
        return SqlOffsets(database)

    async def claim(
        self,
        trigger: str,
        uuids: Sequence[str],
        owner: Owner,
        lease: timedelta | None = None,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    ) -> Sequence[Claim]:
        """Read which messages are settled; write and lock nothing.

        Raises:
            ConfigurationError: it is not inside the transaction of a service.
        """
        identities = [read for uuid in uuids if (read := OffsetIdentity.read(uuid)) is not None]
        if not identities:
            return await super().claim(trigger, uuids, owner, lease, time_to_live=time_to_live)
        if not isinstance(self._database.inner, CallersConnection) or len(identities) < len(uuids):
            raise ConfigurationError(
                f"trigger {trigger}",
                "Kafka's offsets are stored in the service's transaction, and it has none",
                "set transacted=True and take a Connection; for effects elsewhere use another history",
            )
        stored = await self._look(trigger, identities)
        return [self._claim(identity, stored, owner) for identity in identities]

    async def _look(self, trigger: str, identities: Sequence[OffsetIdentity]) -> _Found:
        positions: dict[Place, Position] = {}
        entries: dict[str, Entry] = {}
        for (group, topic), some in _by_topic(identities):
            uuids = [identity.uuid for identity in some]
            dialect = self._database.dialect
            numbers = {identity.partition.number for identity in some}
            values = {
                "trigger": trigger,
                **these(dialect, group, topic, numbers),
                **wanted(dialect, [digest(uuid) for uuid in uuids]),
            }
            rows = await self._database.run("claiming", partial(fetch, statement=READ_FOR_CLAIM, **values))
            positions |= {Place(group, topic, row.number): position_of(row) for row in rows}
            if not rows or rows[0].known:
                standing = zip(uuids, await self.lookup(trigger, uuids), strict=True)
                entries |= {uuid: entry for uuid, entry in standing if entry is not None}
        return _Found(positions, entries)

    def _claim(self, identity: OffsetIdentity, stored: _Found, owner: Owner) -> Claim:
        uuid = identity.uuid
        position = stored.positions.get(identity.partition)
        entry = stored.entries.get(uuid)
        if entry is None and position is not None and position.has(identity.offset):
            entry = _settled(identity)
        if entry is not None:
            return Claim(entry, entry.fence)
        self.seen.take_stored(*identity)  # by a transaction that was not committed
        self._mine[uuid] = identity, owner.token if isinstance(owner, BatchOwner) else owner
        return Claim(None, _fence_of(identity))

    async def settle(self, trigger: str, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Move the rows past the messages that have run, and write entries for failures.

        Raises:
            TransactionConflictError: another consumer has settled one meanwhile, or a row has gone back:
                nothing may be committed.
        """
        others = [settlement for settlement in settlements if settlement.uuid not in self._mine]
        settled = iter(await super().settle(trigger, others) if others else ())
        answers = [settlement.uuid in self._mine or next(settled) for settlement in settlements]
        done: list[OffsetIdentity] = []
        for settlement in settlements:
            if settlement.uuid not in self._mine or settlement.outcome is None:
                continue
            identity, owner = self._mine[settlement.uuid]
            if settlement.outcome is EntryOutcome.OK:
                done.append(identity)
            else:
                await self._write_failure(trigger, settlement.uuid, owner)
        for (group, topic), some in _by_topic(done):
            await self._database.run(
                "storing offsets", partial(self._move, group=group, topic=topic, done=some)
            )
        return answers

    async def _move(
        self, connection: AnyConnection, *, group: str, topic: str, done: Sequence[OffsetIdentity]
    ) -> None:
        positions = await lock(connection, group, topic, {identity.partition.number for identity in done})
        for partition, some in groupby(done, key=lambda identity: identity.partition):
            offsets = [identity.offset for identity in some]
            position = self._checked(partition, positions.get(partition.number), offsets)
            moved = position.settled((offset, offset) for offset in offsets)
            values = values_of(partition, moved)
            if not ride(connection, SAVE, values):
                await execute(connection, SAVE, **values)
            self.seen.note_stored(partition, offsets)

    def _checked(self, partition: Place, position: Position | None, offsets: Sequence[int]) -> Position:
        went_back = self.seen.note_locked(partition, None if position is None else position.next_offset)
        if position is None or went_back:
            raise TransactionConflictError("storing an offset: the row of its partition has gone back")
        if any(position.has(offset) for offset in offsets):
            raise TransactionConflictError("storing an offset: another consumer has settled it")
        return position

    async def forget(self, trigger: str, uuid: str) -> bool:
        """Let a message run again: its entry is deleted, and its offset is not settled any more.

        It runs at the latest when its partition is assigned again.
        """
        gone = await super().forget(trigger, uuid)
        identity = OffsetIdentity.read(uuid)
        if identity is None:
            return gone
        return await SqlOffsets(self._database).reopen(*identity) or gone


def _with_offsets(database: Prepared) -> None:
    database.look, database.make = history_with_offsets_exists, create_history_with_offsets


def _by_topic(
    identities: Sequence[OffsetIdentity],
) -> Sequence[tuple[tuple[str, str], Sequence[OffsetIdentity]]]:
    """Group identities by group and topic, each in the order of partition and offset."""
    return [
        (key, list(some))
        for key, some in groupby(sorted(identities), key=lambda identity: identity.partition[:2])
    ]


def _fence_of(identity: OffsetIdentity) -> Fence:
    return Fence(identity.offset + 1)


def _settled(identity: OffsetIdentity) -> Entry:
    """Return the entry that a settled message would have."""
    now = datetime.now(UTC)
    return Entry(
        state=State.COMPLETED,
        outcome=EntryOutcome.OK,
        fence=_fence_of(identity),
        started_at=now,
        expires_at=now + REMEMBERED,
        read_at=now,
        owner="the offset of its partition",
    )
