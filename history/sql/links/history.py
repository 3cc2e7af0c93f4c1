"""The history of triggers on links: the watermark of ``sysremoteuser`` instead of an entry per message.

A transaction of a link has the uuid ``link:NAME:EPOCH:OFFSET``. At or below the watermark it is a DUPLICATE;
the next one is NEW; every later one is in progress, and waits for its turn. Settling means moving the
watermark, in the transaction of the work. An entry is only written for a transaction that failed and is given
up, so that somebody can still run it.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal, Self, Unpack

from sqlalchemy import Connection

from history.entry import DEFAULT_TIME_TO_LIVE, Claim, Entry, EntryOutcome, Fence, Settlement, State
from history.errors import ConfigurationError, TransactionConflictError
from history.sql.database.engine import AnyConnection, AnyEngine, CallersConnection, Step, execute, fetch
from history.sql.history import SqlOptions
from history.sql.links.watermark import (
    LinkLostError,
    LinkRow,
    SqlWatermarks,
    row_of,
    values_of,
    write,
)
from history.sql.placed import REMEMBERED, PlacedHistory
from history.sql.statements.dialects import Dialect
from history.sql.statements.watermark import LOCK_AND_MARK, MARK, SAVE_APPLIED, SAVE_FAILED
from history.sql.tables.watermark import history_with_links_exists
from history.sql.transaction import SqlTransaction
from history.store import Owner
from history.store.watermark import Epoch, Incoming, Offset

#: How to treat a transaction that cannot be applied.
ApplyErrorPolicy = Literal["park", "skip", "halt"]

#: After how long a transaction is checked again, if its turn has not come.
NOT_YET = timedelta(milliseconds=100)

#: Under this key a connection remembers the transaction applied on it, and the link of this work.
APPLYING = "doubtless_applying"

_PREFIX = "link:"


def applying(connection: Connection) -> str | None:
    """Return the link that is the source of the work in the open transaction; None if there is none."""
    link, within = connection.info.get(APPLYING, (None, None))
    return link if within is not None and within is connection.get_transaction() else None


@dataclass(slots=True, kw_only=True)
class Handing:
    """A transaction that an agent handed to its trigger, with the values to store once it is applied.

    ``stored`` means that its work and its columns are in one transaction, which may not be committed yet.
    """

    link: str
    agent: str
    previous: Offset
    offset: Offset
    columns: Incoming
    digest: bytes
    policy: ApplyErrorPolicy
    stored: bool = False
    halts: bool = False

    @property
    def uuid(self) -> str:
        """The identity of the transaction."""
        return uuid_of(self.link, self.columns.epoch, self.offset)


def saving(handing: Handing, skipped: int = 0) -> Step[None]:
    """Return the step that moves the watermark past a transaction."""
    return partial(
        write,
        text=SAVE_APPLIED,
        link=handing.link,
        agent=handing.agent,
        digest=handing.digest,
        skipped=skipped,
        **values_of(handing.columns),
    )


def uuid_of(link: str, epoch: Epoch, offset: Offset) -> str:
    """Return the identity of a link's transaction."""
    return f"{_PREFIX}{link}:{epoch}:{offset}"


def _parsed(uuid: str) -> tuple[str, Epoch, Offset] | None:
    link, _, rest = uuid.removeprefix(_PREFIX).partition(":")
    epoch, _, offset = rest.partition(":")
    if not uuid.startswith(_PREFIX) or not epoch or not (offset.isascii() and offset.isdigit()):
        return None
    return link, Epoch(epoch), Offset(int(offset))


@dataclass(slots=True)
class _HandedOut:
    """The transactions that agents of this process have handed out, or that somebody decided to run."""

    handed: dict[str, Handing] = field(default_factory=dict[str, Handing])
    again: set[str] = field(default_factory=set[str])


