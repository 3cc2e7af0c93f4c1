"""The rows of ``sysremoteuser``, each written by one agent at a time.

An agent takes a link with its own token, and every write of the row compares the token. If two agents run the
same link by mistake, only one can move it. The token expires unless its agent renews it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

from history.errors import ConfigurationError, DoubtlessError
from history.sql.database.engine import AnyConnection, AnyRow, Step, execute, fetch
from history.sql.statements.dialects import Statement
from history.sql.statements.watermark import (
    ADD,
    INCOMING,
    LEAVE,
    LOCK,
    NOTE_PAST,
    OUTGOING,
    READ,
    READ_ALL,
    READ_END,
    READ_PAST,
    RESET,
    REVOKE,
    SAVE_INCOMING,
    SAVE_OUTGOING,
    STAY,
    STOP,
    STOP_ALSO,
    TAKE,
)
from history.sql.tables.history import Prepared
from history.sql.tables.making import AddedTables
from history.sql.tables.watermark import SYSREMOTEUSER, create_links, links_exist
from history.store import instant, milliseconds
from history.store.watermark import (
    ORIGIN,
    Epoch,
    Incoming,
    Offset,
    Outgoing,
    Watermark,
    confirm,
    reset_incoming,
    reset_outgoing,
)

T = TypeVar("T")

#: The epoch of a peer that has not sent anything yet; it sorts before every other.
UNKNOWN_EPOCH: Final = Epoch("0")


class LinkLostError(DoubtlessError):
    """Another agent has the link now: nothing was written."""

    def __init__(self, link: str) -> None:
        super().__init__(f"link {link}: it was reset, or another agent has taken it over")
        self.link = link


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRow:
    """One row as it was read. ``stopped`` is the reason why the link is stopped."""

    link: str
    publication: str
    watermark: Watermark
    address: str
    consolidate: str
    frequency: str
    send_time: str | None
    agent: str | None
    agent_until: datetime | None
    stopped: str | None
    received_digest: bytes | None
    failed: Offset | None
    skipped: int
    subscription: str | None


#: Says why a link is stopped, from its old row, its new one and the kinds of :data:`READ_PAST` that concern
#: it; None if it may run.
Judge = Callable[[LinkRow | None, LinkRow, Collection[str]], str | None]


def stays_stopped(before: LinkRow | None, after: LinkRow, past: Collection[str]) -> str | None:  # noqa: ARG001
    """Return why the link was stopped."""
    return after.stopped


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The last offset given out, and the offset up to which the log was deleted."""

    last: Offset
    deleted_to: Offset


def row_of(row: AnyRow) -> LinkRow:
    """Read a row of ``sysremoteuser``."""
    values: dict[str, Any] = {column.name: getattr(row, column.name) for column in SYSREMOTEUSER.columns}
    outgoing = Outgoing(**_fields(values, OUTGOING))
    incoming = Incoming(**_fields(values, INCOMING))
    until = values["doubtless_agent_until"]
    return LinkRow(
        link=values["doubtless_link"],
        publication=values["doubtless_publication"],
        watermark=Watermark(peer=values["doubtless_link"], outgoing=outgoing, incoming=incoming),
        address=values["address"],
        consolidate=values["consolidate"],
        frequency=values["frequency"],
        send_time=values["send_time"],
        agent=values["doubtless_agent"],
        agent_until=None if until is None else instant(until),
        stopped=values["doubtless_stopped"],
        received_digest=values["doubtless_received_digest"],
        failed=values["doubtless_failed"],
        skipped=values["doubtless_skipped"],
        subscription=values["doubtless_subscription"],
    )


def _fields(values: Any, columns: Mapping[str, str]) -> dict[str, Any]:
    return {
        name: instant(values[column])
        if name.startswith("time_") and values[column] is not None
        else values[column]
        for name, column in columns.items()
    }


def values_of(half: Outgoing | Incoming, prefix: str = "") -> dict[str, Any]:
    """Return the values of a half, as parameters of its statement."""
    values: dict[str, Any] = {}
    for part in fields(half):
        value = getattr(half, part.name)
        values[prefix + part.name] = (
            milliseconds(value - instant(0)) if isinstance(value, datetime) else value
        )
    return values


