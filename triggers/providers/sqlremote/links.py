"""The provider of links: ``@trigger("link:orders")`` receives what the peer publishes, in order."""

import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from history.bridge import settled
from history.errors import ConfigurationError, HistoryUnavailableError
from history.message import Message
from history.sql.database.engine import AnyConnection, execute
from history.sql.links.history import LinkHistory, uuid_of
from history.sql.links.watermark import LinkRow
from history.sql.statements.watermark import NOTE_PAST
from history.sql.transaction import SqlTransaction
from history.store.watermark import Epoch, Offset, new_epoch
from triggers.providers.brokers.driven import DrivenProvider, DrivenReceiver
from triggers.providers.brokers.driver_thread import DriverThread
from triggers.providers.provider import ProviderUnavailableError
from triggers.providers.sqlremote.agent.agent import Agent
from triggers.providers.sqlremote.agent.end import AgentState, utc_now
from triggers.providers.sqlremote.agent.hooks import load_hooks
from triggers.providers.sqlremote.capture.installing import install, resubscribed, uninstall
from triggers.providers.sqlremote.capture.subscribing import stop_subscribers, stopped_after
from triggers.providers.sqlremote.carriers.carrier import Carrier
from triggers.providers.sqlremote.carriers.opening import OpenProvider, open_carrier
from triggers.providers.sqlremote.publication.envelope import operation_of
from triggers.providers.sqlremote.publication.publication import Publication
from triggers.providers.sqlremote.receiver import LinkReceiver
from triggers.providers.sqlremote.settings import LinkSettings, RemoteSettings

if TYPE_CHECKING:
    from sqlalchemy import Connection

#: The prefix of a link's destination.
LINK: Final = "link:"

#: Makes the carrier of a link.
OpenCarrier = Callable[[str, LinkSettings], Carrier]


def carriers_of(open_provider: OpenProvider | None) -> OpenCarrier:
    """Return the function that opens the carrier from a link's settings."""

    def carrier_of(link: str, settings: LinkSettings) -> Carrier:
        return open_carrier(
            settings.carrier,
            name=f"{socket.gethostname()}-{link}",
            largest=settings.seal().largest,
            open_provider=open_provider,
        )

    return carrier_of


#: Returns the offset up to which a link's applied work is backed up; None means all of it.
Horizon = Callable[[str], Offset | None]


def everything(link: str) -> None:
    """Return None: all of a link's work may be confirmed."""


