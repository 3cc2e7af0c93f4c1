"""The way out of a Patch Bay: from a component's port to its destinations by the file.

If destinations, limbo and the caller's transaction share one database, a message is written there in one
transaction. If they do not, the limbo is the outbox. The message is put there, in the transaction if there is
one. The release loop then sends it to each destination, at least once and under one uuid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from history.errors import ConfigurationError
from history.message import Message
from history.shell import Shell
from history.store import instant
from triggers.patchbay.local import LocalDestinations
from triggers.patchbay.wiring.checks import is_local, is_sql, provider_name
from triggers.patchbay.wiring.model import DestinationEntry, InputDestination, PatchBayFile
from triggers.providers.outgoing import running_sends
from triggers.providers.provider import InDatabase, Provider, capabilities_of

if TYPE_CHECKING:
    from history.sql.database.engine import AnyConnection
    from triggers.providers.sqljms.limbo.limbo import InLimbo, Limbo


class Outlet(NamedTuple):
    """Where a port leads: the name of the provider, and its name of the destination."""

    provider: str
    address: str


def outlet_of(file: PatchBayFile, entry: DestinationEntry) -> Outlet:
    """Return where a destination of the file is; for SQL-JMS, with its kind: queue or topic."""
    name = provider_name(file, entry)
    if is_local(file.providers[name].url):
        return Outlet(name, f"{entry.type}://{entry.destination}")
    if not is_sql(file.providers[name].url):
        return Outlet(name, entry.destination)
    ends = isinstance(entry, InputDestination) and not entry.durable
    return Outlet(name, f"{entry.type}://{entry.destination}{'?durable=no' if ends else ''}")


@dataclass(slots=True)
class Outputs:
    """The providers and the limbo of a Patch Bay; all of them block, or all belong to one event loop.

    ``local`` are the destinations with sinks that are called. ``here`` are the providers in the limbo's
    database, by name.
    """

    file: PatchBayFile
    providers: Mapping[str, Provider]
    limbo: "Limbo | None"
    shell: Shell
    local: LocalDestinations
    here: Mapping[str, InDatabase] = field(default_factory=dict[str, InDatabase])
    _identity: int | None = field(default=None)

    async def prepare(self) -> None:
        """Find out which providers share the limbo's database.

        Raises:
            ProviderUnavailableError: the database did not answer.
        """
        if self.limbo is None or self._identity is not None:
            return
        from triggers.providers.sqljms.tables import identity_of  # noqa: PLC0415  (loads a driver)

        self._identity = await self.limbo.run("looking for its database", identity_of, atomic=False)
        asked = {name: capabilities_of(provider).in_database for name, provider in self.providers.items()}
        self.here = {
            name: provider
            for name, provider in asked.items()
            if provider is not None and await provider.identity() == self._identity
        }

    def outlets(self, component: str, port: str) -> Sequence[Outlet]:
        """Return where a port leads.

        Raises:
            ConfigurationError: the file has no such component, or the component has no such port.
        """
        for candidate in self.file.components:
            if candidate.name == component:
                ports = self.file.outputs(candidate)
                if port in ports:
                    return [outlet_of(self.file, entry) for entry in ports[port].to]
                names = ", ".join(sorted(ports)) or "none"
                raise ConfigurationError(
                    f"port {port!r} of {component}",
                    f"is not an output port; the output ports are: {names}",
                    "add it to the file",
                )
        raise ConfigurationError(
            f"component {component!r}", "is not in the file", "add it, or correct the name"
        )

    async def send(
        self,
        component: str,
        port: str,
        messages: Sequence[Message],
        connection: "AnyConnection | None" = None,
    ) -> None:
        """Send messages by a port, in the transaction of ``connection`` if it is in our database.

        Raises:
            ConfigurationError: the port does not exist, or one of the messages can never be sent by it.
            ProviderUnavailableError: it is unknown which of them arrived.
        """
        await self.prepare()
        outlets = self.outlets(component, port)
        limbo = self.limbo
        if connection is not None and await self.is_here(connection):
            await self.send_inside(connection, component, port, messages)
            return
        # Local sinks belong in the sender's transaction, in whatever database.
        calls = connection is not None and all(outlet in self.local for outlet in outlets)
        if connection is not None:
            self._check_local(component, port, outlets, together=calls)
        if limbo is not None and ((len(outlets) > 1 and not calls) or self._later(messages)):
            work = partial(self.send_inside, component=component, port=port, messages=messages)
            leave = partial(limbo.run, "sending", work)
        else:
            leave = partial(self._send_each, outlets, messages, connection)
        sends = running_sends()
        # Local sinks are a part of the run; other messages leave after it has succeeded.
        if sends is None or any(outlet in self.local for outlet in outlets):
            await leave()
        else:
            sends.keep(lambda _connection: leave())

    async def is_here(self, connection: "AnyConnection") -> bool:
        """Whether a connection is to the limbo's database; checked once for each connection."""
        if self._identity is None:
            return False
        from triggers.providers.sqljms.tables import known_identity  # noqa: PLC0415  (loads a driver)

        # A database without tables is another one: the limbo has made its own before. It may have been asked
        # by others before that.
        info = connection.info
        if info.get("dms_compared_with") != self._identity:
            await known_identity(connection)
            info["dms_compared_with"] = self._identity
        return bool(info["dms_identity"] == self._identity)

    async def send_inside(
        self, connection: "AnyConnection", component: str, port: str, messages: Sequence[Message]
    ) -> None:
        """Send in the open transaction of a connection to the limbo's database."""
        from triggers.providers.sqljms.limbo.limbo import Delayed  # noqa: PLC0415  (loads a driver)

        assert self.limbo is not None  # noqa: S101  (it is its database)
        outlets = self.outlets(component, port)
        together = self._are_together(outlets)
        self._check_local(component, port, outlets, together=together)
        later = self._later(messages) if together else messages
        entries = [
            Delayed(component=component, port=port, message=message, due=message.delivery_time)
            for message in later
        ]
        await self.limbo.joined(connection).put(entries)
        if together:
            waiting = {id(message) for message in later}
            await self._send_joined(
                connection, outlets, [message for message in messages if id(message) not in waiting]
            )

    async def _send_joined(
        self, connection: "AnyConnection", outlets: Sequence[Outlet], messages: Sequence[Message]
    ) -> None:
        for outlet in outlets if messages else ():
            if outlet in self.local:
                await self.local[outlet].send(messages, connection, self.shell)
            else:
                await self.here[outlet.provider].sending(connection).asend_batch(outlet.address, messages)

    async def _send_each(
        self,
        outlets: Sequence[Outlet],
        messages: Sequence[Message],
        connection: "AnyConnection | None" = None,
    ) -> None:
        """Send to each destination; to local ones first, so that nothing has left if a sink fails."""
        for outlet in outlets:
            if outlet in self.local:
                await self.local[outlet].send(messages, connection, self.shell)
        for outlet in outlets:
            if outlet not in self.local:
                await self.providers[outlet.provider].send(outlet.address, messages)

    def _are_together(self, outlets: Sequence[Outlet]) -> bool:
        """Whether one transaction of the limbo's database reaches all of these."""
        return all(outlet.provider in self.here or outlet in self.local for outlet in outlets)

    def _check_local(self, component: str, port: str, outlets: Sequence[Outlet], *, together: bool) -> None:
        """Refuse to put a local sink's message in the outbox: its sender would not see a failure."""
        if not together and any(outlet in self.local for outlet in outlets):
            raise ConfigurationError(
                f"port {port!r} of {component}",
                "leads to local destinations, and to others that are not in the limbo's database",
                "give the local ones an output port of their own",
            )

    async def release(self, waiting: Sequence["InLimbo"]) -> None:
        """Send messages of one port that were held in limbo, and remove them from it.

        In one transaction if all destinations are in the limbo's database. Otherwise they are removed after
        they were sent. A crash in between sends them again, under their uuids.

        Raises:
            ConfigurationError: the port no longer exists, or one of them can never be sent by it.
            ProviderUnavailableError: it is unknown which of them arrived.
        """
        assert self.limbo is not None  # noqa: S101  (they were in it)
        outlets = self.outlets(waiting[0].component, waiting[0].port)
        if self._are_together(outlets):
            await self.limbo.run("releasing", partial(self._release_inside, outlets=outlets, waiting=waiting))
            return
        await self._send_each(outlets, [entry.message for entry in waiting])
        await self.limbo.take_out(waiting)

    async def _release_inside(
        self, connection: "AnyConnection", outlets: Sequence[Outlet], waiting: Sequence["InLimbo"]
    ) -> None:
        from triggers.providers.sqljms.limbo.limbo import take_out_inside  # noqa: PLC0415  (loads a driver)

        gone = set(await take_out_inside(connection, waiting))
        await self._send_joined(connection, outlets, [entry.message for entry in waiting if entry.id in gone])

    def _later(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages that wait in limbo until they are due; without limbo the provider waits."""
        if self.limbo is None or not self.file.patchbay.delays:
            return ()
        dated = [message for message in messages if message.delivery_time is not None]
        if not dated:
            return ()
        milliseconds = self.limbo.clock()
        now = datetime.now(UTC) if milliseconds is None else instant(milliseconds)
        return [
            message for message in dated if message.delivery_time is not None and message.delivery_time > now
        ]

    async def close(self) -> None:
        """Close the limbo's connections; the opener of the providers closes them."""
        if self.limbo is not None:
            await self.limbo.close()
