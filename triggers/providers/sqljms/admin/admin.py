"""Administer SQL-JMS: what waits, where and for how long; move, copy, delete, requeue, release, reset.

For the command line and for programs. Every change is one transaction. A message that a running consumer is
handling cannot be changed, unless ``force`` is set. Then that consumer cannot remove the message any more,
and an atomic trigger rolls its effects back.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Self, TypeVar

from history.sql.database.engine import AnyConnection, AnyRow, execute, fetch, open_engine
from triggers.providers.sqljms.admin import statements as sql
from triggers.providers.sqljms.admin.steps import (
    HeldError,
    NotFoundError,
    address_of,
    chosen_of,
    find,
    messages_of,
    name_of,
    origin_of,
    resend,
    source_of,
    take_out,
)
from triggers.providers.sqljms.admin.views import (
    ClientView,
    EntryView,
    MessageHolder,
    MessageView,
    SourceView,
    TopicView,
    client_view,
    entry_view,
    source_view,
    topic_view,
)
from triggers.providers.sqljms.destinations import Destination, DestinationKind
from triggers.providers.sqljms.link import SqlLink, providers_errors
from triggers.providers.sqljms.receiving import clients
from triggers.providers.sqljms.receiving.entries import EntrySource, listed
from triggers.providers.sqljms.sending.outbox import Outbox
from triggers.providers.sqljms.settings import SqlJmsSettings

T = TypeVar("T")


class Admin:
    """The queues, topics, subscriptions and clients of one database. Blocking; safe between threads.

    Messages wait in ``queue://orders``, or ``topic://orders`` with the name of a subscription. ``orders`` is
    the queue of this name, or, if it does not exist, the topic.
    """

    def __init__(self, link: SqlLink) -> None:
        self._link = link
        self._outbox = Outbox(link)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Open ``sqlite:///file.db`` or ``postgresql://user@host/database``.

        Raises:
            ConfigurationError: the URL is for something else, or (MissingExtraError) a driver is missing.
        """
        with providers_errors():
            bare, names = SqlJmsSettings.from_url(url)[1], SqlJmsSettings.names()
            return cls(SqlLink(open_engine(bare, asyncio=False, options=names), owned=True))

    async def run(self, doing: str, work: Callable[[AnyConnection], Awaitable[T]]) -> T:
        """Do one step in a transaction.

        Raises:
            ProviderUnavailableError: the database did not answer.
        """
        return await self._link.run(doing, work, atomic=True)

    async def close(self) -> None:
        """Give the connections back."""
        await self._link.close()

    async def clients(self) -> Sequence[ClientView]:
        """List the consumers, running or dead."""
        rows = await self.run("listing clients", partial(fetch, statement=sql.CLIENTS))
        return [client_view(row) for row in rows]

    async def queues(self) -> Sequence[SourceView]:
        """List the queues with their backlog."""
        rows = await self.run("listing queues", partial(fetch, statement=sql.QUEUES))
        return [source_view(DestinationKind.QUEUE, row) for row in rows]

    async def topics(self) -> Sequence[TopicView]:
        """List the topics."""
        return [
            topic_view(row) for row in await self.run("listing topics", partial(fetch, statement=sql.TOPICS))
        ]

    async def subscriptions(self, topic: str | None = None) -> Sequence[SourceView]:
        """List the subscriptions, of one topic or of all, with their backlog."""
        rows = await self.run("listing subscriptions", partial(fetch, statement=sql.SUBSCRIPTIONS))
        name = None if topic is None else Destination.parse(topic).name
        return [source_view(DestinationKind.TOPIC, row) for row in rows if name in {None, row.name}]

    async def entries(
        self, destination: str, subscription: str | None = None, *, limit: int = 50
    ) -> Sequence[EntryView]:
        """List the messages at a queue or subscription, in the order of their delivery.

        Raises:
            NotFoundError: the queue or subscription does not exist.
        """

        async def read(connection: AnyConnection) -> Sequence[AnyRow]:
            where = await source_of(connection, destination, subscription)
            return await fetch(connection, sql.ENTRIES[where.kind], place=where.number, limit=limit)

        return [entry_view(row) for row in await self.run("listing entries", read)]

    async def message(self, number: int) -> MessageView:
        """Return a message whole, and where it waits.

        Raises:
            NotFoundError: no message has this number.
        """

        async def read(connection: AnyConnection) -> MessageView:
            messages = await messages_of(connection, [number])
            if number not in messages:
                raise NotFoundError("message", str(number))
            rows = await fetch(connection, sql.WHERE, ids=listed(connection, [number]))
            holders = [MessageHolder(row.kind, row.name, row.subscription or None) for row in rows]
            return MessageView(number, messages[number], holders)

        return await self.run("reading a message", read)

    async def move(
        self,
        source: str,
        target: str,
        numbers: Sequence[int] | None = None,
        *,
        subscription: str | None = None,
        keep: bool = False,
        force: bool = False,
    ) -> Sequence[int]:
        """Send messages elsewhere, all by default, and remove them; return their numbers.

        JMSMessageID, uuid, headers and properties stay; the delivery count starts again. A topic sends them
        to each subscription, as any message. ``keep`` leaves the originals where they are: a copy.

        Raises:
            NotFoundError: the source does not exist.
            HeldError: a running consumer is handling some of them.
        """

        async def work(connection: AnyConnection) -> Sequence[int]:
            where = await source_of(connection, source, subscription)
            chosen = await chosen_of(connection, where, numbers, force=force or keep)
            address = await address_of(connection, target)
            return await resend(self._outbox, connection, where, chosen, lambda _: address, keep=keep)

        return await self._changed("moving messages", work)

    async def requeue(
        self,
        source: str,
        numbers: Sequence[int] | None = None,
        *,
        target: str | None = None,
        subscription: str | None = None,
        force: bool = False,
    ) -> Sequence[int]:
        """Send given-up messages back to their origin, without the properties about their failure.

        The origin is the property ``doubtless_destination``, or else comes from the name of the dead-letter
        queue. If the history of an input says that a message is done, or failed for good, the input drops or
        parks it again.

        Raises:
            NotFoundError: the source does not exist, or the origin of a message is not known: set ``target``.
            HeldError: a running consumer is handling some of them.
        """

        async def work(connection: AnyConnection) -> Sequence[int]:
            where = await source_of(connection, source, subscription)
            chosen = await chosen_of(connection, where, numbers, force=force)
            messages = await messages_of(connection, chosen)
            chosen = list(messages)
            origins = {number: target or origin_of(source, message) for number, message in messages.items()}
            senders = {
                address: await address_of(connection, address, there=True)
                for address in set(origins.values())
            }
            return await resend(
                self._outbox, connection, where, chosen, lambda number: senders[origins[number]], clean=True
            )

        return await self._changed("requeueing messages", work)

    async def delete(
        self,
        destination: str,
        numbers: Sequence[int] | None = None,
        *,
        subscription: str | None = None,
        force: bool = False,
    ) -> Sequence[int]:
        """Remove messages of a queue or subscription, all by default, for good; raises as :meth:`move`."""

        async def work(connection: AnyConnection) -> Sequence[int]:
            where = await source_of(connection, destination, subscription)
            chosen = await chosen_of(connection, where, numbers, force=force)
            await take_out(connection, where, chosen)
            return chosen

        return await self.run("deleting messages", work)

    async def release_now(
        self, destination: str, numbers: Sequence[int] | None = None, *, subscription: str | None = None
    ) -> Sequence[int]:
        """Make delayed messages of a queue or subscription due now; return the ones that were not due yet."""

        async def work(connection: AnyConnection) -> Sequence[int]:
            where = await source_of(connection, destination, subscription)
            chosen = await chosen_of(connection, where, numbers, force=True)
            ids = listed(connection, chosen)
            rows = await fetch(connection, sql.DUE_NOW[where.kind], place=where.number, ids=ids)
            return [int(row.msg_id) for row in rows]

        return await self._changed("releasing messages", work)

    async def reset(self, client: str, *, force: bool = False) -> Sequence[int]:
        """Give back everything that a dead client holds; return the places with messages to receive now.

        Raises:
            NotFoundError: the client does not exist.
            HeldError: it is running. With ``force`` it is treated as dead.
        """

        async def work(connection: AnyConnection) -> Sequence[int]:
            rows = await fetch(connection, sql.CLIENT, name=client)
            if not rows:
                raise NotFoundError("client", client)
            if rows[0].alive and not force:
                raise HeldError(f"{client} is alive")
            await execute(connection, sql.PRESUME_DEAD, client=rows[0].client_id)
            return await clients.remove_dead(connection, [(int(rows[0].client_id), rows[0].place_id)])

        return await self._changed("resetting a client", work)

    async def forget(self, client: str, *, force: bool = False) -> None:
        """Give back everything that a dead client holds, and forget it; raises as :meth:`reset`."""
        await self.reset(client, force=force)

        async def work(connection: AnyConnection) -> None:
            for row in await fetch(connection, sql.CLIENT, name=client):
                await execute(connection, sql.FORGET_CLIENT, client=row.client_id)

        await self.run("forgetting a client", work)

    async def unsubscribe(self, topic: str, subscription: str) -> None:
        """End a subscription, with all its unread messages.

        Raises:
            NotFoundError: it does not exist.
            ConfigurationError: a consumer is attached to it, or the topic is a queue.
        """
        destination = Destination.parse(topic)
        for candidate in dict.fromkeys((subscription, name_of(subscription))):
            end = partial(clients.end_subscription, destination=destination, name=candidate)
            if await self.run("unsubscribing", end):
                return
        raise NotFoundError(f"subscription of {destination.name}", subscription)

    async def drop(self, destination: str, *, force: bool = False) -> None:
        """Delete a queue or topic with all its messages.

        Raises:
            NotFoundError: it does not exist.
            HeldError: a running consumer is handling some of them.
        """

        async def work(connection: AnyConnection) -> None:
            destination_kind, number = await find(connection, destination)
            if destination_kind is DestinationKind.QUEUE:
                where = EntrySource(destination_kind, number)
                await chosen_of(connection, where, None, force=force)
                await clients.drop_queue(connection, number)
                return
            for row in await fetch(connection, sql.SUBSCRIPTIONS):
                if row.name == Destination.parse(destination).name:
                    await chosen_of(connection, EntrySource(destination_kind, row.id), None, force=force)
                    await clients.unsubscribe(connection, row.id)
            await execute(connection, sql.DROP_TOPIC, place=number)

        await self.run("deleting a destination", work)

    async def _changed(
        self, doing: str, work: Callable[[AnyConnection], Awaitable[Sequence[int]]]
    ) -> Sequence[int]:
        changed = await self.run(doing, work)
        self._outbox.wake()
        return changed


__all__ = ["Admin", "HeldError", "NotFoundError"]