class Links:
    """The links of one database, as a provider; :attr:`history` is the history of their triggers.

    It is the default history of a consumer's triggers. One trigger receives from a link; sending to a link
    publishes, with one transaction for each message. All messages of one call are committed together.

    A carrier that is a provider's URL, such as ``redis://``, is opened by ``open_provider``, which is
    :func:`triggers.providers.opening.open_provider`; ``open_carrier`` opens any other way.

    ``horizon`` delays the confirmation of work that is not backed up yet. ``clock`` is for tests.

    Guarantee: atomic, if a trigger's service shares the transaction of the link's database: effects and
    watermark are committed together. Otherwise in doubt, or fenced, as the trigger's own history.
    """

    def __init__(
        self,
        settings: RemoteSettings,
        *,
        history: LinkHistory | None = None,
        open_provider: OpenProvider | None = None,
        open_carrier: OpenCarrier | None = None,
        horizon: Horizon = everything,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.settings = settings
        self._history = LinkHistory.from_url(settings.database) if history is None else history
        self._open_carrier = carriers_of(open_provider) if open_carrier is None else open_carrier
        self._horizon, self._clock = horizon, clock
        self._agents: dict[str, Agent] = {}
        self._carriers: dict[str, Carrier] = {}

    @classmethod
    def from_file(cls, file: Path, *, open_provider: OpenProvider | None = None) -> "Links":
        """Open the links of a settings file; it connects at the first use."""
        return cls(RemoteSettings.load(file), open_provider=open_provider)

    @property
    def history(self) -> LinkHistory:
        """The database of the links."""
        return self._history

    async def setup(self, link: str) -> LinkRow:
        """Create the tables and the link's row, or update its settings; its progress stays.

        If this changes the subscription of the peer, the link only receives until the peer is extracted. A
        new link waits for an extract if the log was deleted in part, or if a link to its peer was revoked.

        Raises:
            ConfigurationError: the link does not exist, or had another publication until now.
            HistoryUnavailableError: the database did not answer.
        """
        settings = self.link(link)
        schedule = settings.schedule
        row = await self.history.watermarks.add(
            link=link,
            publication=settings.publication,
            epoch=fresh_epoch(),
            consolidate="Y" if settings.consolidated else "N",
            type_id=0,
            address=settings.outbox,
            frequency=schedule.frequency,
            send_time=schedule.send_time,
            subscription=settings.subscription,
            judge=partial(stopped_after, sends=settings.direction != "receive"),
        )
        if row.publication != settings.publication:
            raise ConfigurationError(
                f"links.{link}.publication",
                f"the peer gets the publication {row.publication!r}, and the log is kept for that",
                "restore that name, or revoke the link, add it again, and extract its peer",
            )
        return row

    async def capture(self, name: str) -> None:
        """Create, renew or drop the triggers that capture changes for a link's publication.

        Call it again after a change of the tables or of the settings. It waits for transactions that change
        these tables, and others wait for it. If another column selects the rows of subscribers, their links
        only receive until the peers are extracted.

        Raises:
            ConfigurationError: the link, a table, or a table's primary key does not exist.
            HistoryUnavailableError: the database did not answer.
        """
        publication = self.link(name).publication
        tables = next(
            (
                link.tables
                for link in self.settings.links.values()
                if link.publication == publication and link.captures
            ),
            (),
        )
        await self.history.watermarks.run(
            "making triggers", partial(_install, publication=publication, tables=tables), atomic=True
        )

    async def release(self, publication: str) -> None:
        """Drop the triggers of a publication that no link has any more, and what they have captured.

        Raises:
            HistoryUnavailableError: the database did not answer.
        """
        await self.history.watermarks.run(
            "dropping triggers", partial(_uninstall, publication=publication), atomic=True
        )

    def link(self, name: str) -> LinkSettings:
        """Return the settings of a link.

        Raises:
            ConfigurationError: the link does not exist.
        """
        link = self.settings.links.get(name)
        if link is None:
            names = ", ".join(sorted(self.settings.links))
            raise ConfigurationError("link", f"link {name!r} does not exist", f"use one of: {names}")
        return link

    def agent(self, name: str, *, applies: bool = True, batch: bool = False, sends: bool = True) -> Agent:
        """Return the agent of a link, for a caller's own run; close it at the end.

        Raises:
            ConfigurationError: the link does not exist, or this process runs it already.
        """
        settings = self.link(name)
        if name in self._agents and self._agents[name].end.begun:
            raise ConfigurationError(
                f"link:{name}",
                "another trigger receives from it already",
                "let one trigger with concurrency=1 receive from it",
            )
        carrier = self.carrier(name)
        end = AgentState(
            name,
            settings,
            self.history,
            carrier,
            load_hooks(settings.hooks),
            self._clock,
            partial(self._horizon, name),
        )
        agent = self._agents[name] = Agent(end, applies, batch, sends)
        return agent

    def carrier(self, name: str) -> Carrier:
        """Return the carrier of a link, opened at its first use."""
        carrier = self._carriers.get(name)
        if carrier is None:
            carrier = self._carriers[name] = self._open_carrier(name, self.link(name))
        return carrier

    async def send(self, destination: str, messages: Sequence[Message]) -> Sequence[str]:
        """Publish each message as a transaction, all of them or none, and return their identities.

        Properties and headers arrive with the body; a message's uuid as the property ``sent_uuid``.

        Raises:
            ProviderUnavailableError: the database did not answer: it is unknown whether they are published.
            ConfigurationError: a body is bytes, or the link only receives.
        """
        name = _named(destination)
        if self.link(name).direction == "receive":
            raise ConfigurationError(
                f"links.{name}.direction", "this link never sends", "send to another link, or write 'both'"
            )
        publication = Publication(self.link(name).publication)
        try:
            row = await self.setup(name)
            async with await self.history.transaction() as work:
                offsets = [await _publish(work, publication, message) for message in messages]
        except HistoryUnavailableError as error:
            raise ProviderUnavailableError(destination, "publishing") from error
        return [f"ID:{uuid_of(name, row.watermark.outgoing.epoch, offset)}" for offset in offsets]

    async def open_receiver(self, destination: str, *, subscription: str, name: str) -> LinkReceiver:  # noqa: ARG002
        """Open the only receiver of a link, and its agent with it.

        Raises:
            ConfigurationError: the link does not exist, or has a receiver.
        """
        link = _named(destination)
        agent = self.agent(link)
        try:
            await self.setup(link)
        except HistoryUnavailableError as error:
            raise ProviderUnavailableError(destination, "setting it up") from error
        return LinkReceiver(agent)

    def for_asyncio(self) -> "AsyncLinks":
        """Return these links for asyncio: closing the result closes these."""
        return AsyncLinks(self, DriverThread("doubtless-links"))

    async def close(self) -> None:
        """Leave the links, and close carriers and database."""
        async with AsyncExitStack() as closing:  # the last first, and all of them if some fail
            closing.push_async_callback(self.history.close)
            for carrier in self._carriers.values():
                closing.push_async_callback(_closed, carrier)
            for agent in self._agents.values():
                closing.push_async_callback(agent.close)
            self._agents.clear()
            self._carriers.clear()


class AsyncLinks(DrivenProvider[Links]):
    """Links that do not block the event loop: each agent works in its own thread.

    A service of the event loop works on the connection of the links' history. Its effects and the watermark
    are one transaction there. The agent learns of it afterwards, as with a blocking service.
    """

    @property
    def history(self) -> LinkHistory:
        """The database of the links."""
        return self._provider.history

    async def open_receiver(
        self, destination: str, *, subscription: str, name: str
    ) -> DrivenReceiver[LinkReceiver]:
        """Open the only receiver of a link, as the blocking form, with its own thread."""
        opening = self._provider.open_receiver(destination, subscription=subscription, name=name)
        return await DrivenReceiver[LinkReceiver].opened(DriverThread(f"doubtless-{destination}"), opening)


def fresh_epoch() -> Epoch:
    """Return the epoch of a log that begins now."""
    return new_epoch(utc_now(), secrets.token_hex(4))


async def _install(connection: AnyConnection, *, publication: str, tables: Sequence[str]) -> None:
    blocking = cast("Connection", connection)  # links have blocking engines
    changed = resubscribed(blocking, publication, tables)
    install(blocking, publication, tables)
    if changed:
        await stop_subscribers(connection, publication=publication, tables=changed)


async def _uninstall(connection: AnyConnection, *, publication: str) -> None:
    uninstall(cast("Connection", connection), publication)
    await execute(connection, NOTE_PAST, kind="publication", name=publication)


async def _closed(carrier: Carrier) -> None:
    await settled(carrier.close())


def _named(destination: str) -> str:
    if not destination.startswith(LINK):
        raise ConfigurationError(
            "destination", f"{destination!r} is not a link", f"write '{LINK}NAME', as in the settings file"
        )
    return destination.removeprefix(LINK)


async def _publish(work: SqlTransaction, publication: Publication, message: Message) -> Offset:
    # An offset for each: one offset for all would make them one transaction there, with one identity.
    return await publication.aappend(work.connection, operation_of(message), apart=True)