class LinkHistory(PlacedHistory[Handing]):
    """A SQL history that remembers triggers on links by one watermark per link.

    If their services share its transaction (``transacted=True`` and a ``Connection`` or ``Session``), effects
    and watermark are committed together. For all other triggers it is a SqlHistory.

    Guarantee: atomic, if the service's effects happen on its connection: effects and watermark share one SQL
    transaction.
    """

    def __init__(self, engine: AnyEngine, **options: Unpack[SqlOptions]) -> None:
        super().__init__(engine, **options)
        self._database.look = history_with_links_exists
        self.watermarks = SqlWatermarks(self._database)
        self._out = _HandedOut()
        self._marked = False

    def for_asyncio(self) -> Self:
        """Do as :class:`SqlHistory` does: triggers find in its twin what agents hand out by this history."""
        twin = super().for_asyncio()
        twin._out = self._out  # noqa: SLF001  (it has the same class)
        return twin

    async def transaction(self, *, lean: bool = False) -> AbstractAsyncContextManager[SqlTransaction]:
        """Do as :class:`SqlHistory` does; at its end, SQLite forgets whose work it applied."""
        return _unmarking(await super().transaction(lean=lean))

    async def unmark(self) -> None:
        """Let triggers take later changes for the application's own: SQLite keeps a mark beyond a commit."""
        if self._marked:
            await self._database.run("unmarking work", partial(execute, statement=MARK, origin=None))
            self._marked = False

    @property
    def handed(self) -> int:
        """How many transactions the agents of this process have handed out and not finished."""
        return len(self._out.handed)

    def hand(self, handing: Handing) -> None:
        """Note that an agent hands a transaction to its trigger."""
        self._out.handed[handing.uuid] = handing

    def take_back(self, handing: Handing) -> None:
        """Note that it is finished."""
        self._out.handed.pop(handing.uuid, None)

    async def claim(
        self,
        trigger: str,
        uuids: Sequence[str],
        owner: Owner,
        lease: timedelta | None = None,
        *,
        time_to_live: timedelta = DEFAULT_TIME_TO_LIVE,
    ) -> Sequence[Claim]:
        """Find out which transactions are next, and lock the link's row."""
        parsed = [_parsed(uuid) for uuid in uuids]
        if not any(parsed):
            return await super().claim(trigger, uuids, owner, lease, time_to_live=time_to_live)
        if not isinstance(self._database.inner, CallersConnection):
            raise ConfigurationError(
                f"trigger {trigger}",
                "the watermark of a link is written in the service's transaction, and it has none",
                "set transacted=True and take a Connection; for effects elsewhere use another history",
            )
        row: LinkRow | None = None
        claims: list[Claim] = []
        for uuid, identity in zip(uuids, parsed, strict=True):
            if identity is None or (row is not None and row.link != identity[0]):
                raise ConfigurationError(
                    "history", "a call names messages of several links", "claim those of one link at a time"
                )
            row = row or await self._locked(identity[0], self._database.inner.connection)
            claims.append(await self._claim(trigger, uuid, identity, row))
            if uuid in self._mine:
                incoming = replace(row.watermark.incoming, log_received=identity[2])
                row = replace(row, watermark=replace(row.watermark, incoming=incoming))
        return claims

    async def _locked(self, link: str, connection: AnyConnection) -> LinkRow:
        rows = await self._database.run("locking a link", partial(fetch, statement=LOCK_AND_MARK, link=link))
        if not rows:
            raise ConfigurationError(
                "link", f"link {link} does not exist", "create it with: doubtless sqlremote setup"
            )
        if connection.dialect.name == Dialect.SQLITE:
            await self._database.run("marking a link's work", partial(execute, statement=MARK, origin=link))
            self._marked = True
        sync = getattr(connection, "sync_connection", connection)
        sync.info[APPLYING] = (link, sync.get_transaction())
        return row_of(rows[0])

    async def _claim(
        self, trigger: str, uuid: str, identity: tuple[str, Epoch, Offset], row: LinkRow
    ) -> Claim:
        _, epoch, offset = identity
        incoming = row.watermark.incoming
        if uuid in self._out.again:
            await super().forget(trigger, uuid)
            return (await super().claim(trigger, [uuid], row.link, time_to_live=REMEMBERED))[0]
        if epoch < incoming.epoch or offset <= incoming.log_received:
            entry = (await super().lookup(trigger, [uuid]))[0]
            return _meeting(entry or _entry(State.COMPLETED, offset))
        handing = self._out.handed.get(uuid)
        if handing is None or handing.previous != incoming.log_received:
            return _meeting(_entry(State.STARTED, offset))
        if handing.agent != row.agent:
            raise TransactionConflictError("moving a watermark: the link was reset, or another agent has it")
        if row.failed == offset:
            entry = (await super().lookup(trigger, [uuid]))[0]
            if entry is not None:
                return _meeting(entry)
        self._mine[uuid] = handing
        return Claim(None, Fence(offset))

    async def settle(self, trigger: str, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Move the watermark past the applied transactions.

        Raises:
            TransactionConflictError: one was applied although an earlier one was not: nothing may be
                committed; or the link has another agent by now.
        """
        others = [settlement for settlement in settlements if settlement.uuid not in self._mine]
        answers = dict(
            zip(
                (settlement.uuid for settlement in others), await super().settle(trigger, others), strict=True
            )
        )
        self._out.again -= {settlement.uuid for settlement in others}
        await self._move(trigger, [settlement for settlement in settlements if settlement.uuid in self._mine])
        return [answers.get(settlement.uuid, True) for settlement in settlements]

    async def _move(self, trigger: str, settlements: Sequence[Settlement]) -> None:
        last: Handing | None = None
        skipped, barred = 0, False
        for settlement in settlements:
            handing = self._mine[settlement.uuid]
            skips = settlement.outcome is EntryOutcome.FAILED and handing.policy == "skip"
            if settlement.outcome is EntryOutcome.OK or skips:
                if barred:
                    raise TransactionConflictError(
                        "applying a transaction: the one before it was not applied"
                    )
                last, skipped = handing, skipped + skips
                handing.stored = True
                continue
            barred = True
            if settlement.outcome is EntryOutcome.FAILED:
                handing.halts = handing.policy == "halt"
                if handing.policy == "park":
                    await self._note_failed(trigger, handing)
        if last is not None:
            await self._moving(saving(last, skipped))

    async def _note_failed(self, trigger: str, handing: Handing) -> None:
        await self._write_failure(trigger, handing.uuid, handing.agent)
        step = partial(write, text=SAVE_FAILED, link=handing.link, agent=handing.agent, offset=handing.offset)
        await self._moving(step)

    async def _moving(self, step: Step[None]) -> None:
        try:
            await self._database.run("moving a watermark", step)
        except LinkLostError as error:
            raise TransactionConflictError(
                "moving a watermark: the link was reset, or another agent has it"
            ) from error

    async def forget(self, trigger: str, uuid: str) -> bool:
        """Let a failed transaction run after all; the claim deletes its entry."""
        if _parsed(uuid) is None:
            return await super().forget(trigger, uuid)
        exists = (await super().lookup(trigger, [uuid]))[0] is not None
        if exists:
            self._out.again.add(uuid)
        return exists


@asynccontextmanager
async def _unmarking(begun: AbstractAsyncContextManager[SqlTransaction]) -> AsyncGenerator[SqlTransaction]:
    async with begun as transaction:
        yield transaction
        if isinstance(transaction.history, LinkHistory):
            await transaction.history.unmark()


def _meeting(entry: Entry) -> Claim:
    return Claim(entry, entry.fence)


def _entry(state: State, offset: Offset) -> Entry:
    now = datetime.now(UTC)
    done = state is State.COMPLETED
    return Entry(
        state=state,
        outcome=EntryOutcome.OK if done else None,
        fence=Fence(offset),
        started_at=now,
        expires_at=now + REMEMBERED,
        read_at=now,
        owner="the watermark of the link",
        lease_until=None if done else now + NOT_YET,
    )
