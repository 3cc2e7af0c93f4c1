"""Connections over which scripts run, with less in the way than redis-py puts there.

For each command redis-py takes a connection from its pool and gives it back, which is two locks, a look at
the socket and a few metrics, and packs each word by itself: together that takes longer than Redis takes to
answer. Here a command is packed from parts that are packed already, and connections stay open between calls.
"""

import os
import re
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import redis

from history.bridge import settled
from history.redis.connection.durability import Durability
from history.redis.connection.forks import abandon

#: How many commands of a long call are on their way at a time.
UNDER_WAY = 3


#: How a server names itself; another one answers, or the same one has started again, where this has changed.
_RUN_ID = re.compile(rb"run_id:(\w+)")


class AnotherServerError(Exception):
    """A new connection leads to another server than those before; the command was not sent."""


async def answer_of(wire: Any) -> Any:
    """Return what was answered; an error as itself, for others are still to be read."""
    try:
        return await settled(wire.read_response())
    except redis.ResponseError as error:
        return error


class Wires:
    """Connections to one server, blocking or asyncio, made as the pool of a redis-py client makes its own.

    They do not count among that pool's connections, so that a small pool cannot be used up by them. Each is
    in use by one call at a time; safe to share between threads, and across a fork.

    A connection belongs to one run of one server, which is asked for its name once: ``server`` is the name of
    the last one, and empty while none was met, or where the account may not ask.
    """

    def __init__(self, pool: Any, *, waits: bool) -> None:
        self._pool = pool
        self._waits = waits
        self._idle: list[Any] = []
        self._process = os.getpid()
        self.server = b""

    async def ask(self, command: bytes) -> Any:
        """Send one packed command and return the answer as it came.

        Raises:
            redis.RedisError: what the server or the connection has to say; a lost connection was closed.
            AnotherServerError: nothing was sent yet; ask again.
        """
        wire = self._take() or await self._open()
        try:
            sending = wire.send_packed_command((command,))
            if self._waits:
                await sending
            answer = wire.read_response()
            if self._waits:
                answer = await answer
        except redis.ResponseError:
            self._idle.append(wire)
            raise
        except BaseException:
            # An answer that is still on its way must not be taken for the next command's; and where one
            # connection is lost, the others are likely to be lost too.
            await self.close(wire)
            raise
        self._idle.append(wire)
        return answer

    async def ask_durably(self, command: bytes, durability: Durability) -> tuple[Any, int]:
        """Send one packed command, and return its answer and how many replicas have what it wrote.

        Raises:
            as :meth:`ask`.
        """
        wire = self._take() or await self._open()
        try:
            await settled(wire.send_packed_command((command + durability.packed(),)))
            answers = [await answer_of(wire) for _ in range(1 + len(durability.words))]
        except BaseException:
            await self.close(wire)
            raise
        self._idle.append(wire)
        for answer in answers:
            if isinstance(answer, redis.ResponseError):
                raise answer
        return answers[0], int(answers[-1])

    async def ask_each(self, commands: Iterable[bytes]) -> AsyncGenerator[Any]:
        """Send packed commands and yield their answers, in order; the next ones are sent before an answer.

        So the server has something to do while an answer travels and is read.

        Raises:
            redis.RedisError: what the server or the connection has to say. The rest is not answered then, and
                the connection is closed.
            AnotherServerError: nothing was sent yet; ask again.
        """
        wire, under_way, done = self._take() or await self._open(), 0, False
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
                self._idle.append(wire)
            else:
                await self.close(wire)

    def _take(self) -> Any | None:
        if self._process != os.getpid():
            # A forked child must not speak on its parent's connections.
            if self._waits:
                abandon(self._idle)
            self._process, self._idle = os.getpid(), []
        try:
            return self._idle.pop()
        except IndexError:
            return None

    async def _open(self) -> Any:
        """Open a connection, and tell by an error when it leads to another server."""
        wire = self._pool.connection_class(**self._pool.connection_kwargs)
        try:
            await settled(wire.connect())  # which one of Sentinel's does by itself only here
            await settled(wire.send_command("INFO", "server"))
            named = _RUN_ID.search(await settled(wire.read_response()))
        except redis.ResponseError:
            named = None  # it may not ask, or the server is busy: what it has to say to the command counts
        except BaseException:
            await self.close(wire)
            raise
        known = self.server
        if named is not None and named[1] != known:
            self.server = named[1]
            if known:
                self._idle.append(wire)
                raise AnotherServerError
        return wire

    async def name(self) -> bytes:
        """Return ``server``, from a connection that is opened if there is none.

        Raises:
            redis.RedisError: as :meth:`ask`.
            AnotherServerError: it has just changed; ask again.
        """
        self._idle.append(self._take() or await self._open())
        return self.server

    async def close(self, *busy: Any) -> None:
        """Close what is idle, and what is named; the next call opens a connection again."""
        idle, self._idle = self._idle, []
        for wire in (*busy, *idle):
            closing = wire.disconnect()
            if self._waits:
                await closing
