"""The edge to redis-py: it sends words, returns bytes, and translates driver errors once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from typing import Any, Protocol, cast

import redis
import redis.asyncio
from redis.exceptions import NoScriptError, RedisError

from history.bridge import settled
from history.errors import ConfigurationError, NotPermittedError
from history.redis.assembly import assembled
from history.redis.connection.durability import Durability
from history.redis.connection.errors import (
    REDIS_ERRORS,
    FaultKind,
    configuration_error,
    is_elsewhere,
    is_wrong_type,
    kind_of,
    with_next_step,
)
from history.redis.connection.forks import survive_forks
from history.redis.connection.permissions import Use, refusals_of
from history.redis.connection.probe import close_client, hang_up, pool_of, stranger_at
from history.redis.connection.urls import open_client
from history.store.inspection import Refusal
from history.support.paging import pieces_of
from triggers.providers.provider import ProviderUnavailableError
from triggers.providers.redis_streams.settings import NAMES

#: How long connecting may take, and how much longer than its wait an answer may take, in seconds.
PATIENCE = 5.0

#: How many commands go out in one write, at most.
PIPELINE = 256

#: Connections beyond the ones that wait for messages: to keep receivers alive, and to send.
SPARE = 2


class SubscriptionGoneError(ProviderUnavailableError):
    """The server no longer knows the consumer group: it was flushed, or came back empty."""


class Client(Protocol):
    """The part of ``redis.Redis``, ``redis.RedisCluster`` and their asyncio twins that we use."""

    def execute_command(self, *command: Any) -> Any:
        """Run one command."""
        ...

    def pipeline(self, transaction: bool = ...) -> Any:  # noqa: FBT001  (as redis-py has it)
        """Collect commands."""
        ...


@dataclass(frozen=True, slots=True)
class StreamScript:
    """A Lua script and the name that Redis gives it."""

    name: str
    text: str
    sha: str


@cache
def script(name: str) -> StreamScript:
    """Return ``lua/<name>.lua``, with the files that it includes."""
    text = assembled("triggers.providers.redis_streams", name)
    return StreamScript(name, text, sha1(text.encode(), usedforsecurity=False).hexdigest())


class RedisLink:
    """A redis-py client, blocking or asyncio, that must not retry by itself.

    If a reply was lost, redis-py would send the command again. Then an XADD would be in the stream twice, and
    a name that the first try took would look like another consumer's. Only one case is sent again: a server
    refused the command because it does not accept writes any more. A new connection may reach another server.
    """

    def __init__(self, client: Client) -> None:
        survive_forks(client)
        self._client = client
        self.is_asyncio = isinstance(client, redis.asyncio.Redis | redis.asyncio.RedisCluster)

    @staticmethod
    def client_for(url: str, *, asyncio: bool, patience: float) -> Client:
        """Make a client that waits ``patience`` seconds for an answer and sends nothing twice.

        Raises:
            ConfigurationError: the URL is not valid, or contradicts itself.
        """
        client = open_client(
            url, setting="provider", asyncio=asyncio, connect=PATIENCE, answer=patience, options=NAMES
        )
        return cast("Client", client)

    async def call(self, doing: str, *command: Any) -> Any:
        """Run one command.

        Raises:
            ProviderUnavailableError: no answer came, or the server cannot do it now.
            ConfigurationError: the server says that it can never be done.
        """
        try:
            return await self._execute(*command)
        except REDIS_ERRORS as error:
            raise self._translated(error, doing) from error

    async def _execute(self, *command: Any) -> Any:
        try:
            return await settled(self._client.execute_command(*command))
        except REDIS_ERRORS as error:
            if not is_elsewhere(error):
                raise
            await hang_up(self._client)
        return await settled(self._client.execute_command(*command))

    async def run(self, name: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Run a script by its digest; load it if the server does not have it."""
        wanted = script(name)
        operands = (len(keys), *keys, *arguments)
        doing = f"running {name}.lua"
        try:
            return await self._execute("EVALSHA", wanted.sha, *operands)
        except NoScriptError:
            return await self.call(doing, "EVAL", wanted.text, *operands)
        except REDIS_ERRORS as error:
            raise self._translated(error, doing) from error

    async def call_many(
        self, doing: str, commands: Sequence[Sequence[Any]], *, durability: Durability | None = None
    ) -> list[Any]:
        """Run many commands in order, a few hundred in a round trip; wait for replicas with each.

        Raises:
            ProviderUnavailableError: no answer came, or too few replicas have what was written.
        """
        answers: list[Any] = []
        for some in pieces_of(commands, PIPELINE):
            if durability is None:
                answers += await self._pipeline(doing, some)
                continue
            *results, _, reached = await self._pipeline(doing, [*some, *durability.commands])
            if (lack := durability.lack(int(reached))) is not None:
                await hang_up(self._client)  # the server may have been replaced, and not know it yet
                raise ProviderUnavailableError("the Redis server", f"{doing}: {lack}")
            answers += results
        return answers

    async def _pipeline(self, doing: str, commands: Sequence[Sequence[Any]]) -> Sequence[Any]:
        try:
            answers = await self._in_one_round(commands)
            if all(isinstance(answer, RedisError) and is_elsewhere(answer) for answer in answers):
                await hang_up(self._client)
                answers = await self._in_one_round(commands)
        except REDIS_ERRORS as error:
            raise self._translated(error, doing) from error
        failed = next((answer for answer in answers if isinstance(answer, RedisError)), None)
        if failed is None:
            return answers
        if is_elsewhere(failed):
            await hang_up(self._client)
        raise self._translated(failed, doing) from failed

    async def _in_one_round(self, commands: Sequence[Sequence[Any]]) -> Sequence[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        answers: Sequence[Any] = await settled(pipeline.execute(raise_on_error=False))
        return answers

    async def check_room(self, connections: int) -> None:
        """Refuse limits below so many connections; the limits of a Cluster's nodes are not known.

        Raises:
            ConfigurationError: the pool or the server allows fewer.
        """
        pool = pool_of(self._client)
        if pool is None:
            return
        needed = connections + SPARE
        if (most := getattr(pool, "max_connections", needed)) < needed:
            raise ConfigurationError(
                "max_connections",
                f"is {most}, but {connections} workers that receive from Redis need {needed} connections",
                "leave it out of the URL or the client, or lower the triggers' concurrency",
            )
        try:
            clients = await self.call("looking how many clients it takes", "INFO", "clients")
        except NotPermittedError:
            return
        most = clients.get("maxclients", needed)
        if most < needed:
            raise ConfigurationError(
                "maxclients",
                f"of the Redis server is {most}, but {connections} workers that receive from it need "
                f"{needed} connections",
                f"CONFIG SET maxclients {2 * needed}, or lower the triggers' concurrency",
            )

    async def refusals(self, uses: Sequence[Use]) -> Sequence[Refusal]:
        """Return what the account may not do.

        Raises:
            ProviderUnavailableError: the server does not answer.
            NotPermittedError: the account may not ask.
        """
        try:
            return await refusals_of(self._client, uses)
        except REDIS_ERRORS as error:
            raise self._translated(error, "asking what its account may do") from error

    async def server(self) -> tuple[bytes, int] | None:
        """Return the run id of the server, and the number of the database; None if they are not known.

        Raises:
            ProviderUnavailableError: the server does not answer.
        """
        pool = pool_of(self._client)
        if pool is None:
            return None
        try:
            info = await self.call("asking the server for its name", "INFO", "server")
        except NotPermittedError:
            return None
        name = str(info.get("run_id", "")).encode()
        return (name, int(pool.connection_kwargs.get("db") or 0)) if name else None

    async def close(self) -> None:
        """Close the connections."""
        await close_client(self._client)

    def _translated(self, error: Exception, doing: str) -> Exception:
        if is_wrong_type(error):
            problem = f"its key is not a stream (while {doing})"
            return ConfigurationError("destination", problem, "use another key")
        if "NOGROUP" in str(error):  # as WRONGTYPE, not the first word on each server
            return SubscriptionGoneError("the subscription", doing)
        fault = kind_of(error)
        if fault is FaultKind.NEVER:
            return configuration_error(error, doing, setting="provider")
        if fault is not FaultKind.UNANSWERED:  # any other answer of a server may pass
            return ProviderUnavailableError("the Redis server", with_next_step(doing, error))
        pool = pool_of(self._client)
        refusal = None if pool is None else stranger_at(pool, error, setting="provider")
        return refusal or ProviderUnavailableError("the Redis server", doing)
