"""One consumer of a queue or of a topic's subscription: claims, settles, and removes dead consumers."""

import logging
import secrets
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import cast

from sqlalchemy.exc import DBAPIError

from history.errors import ConfigurationError
from history.message import Message, PropertyValue
from history.sql.database.engine import AnyConnection, execute, fetch
from history.sql.statements.dialects import Dialect
from history.sql.transaction import unavailable
from history.store import HistoryStore
from history.store.parking import encodable
from history.store.parking import raw_fields as raw_shown
from history.store.times import milliseconds_of
from triggers.providers.brokers.delivery import read
from triggers.providers.provider import AT_ONCE, RECEIVE_WAIT, ProviderUnavailableError, Received, Unreadable
from triggers.providers.sqljms.codec import decode, raw_fields
from triggers.providers.sqljms.destinations import Destination, DestinationKind, find_or_make, subscribe
from triggers.providers.sqljms.receiving import client_statements, clients, entries
from triggers.providers.sqljms.receiving.clients import ReceivingClient
from triggers.providers.sqljms.receiving.connection import ConsumerConnection
from triggers.providers.sqljms.receiving.entries import EntrySource
from triggers.providers.sqljms.receiving.odd_rows import EitherRow, OddRow
from triggers.providers.sqljms.sending.outbox import Outbox
from triggers.providers.sqljms.settings import SqlJmsSettings

_log = logging.getLogger(__name__)

#: How often one consumer looks for expired messages, in seconds.
SWEEP_INTERVAL = 60.0

#: The most messages of one claim.
MOST = 1000


@dataclass(frozen=True, slots=True)
class Name:
    """The identity of a consumer: its source, its subscription, and its name among other consumers."""

    destination: Destination
    subscription: str
    name: str
    address: str

    @property
    def client_name(self) -> str:
        """The name in ``dms_client``."""
        return f"{self.name} ({self.subscription} on {self.address})"