async def write(connection: AnyConnection, text: Statement, link: str, **values: object) -> None:
    """Write a row of the calling agent's link.

    Raises:
        LinkLostError: it belongs to another agent.
    """
    if not await fetch(connection, text, link=link, **values):
        raise LinkLostError(link)


@dataclass(slots=True)
class SqlWatermarks:
    """The links of one database. Safe to share between threads; see :class:`~history.sql.SqlHistory`.

    Every method raises :class:`~history.errors.HistoryUnavailableError` when the server does not answer.
    """

    database: Prepared
    _tables: AddedTables = field(init=False)

    def __post_init__(self) -> None:
        self._tables = AddedTables(
            self.database,
            look=links_exist,
            make=create_links,
            looking="looking for the links",
            creating="creating the tables of links",
        )

    async def run(self, doing: str, step: Step[T], *, atomic: bool = False) -> T:
        """Do one step, after making the tables if needed."""
        return await self._tables.run(doing, step, atomic=atomic)

    async def add(
        self, *, link: str, publication: str, epoch: Epoch, judge: Judge = stays_stopped, **settings: object
    ) -> LinkRow:
        """Add a link that begins at the beginning of the log; if it exists, update its settings.

        ``judge`` says why the link is stopped then.
        """
        named = {"link": link, "publication": publication, "epoch": epoch, "peer_epoch": UNKNOWN_EPOCH}
        values: dict[str, Any] = {**named, **settings}
        return await self.run("adding a link", partial(_add, judge=judge, **values), atomic=True)

    async def read(self, link: str) -> LinkRow | None:
        """Return a link's row."""
        rows = await self.run("reading a link", partial(fetch, statement=READ, link=link))
        return row_of(rows[0]) if rows else None

    async def read_all(self) -> Sequence[LinkRow]:
        """Return the rows of all links."""
        return [row_of(row) for row in await self.run("reading links", partial(fetch, statement=READ_ALL))]

    async def take(self, link: str, agent: str, lease: timedelta, *, dead: str = "") -> LinkRow | None:
        """Become or stay the agent of a link; None if another agent has it, except a ``dead`` one."""
        step = partial(
            fetch, statement=TAKE, link=link, agent=agent, lease=milliseconds(lease), dead=dead or agent
        )
        rows = await self.run("taking a link", step)
        return row_of(rows[0]) if rows else None

    async def stay(self, link: str, agent: str, lease: timedelta) -> LinkRow:
        """Record that the agent is alive, and return the row.

        Raises:
            LinkLostError: the agent does not have the link any more.
        """
        step = partial(fetch, statement=STAY, link=link, agent=agent, lease=milliseconds(lease))
        rows = await self.run("keeping a link", step)
        if not rows:
            raise LinkLostError(link)
        return row_of(rows[0])

    async def leave(self, link: str, agent: str) -> None:
        """Stop being the agent."""
        await self.run("leaving a link", partial(execute, statement=LEAVE, link=link, agent=agent))

    async def save(self, link: str, agent: str, *, changed: Sequence[Outgoing | Incoming]) -> None:
        """Store halves of a row.

        Raises:
            LinkLostError: the agent does not have the link any more.
        """

        async def step(connection: AnyConnection) -> None:
            for half in changed:
                text = SAVE_OUTGOING if isinstance(half, Outgoing) else SAVE_INCOMING
                await write(connection, text, link, agent=agent, **values_of(half))

        await self.run("storing how far a link got", step, atomic=len(changed) > 1)

    async def halt(self, link: str, reason: str) -> None:
        """Stop a link for a reason, in addition to those for which it is stopped already."""
        await self.run("stopping a link", partial(execute, statement=STOP_ALSO, link=link, reason=reason))

    async def stop(self, link: str, reason: str | None) -> None:
        """Stop a link for this reason only, or (None) let it go on."""
        await self.run("stopping a link", partial(execute, statement=STOP, link=link, reason=reason))

    async def revoke(self, link: str) -> bool:
        """Forget a link, so that the log keeps nothing for it; False if an agent runs it.

        If the link is added again, its peer must be extracted again.
        """
        return await self.run("revoking a link", partial(_revoke, link=link), atomic=True)

    async def end(self) -> LogEnd:
        """Return where the log ends, and where it begins."""
        ((last, deleted_to),) = await self.run("reading the log's end", partial(fetch, statement=READ_END))
        return LogEnd(last, deleted_to)

    async def reset(
        self,
        link: str,
        *,
        epoch: Epoch | None = None,
        peer: tuple[Epoch, Offset] | None = None,
        confirmed: Offset | None = None,
    ) -> LinkRow:
        """Start a link again in one transaction; the link goes on, and its agent takes it again.

        ``epoch`` resets what is sent, to the end of the log. ``peer`` resets what is received, to an extract
        of the peer. ``confirmed`` goes back to what a restored peer still has.

        Raises:
            ConfigurationError: the link does not exist, or the log has lost what follows.
        """
        step = partial(reset_on, link=link, epoch=epoch, peer=peer, confirmed=confirmed)
        return await self.run("resetting a link", step, atomic=True)


