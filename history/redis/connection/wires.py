"""Connections for scripts, with less overhead than redis-py's.

For each command redis-py takes a connection from its pool and gives it back: two locks, a check of the socket
and a few metrics. It also packs each word separately. Together that takes longer than Redis takes to answer.
Here a command consists of parts that are packed already, and connections stay open between calls.
"""

import os
import re
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import redis

from history.bridge import settled
from history.redis.connection.durability import Durability
from history.redis.connection.errors import FaultKind, kind_of
from history.redis.connection.forks import abandon

#: How many commands of a long call are in transit at a time.
UNDER_WAY = 3


#: The id of a server; if it changes, another server answers, or the same one has restarted.
_RUN_ID = re.compile(rb"run_id:(\w+)")


class AnotherServerError(Exception):
    """A new connection leads to another server than the earlier ones; the command was not sent."""


async def answer_of(wire: Any) -> Any:
    """Return the answer; return an error without raising it, because other answers must still be read."""
    try:
        return await settled(wire.read_response())
    except redis.ResponseError as error:
        return error


class Wires:
    """Connections to one server, blocking or asyncio, made as the pool of a redis-py client makes its own.

    They do not count as that pool's connections, so they cannot use up a small pool. Each is in use by one
    call at a time; safe to share between threads, and across a fork.

    A connection belongs to one run of one server. It asks for the server's name once. ``server`` is the last
    name; empty if no server was met yet, or if the account may not ask. After a new connection has reached
    another server, no call uses the connections to the earlier server any more: after a failover that server
    may accept writes for a while, and forget them later.
    """

    def __init__(self, pool: Any, *, waits: bool) -> None:
        self._pool = pool
        self._waits = waits
        #: The idle connections to ``server``. Closing them begins another list; a connection that was in use
        #: meanwhile comes from the earlier list, and is closed after its call.
        self._idle: list[Any] = []
        self._process = os.getpid()
        self.server = b""

    async def ask(self, command: bytes, server: object = None) -> Any:
        """Send one packed command and return the answer as it came.

        ``server`` is the name of the only server that may get the command; None if any may.

        Raises:
            redis.RedisError: the server's or the connection's error; a lost connection was closed.
            AnotherServerError: nothing was sent yet; call again.
        """
        idle, wire = self._take(server)  # as _taken_or_opened(), with one coroutine less
        if wire is None:
            idle, wire = await self._open(server)
        try:
            sending = wire.send_packed_command((command,))
            if self._waits:
                await sending
            answer = wire.read_response()
            if self._waits:
                answer = await answer
        except redis.ResponseError:
            await self._give_back(wire, idle)
            raise
        except BaseException:
            # The next command must not take an answer that is still in transit. If one connection is lost,
            # the others are probably lost too, so they are closed.
            await self.close(wire)
            raise
        if idle is self._idle:  # as _give_back() does, with one coroutine less for every message
            idle.append(wire)
        else:
            await self._disconnect(wire)
        return answer

    async def ask_durably(
        self, command: bytes, durability: Durability, server: object = None
    ) -> tuple[Any, int]:
        """Send one packed command; return its answer and how many replicas have what it wrote.

        Raises:
            as in :meth:`ask`.
        """
        idle, wire = await self._taken_or_opened(server)
        try:
            await settled(wire.send_packed_command((command + durability.packed(),)))
            answers = [await answer_of(wire) for _ in range(1 + len(durability.commands))]
        except BaseException:
            await self.close(wire)
            raise
        await self._give_back(wire, idle)
        for answer in answers:
            if isinstance(answer, redis.ResponseError):
                raise answer
        return answers[0], int(answers[-1])

    async def ask_each(self, commands: Iterable[bytes], server: object = None) -> AsyncGenerator[Any]:
        """Send packed commands and yield their answers, in order; the next ones are sent before an answer.

        So the server has something to do while an answer travels and is read.

        Raises:
            redis.RedisError: the server's or the connection's error. Then the rest has no answers, and the
                connection is closed.
            AnotherServerError: nothing was sent yet; call again.
        """
        idle, wire = await self._taken_or_opened(server)
        under_way, done = 0, False
        try:
            for command in commands:
                await settled(wire.send_packed_command((command,)))
                under_way += 1
                if under_way == UNDER_WAY:
                    yield await settled(wire.read_response())
                    under_way -= 1
            for _ in range(under_way):
                yield await settled(wire.read_response())
            done = True
        finally:
            if done:
                await self._give_back(wire, idle)
            else:
                await self.close(wire)

    async def _taken_or_opened(self, server: object) -> tuple[list[Any], Any]:
        """Return an idle connection, or else a new one, with its list; raises as the two do."""
        idle, wire = self._take(server)
        return (idle, wire) if wire is not None else await self._open(server)

    def _take(self, server: object) -> tuple[list[Any], Any | None]:
        """Return the list of idle connections, and one of them; None if there is none.

        Raises:
            AnotherServerError: they do not lead to ``server``.
        """
        if self._process != os.getpid():
            # A forked child must not use its parent's connections.
            if self._waits:
                abandon(self._idle)
            self._process, self._idle = os.getpid(), []
        idle = self._idle
        if server is not None and server != self.server:
            raise AnotherServerError
        return idle, _last_of(idle)

    async def _give_back(self, wire: Any, idle: list[Any]) -> None:
        """Keep a connection for the next call, or close it if its list was closed meanwhile."""
        if idle is self._idle:
            idle.append(wire)
        else:
            await self._disconnect(wire)

    async def _open(self, server: object) -> tuple[list[Any], Any]:
        """Open a connection; return it with its list of idle connections.

        Raises:
            AnotherServerError: it leads to another server than those before, which are closed then; or
                another call has seen first that it does not lead to ``server``.
        """
        wire = self._pool.connection_class(**self._pool.connection_kwargs)
        try:
            await settled(wire.connect())  # Sentinel's connections do this by themselves only here
            await settled(wire.send_command("INFO", "server"))
            named = _RUN_ID.search(await settled(wire.read_response()))
        except redis.ResponseError as error:
            if kind_of(error) is FaultKind.NOT_NOW:
                # A busy server may be another one. A later connection can ask.
                await self.close(wire)
                raise
            named = None  # the account may not ask
        except BaseException:
            await self.close(wire)
            raise
        idle, reached = self._idle, self.server
        if named is not None and named[1] != reached:
            # First the name: a thread that sees the next list must also see the name that belongs to it.
            self.server = named[1]
            if reached:
                earlier, self._idle = self._idle, [wire]
                await self._disconnect_all(earlier)
                raise AnotherServerError
        elif server is not None and server != reached:
            await self._give_back(wire, idle)
            raise AnotherServerError
        return idle, wire

    async def name(self) -> bytes:
        """Return ``server``; open a connection if there is none.

        Raises:
            redis.RedisError: as in :meth:`ask`.
            AnotherServerError: it has just changed; call again.
        """
        idle, wire = await self._taken_or_opened(None)
        await self._give_back(wire, idle)
        return self.server

    async def close(self, *busy: Any) -> None:
        """Close idle connections, and the given ones; the next call opens a connection again.

        Other connections in use are closed after their calls.
        """
        idle, self._idle = self._idle, []
        for wire in busy:
            await self._disconnect(wire)
        await self._disconnect_all(idle)

    async def _disconnect_all(self, idle: list[Any]) -> None:
        """Close the connections of a list from which another thread may still take one: then not that one.

        A closed connection opens itself again at its next command, and nobody would ask for its server.
        """
        while (wire := _last_of(idle)) is not None:
            await self._disconnect(wire)

    async def _disconnect(self, wire: Any) -> None:
        closing = wire.disconnect()
        if self._waits:
            await closing


def _last_of(idle: list[Any]) -> Any | None:
    """Take the last connection of a list; None if there is none. Threads may share the list."""
    try:
        return idle.pop()
    except IndexError:
        return None