class SqlReceiver:
    """A consumer; see :class:`~triggers.providers.sqljms.provider.SqlJms`.

    The handle of what :meth:`receive` returns is message and token. After ``receive`` or an acknowledgement
    raises ProviderUnavailableError, nothing is held any more: nobody knows what the server did. The next
    ``receive`` gives back what this consumer may hold, with a greater count.
    """

    def __init__(
        self,
        connection: ConsumerConnection,
        outbox: Outbox,
        settings: SqlJmsSettings,
        *,
        name: Name,
        incarnation: str,
        left: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._outbox = outbox
        self._settings = settings
        self._name = name
        self._incarnation = incarnation
        self._left = left
        self._client = ReceivingClient(0, incarnation)
        self._source = EntrySource(name.destination.kind, 0)
        self._held: dict[int, int] = {}
        self._lost = self._unknown = self._closed = False
        self._times_replaced = 0
        self._reap_due = self._sweep_due = 0.0
        self._shares: dict[int, bool] = {}

    @property
    def keep_alive_interval(self) -> timedelta:
        """A third of the lease: two may fail before anything is taken over."""
        return self._settings.lease / 3

    async def open(self) -> None:
        """Take the name, and attach to the queue or subscription, which are made if need be.

        Raises:
            ConfigurationError: a running consumer has the name.
        """
        times = self._connection.link.times_replaced
        if times != self._times_replaced:
            self._held.clear()
            self._shares.clear()
        await self._connection.run("opening a consumer", self._enter, atomic=True)
        self._lost, self._times_replaced = False, times
        await self._connection.attend(self._source.number)

    async def _enter(self, connection: AnyConnection) -> None:
        row = await clients.take_name(connection, self._name.client_name, self._incarnation)
        self._client = ReceivingClient(int(row.client_id), self._incarnation)
        if row.place_id is not None:
            await clients.remove_dead(connection, [(self._client.number, row.place_id)])
        destination, owner = self._name.destination, self._client.number
        number = await find_or_make(connection, destination, owner if destination.is_temporary else 0)
        if destination.kind is DestinationKind.QUEUE:
            await execute(connection, client_statements.ADD_RECEIVER, client=owner, queue=number)
        else:
            number = await subscribe(
                connection,
                number,
                self._name.subscription,
                client=owner,
                durable=destination.durable,
                retains=destination.retains,
            )
        self._source = EntrySource(destination.kind, number)
        values = {"client": owner, "incarnation": self._incarnation, "place": number}
        await execute(connection, client_statements.LIVE, **values, lease=_milliseconds(self._settings.lease))

    async def receive(self, limit: int, wait: timedelta = RECEIVE_WAIT) -> Sequence[Received]:
        """Return up to ``limit`` deliveries, the most urgent and then the oldest first."""
        if limit < 1:
            raise ConfigurationError("limit", f"must be 1 or more, not {limit}", "ask for 1 or more")
        deadline = time.monotonic() + wait.total_seconds()
        try:
            while True:
                await self._look_around()
                rows = await self._claim(min(limit, MOST))
                received = await self._unexpired(rows)
                rest = deadline - time.monotonic()
                if received or rest <= 0:
                    return received
                if not rows:
                    await self._connection.wait(min(rest, await self._until_due()))
        except BaseException:
            # A cancelled wait ends here too: the server may have handed over messages that nobody here saw.
            self._forget()
            raise

    async def _look_around(self) -> None:
        """Come back from being presumed dead; remove the dead; find what a lost answer left behind.

        If the file was replaced, nobody there knows this consumer, or another one has its number.
        """
        if self._lost or self._times_replaced != self._connection.link.times_replaced:
            await self.open()
        if self._unknown:
            await self._release_all([self._client.number], message_ids=list(self._held))
            self._unknown = False
        now = time.monotonic()
        if now >= self._reap_due:
            self._reap_due = now + self.keep_alive_interval.total_seconds()
            await self._look_for_dead()
        if now >= self._sweep_due:
            self._sweep_due = now + SWEEP_INTERVAL
            tame = partial(entries.tame, source=self._source)
            await self._connection.run("looking for odd priorities", tame)
            expired = partial(fetch, statement=client_statements.EXPIRED)
            if await self._connection.run("looking for what has expired", expired):
                swept = await self._connection.run("sweeping", clients.sweep, atomic=True)
                if swept:  # perhaps there is more
                    self._sweep_due = now

    async def _look_for_dead(self) -> None:
        # A late consumer must not be removed for it, least of all by itself.
        if not await self._connection.run("keeping alive", self._renewal):
            await self.open()
        if await self._connection.run(
            "looking for dead consumers", partial(fetch, statement=client_statements.ANY_DEAD)
        ):
            await self._connection.run("removing dead consumers", clients.remove_expired, atomic=True)
        orphaned = await self._connection.run(
            "looking for orphans", partial(entries.orphaned, source=self._source)
        )
        if others := [client for client in orphaned if client != self._client.number]:
            await self._release_all(others)

    async def _release_all(self, of: Sequence[int], message_ids: Sequence[int] = ()) -> None:
        free = partial(entries.release_all, source=self._source, clients=of, message_ids=message_ids)
        await self._connection.run("giving back what others hold", free, atomic=True)

    async def _claim(self, limit: int) -> Sequence[EitherRow]:
        source, client = self._source, self._client.number
        self._connection.note()
        if self._connection.dialect is Dialect.SQLITE:
            look = partial(entries.is_anything, source=source, client=client)
            if not await self._connection.run("looking", look):
                return []
        token = 1 + secrets.randbits(62)
        claim = partial(entries.claim, source=source, client=client, incarnation=self._incarnation)
        take = partial(claim, token=token, limit=limit)
        rows = await self._connection.run(
            "receiving", take, atomic=self._connection.dialect is Dialect.SQLITE
        )
        self._connection.rest()
        self._held.update((row.msg_id, token) for row in rows)
        return rows

    async def _unexpired(self, rows: Sequence[EitherRow]) -> list[Received]:
        """Return the deliveries of claimed rows, and remove the messages that have expired."""
        claims = {row.msg_id: self._held[row.msg_id] for row in rows}
        expired = {row.msg_id: claims[row.msg_id] for row in rows if _has_expired(row)}
        if expired:
            await self._remove(expired)
        return [
            received_of(row, (row.msg_id, claims[row.msg_id])) for row in rows if row.msg_id not in expired
        ]

    async def _until_due(self) -> float:
        """Return how long to wait, in seconds, if nobody wakes us."""
        interval = min(self._settings.poll_interval.total_seconds(), self._reap_due - time.monotonic())
        pause = await self._connection.run("looking ahead", partial(entries.next_due, source=self._source))
        # An entry that is due and was not handed out is being claimed by another consumer, or delayed.
        return interval if pause is None or pause <= 0 else min(interval, pause / 1000)

    async def acknowledge(self, received: Sequence[Received]) -> None:
        """Delete these entries, and the messages that nobody else reads."""
        claims = self._still_claimed(received)
        if claims:
            with self._answering():
                await self._remove(claims)

    async def _remove(self, claims: Mapping[int, int]) -> None:
        gone = partial(entries.remove, source=self._source, client=self._client.number, claims=claims)
        await self._connection.run("acknowledging", gone, atomic=self._connection.dialect is Dialect.SQLITE)
        self._drop(claims)

    async def recover(self, received: Sequence[Received], delay: timedelta = AT_ONCE) -> None:
        """Give these back; their delivery counts stay."""
        claims = self._still_claimed(received)
        if claims:
            with self._answering():
                await self._release(claims, delay)

    async def _release(self, claims: Mapping[int, int], delay: timedelta) -> None:
        give = partial(
            entries.release,
            source=self._source,
            client=self._client.number,
            claims=claims,
            delay=_milliseconds(delay),
        )
        await self._connection.run("recovering", give, atomic=True)
        self._drop(claims)
        if not delay:
            await self._connection.wake_others(self._source.number)

    async def dead_letter(self, received: Sequence[Received], reason: str) -> None:
        """Move these to ``DLQ.<name of the destination>``, with the reason, in one transaction."""
        claims = self._still_claimed(received)
        if claims:
            with self._answering():
                await self._move_to_dead_letters(claims, received, reason)

    async def _move_to_dead_letters(
        self, claims: Mapping[int, int], received: Sequence[Received], reason: str
    ) -> None:
        by_id = {_handle(delivery)[0]: delivery for delivery in received}

        async def move(connection: AnyConnection) -> None:
            gone = await entries.remove(connection, self._source, client=self._client.number, claims=claims)
            letters = [_dead(by_id[number], number, reason) for number in sorted(gone)]
            if letters:
                await self._outbox.send_inside(connection, f"DLQ.{self._name.destination.name}", letters)

        await self._connection.run("dead-lettering", move, atomic=True)
        self._outbox.wake()
        self._drop(claims)

    async def shares(self, history: HistoryStore) -> bool:
        """Whether a transaction of this history can remove entries: whether it is the same database."""
        is_shared = self._shares.get(id(history))
        if is_shared is None:
            is_shared = await self._connection.is_at_home(history)
            if is_shared is not None:
                self._shares[id(history)] = is_shared
        return is_shared or False

    async def acknowledge_inside(self, transaction: AnyConnection, received: Sequence[Received]) -> bool:
        """Delete these entries on a connection with an open transaction; False if some are not ours."""
        claims = self._still_claimed(received)
        if len(claims) < len(received):
            return False
        client = self._client.number
        if entries.remove_at_end(transaction, self._source, client=client, claims=claims):
            return True
        try:
            gone = await entries.remove(transaction, self._source, client=client, claims=claims)
        except DBAPIError as error:
            raise unavailable("acknowledging", error) from error
        return len(gone) == len(received)

    def note_acknowledged(self, received: Sequence[Received]) -> None:
        """Stop holding these: their transaction is committed."""
        self._drop([_handle(delivery)[0] for delivery in received])

    async def take_over_all(self) -> None:
        """Take what other receivers hold, and recovered messages; no other receives until this one closes."""
        take = partial(entries.take_over, source=self._source, client=self._client.number)
        try:
            if self._lost:
                await self.open()
            await self._connection.run("taking over", take, atomic=True)
        except ProviderUnavailableError:
            self._forget()
            raise

    async def keep_alive(self) -> None:
        """Renew the lease."""
        if self._closed:
            return
        if not self._lost and not await self._connection.run_beside("keeping alive", self._renewal):
            _log.warning(
                "consumer %s did not renew its lease in time, or its queue or subscription was deleted: "
                "others get its messages; raise lease if this happens often",
                self._name.client_name,
                extra={"trigger": self._name.subscription},
            )
            self._lost = True

    async def _renewal(self, connection: AnyConnection) -> bool:
        return await clients.renew(connection, self._client, _milliseconds(self._settings.lease))

    async def close(self) -> None:
        """Give back unsettled messages, and leave."""
        if self._closed:
            return
        self._closed = True
        self._left()
        try:
            await self._connection.run("leaving", self._leave, atomic=True)
        finally:
            await self._connection.close()

    async def _leave(self, connection: AnyConnection) -> None:
        values = {"client": self._client.number, "incarnation": self._incarnation}
        if await fetch(connection, client_statements.LEAVE, **values):
            await clients.remove_dead(connection, [(self._client.number, self._source.number)])

    @contextmanager
    def _answering(self) -> Generator[None, None, None]:
        try:
            yield
        except ProviderUnavailableError:
            self._forget()
            raise

    def _forget(self) -> None:
        self._held.clear()
        self._unknown = True

    def _still_claimed(self, received: Sequence[Received]) -> dict[int, int]:
        """Return message and token of the deliveries with the latest handle."""
        handles = [_handle(delivery) for delivery in received]
        return {number: token for number, token in handles if self._held.get(number) == token}

    def _drop(self, numbers: Mapping[int, int] | Sequence[int]) -> None:
        for number in numbers:
            self._held.pop(number, None)


def received_of(row: EitherRow, handle: object) -> Received:
    """Return a row as a message, or as an unreadable delivery."""
    if isinstance(row, OddRow):
        return Unreadable(row.fields, encodable(row.problem), handle, str(row.msg_id))
    return read(
        partial(decode, row), handle=handle, delivery_id=lambda: str(row.msg_id), raw=partial(raw_fields, row)
    )


def _has_expired(row: EitherRow) -> bool:
    # If it is not a number, the row is not a message: it is handed over as unreadable.
    return not isinstance(row, OddRow) and type(row.expiration) is int and 0 < row.expiration <= row.now


def _handle(received: Received) -> tuple[int, int]:
    return cast("tuple[int, int]", received.handle)


def _dead(received: Received, number: int, reason: str) -> Message:
    """Return a copy for the dead-letter destination, under the identity that it was given.

    It does not expire: nobody would see it there.
    """
    properties: dict[str, PropertyValue] = {"dead-letter-reason": reason}
    if isinstance(received, Unreadable):
        fields = raw_shown(received.fields)
        return Message(body=dict(fields), message_id=f"ID:{number}", properties=properties)
    message = received.message
    if message.expiration is not None:
        properties["doubtless_expiration"] = milliseconds_of(message.expiration)
    changes = {"delivery_time": None, "expiration": None}
    return message.model_copy(update={"properties": {**message.properties, **properties}, **changes})


def _milliseconds(duration: timedelta) -> int:
    return -(-duration // timedelta(milliseconds=1))