async def _add(connection: AnyConnection, *, judge: Judge, link: str, **values: Any) -> LinkRow:
    before = await fetch(connection, LOCK, link=link)
    (row,) = await fetch(connection, ADD, start=ORIGIN, link=link, **values)
    after = row_of(row)
    named = {"publication": after.publication, "link": link, "address": after.address}
    past = [] if before else [kind for (kind,) in await fetch(connection, READ_PAST, **named)]
    reason = judge(row_of(before[0]) if before else None, after, past)
    if reason != after.stopped:
        await execute(connection, STOP, link=link, reason=reason)
    return replace(after, stopped=reason)


async def _revoke(connection: AnyConnection, *, link: str) -> bool:
    rows = await fetch(connection, REVOKE, link=link)
    for _, address in rows:
        await execute(connection, NOTE_PAST, kind="link", name=link)
        await execute(connection, NOTE_PAST, kind="address", name=address)
    return bool(rows)


async def reset_on(
    connection: AnyConnection,
    *,
    link: str,
    epoch: Epoch | None = None,
    peer: tuple[Epoch, Offset] | None = None,
    confirmed: Offset | None = None,
) -> LinkRow:
    """Reset a link in the caller's transaction, together with an extract: both are committed, or neither.

    Raises:
        ConfigurationError: the link does not exist, or the log lacks what follows ``confirmed``.
    """
    rows = await fetch(connection, LOCK, link=link)
    if not rows:
        raise ConfigurationError(
            "link", f"link {link} does not exist", "list the links with: doubtless sqlremote status"
        )
    link_row = row_of(rows[0])
    ((last, deleted_to),) = await fetch(connection, READ_END)
    outgoing, incoming = link_row.watermark.outgoing, link_row.watermark.incoming
    if confirmed is not None:
        outgoing = _go_back(outgoing, confirmed, deleted_to)
    if epoch is not None:
        outgoing = reset_outgoing(outgoing, Offset(last), epoch)
    if peer is not None:
        incoming = reset_incoming(incoming, peer[1], peer[0])
    values = values_of(outgoing, "o_") | values_of(incoming, "i_")
    await execute(connection, RESET, link=link, **values)
    (row,) = await fetch(connection, READ, link=link)
    return row_of(row)


def _go_back(row: Outgoing, confirmed: Offset, deleted_to: Offset) -> Outgoing:
    if confirmed < deleted_to:
        raise ConfigurationError(
            "confirmed",
            f"the peer needs the log after {confirmed}, but the log was deleted up to {deleted_to}",
            "extract the peer anew: doubtless sqlremote extract",
        )
    if confirmed >= row.confirm_sent:
        return confirm(row, confirmed) if confirmed <= row.log_sent else row
    return replace(row, confirm_sent=confirmed, log_sent=confirmed, chain=None)
