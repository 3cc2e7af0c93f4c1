"""The scripts of ``lua/`` on the keys of one trigger."""

import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from hashlib import sha1
from itertools import chain
from typing import Any

from redis.exceptions import NoScriptError, RedisError, ResponseError

from history.bridge import settled
from history.errors import HistoryUnavailableError
from history.redis.assembly import assembled
from history.redis.connection.client import RedisClient, keys_of
from history.redis.connection.durability import packed
from history.redis.connection.errors import REDIS_ERRORS, FaultKind, kind_of
from history.redis.connection.wires import AnotherServerError, Wires
from history.redis.spoilt import (
    FAILED,
    HistoryBrokenError,
    HistoryLayoutError,
    HistorySpoiltError,
    layout_of,
    problem_of,
)
from history.support.forks import without_forks

#: Scripts that grant fences. Before the first of them runs on a server, ``step.lua`` does.
GRANTING = frozenset(
    {
        "entries/claim",
        "entries/claim_batch",
        "entries/take_over",
        "entries/adopt",
        "turning/turn",
    }
)

#: Scripts that decide whether a message runs: with ``durability``, their writes count only when replicas have
#: them, unless they have no trigger. A lost renewal of a lease is not in this set: it is repeated anyway.
WAITED_FOR = GRANTING | {
    "entries/open_batch",
    "entries/settle",
    "entries/settle_any",
    "entries/settle_batches",
    "records/apply",
    "records/settle",
}

#: How a script says that a key is gone; see ``lua/shared/head.lua``.
_LOST = re.compile(r"\bLOST (\S+)")

#: How a script says that a packed bucket has other content.
_BROKEN = re.compile(r"\bBROKEN (\S+)")


class HistoryLostError(HistoryUnavailableError):
    """A part of the document history is missing on the server, or is moving to another server.

    Its entries must not count as absent, because then their messages would run again.
    """

    def __init__(self, doing: str, key: str) -> None:
        super().__init__(doing)
        self.key = key
        remedy = "restore it, or accept the loss (docs/how-to/run-on-redis.md, Lost keys)"
        self.args = (f"{self}: the key {key} is missing, and the entries in it with it; {remedy}",)


@dataclass(frozen=True, slots=True)
class Script:
    """One script: its text, how Redis names it, and the beginning of its call, packed once."""

    text: str
    sha: str
    call: bytes
    whole: bytes

    def packed(self, arguments: Sequence[bytes]) -> bytes:
        """Return the call with its arguments in the form that the server reads."""
        return b"*%d\r\n%b%b" % (4 + len(arguments), self.call, packed(arguments))

    def packed_whole(self, arguments: Sequence[bytes]) -> bytes:
        """Return the call that contains the script's text."""
        return b"*%d\r\n%b%b" % (4 + len(arguments), self.whole, packed(arguments))


class Scripts:
    """Runs scripts on the history of one trigger; every script may be sent twice.

    On a Cluster they also declare a key that never exists. A script touches more keys than it can declare,
    and while their slot moves to another node, each of the two nodes has only some of them. A node that lacks
    one of several declared keys then answers TRYAGAIN, instead of running the script on half of the data.
    """

    def __init__(
        self, client: RedisClient, trigger: str, note_loaded: Callable[[str, bytes], None] | None = None
    ) -> None:
        self._client = client
        #: Receives the name of a server and what it had loaded, before it grants the first fence.
        self._note_loaded = note_loaded
        self._waited_for = frozenset[str]() if client.durability is None or not trigger else WAITED_FOR
        self._key, self._never = keys_of(trigger, "history", "history:never")
        self._scripts: dict[str, Script] = {}
        #: The server (for a cluster, the number of doubts) that has stepped over fences before it granted.
        self._stepped_on: bytes | int | None = None

    async def run(self, name: str, arguments: Sequence[bytes]) -> Any:
        """Run a script by its digest; send the whole text if Redis does not have it.

        Raises:
            HistoryUnavailableError: the server is unavailable, or cannot do it at present.
            HistoryLostError: it has lost a part of the history.
            ConfigurationError: with its settings it never will.
        """
        if self._client.circuit.is_open:
            self._client.circuit.refuse(_running(name))
        script = self._scripts.get(name) or self._bind(name)
        wires = self._client.wires
        try:
            if wires is None:
                return await self._ask_cluster(name, "EVALSHA", script.sha, arguments)
            if wires.server != self._stepped_on and name in GRANTING:
                await self._step(wires)
            if not self._waited_for:  # as _ask() does, with one coroutine less for every message
                server = self._stepped_on if name in GRANTING else None
                return await wires.ask(script.packed(arguments), server)
            return await self._ask(wires, name, script.packed(arguments))
        except AnotherServerError:
            return await self.run(name, arguments)
        except REDIS_ERRORS as error:
            return await self._run_again(name, arguments, error)

    async def _run_again(self, name: str, arguments: Sequence[bytes], error: Exception) -> Any:
        """Send the whole script if that may help; else raise the meaning of its error."""
        self._client.doubts += 1
        doing = _running(name)
        try:
            if isinstance(error, NoScriptError):
                return await self._client.call(doing, lambda: self._ask_whole(name, arguments))
            return await self._client.call_again(doing, lambda: self._ask_whole(name, arguments), error)
        except REDIS_ERRORS as again:
            await self._refuse_spoilt(doing, again)
            if lost := _LOST.search(str(again)):
                raise HistoryLostError(doing, lost[1]) from again
            if broken := _BROKEN.search(str(again)):
                raise HistoryBrokenError(doing, broken[1]) from again
            raise

    async def _refuse_spoilt(self, doing: str, error: Exception) -> None:
        """Raise if a script failed because other programs overwrote the field that it reads first."""
        if not isinstance(error, ResponseError) or not FAILED.search(str(error)):
            return
        client: Any = self._client.client
        meta: object = await self._client.call(doing, lambda: settled(client.hget(self._key, "meta")))
        if isinstance(meta, bytes) and (layout := layout_of(meta)) is not None:
            raise HistoryLayoutError(doing, self._key, layout) from error
        if isinstance(meta, bytes) and (problem := problem_of(meta)):
            raise HistorySpoiltError(doing, self._key, problem) from error

    async def _ask_whole(self, name: str, arguments: Sequence[bytes]) -> Any:
        script, wires = self._scripts[name], self._client.wires
        if wires is None:
            return await self._ask_cluster(name, "EVAL", script.text, arguments)
        while True:
            try:
                if wires.server != self._stepped_on and name in GRANTING:
                    await self._step(wires)
                return await self._ask(wires, name, script.packed_whole(arguments))
            except AnotherServerError:
                continue

    async def _ask(self, wires: Wires, name: str, command: bytes) -> Any:
        """Send a script, and wait for replicas if its writes need them.

        A server whose replicas are gone may have been replaced, and not know it yet. So after a failure, new
        connections look for the server again.

        Raises:
            NotDurableError: they do not have it in time.
        """
        durability = self._client.durability
        server = self._stepped_on if name in GRANTING else None
        if durability is None or name not in self._waited_for:
            return await wires.ask(command, server)
        answer, reached = await wires.ask_durably(command, durability, server)
        if durability.lack(reached) is not None:
            await self._client.hang_up()
        durability.check(reached, _running(name))
        return answer

    async def _step(self, wires: Wires) -> None:
        """Step over the fences that may have been granted before this server had its present data."""
        server = await wires.name()
        if server:
            script = self._scripts.get("entries/step") or self._bind("entries/step")
            self._note(server.decode(), await wires.ask(script.packed_whole([server]), server))
        self._stepped_on = server

    def _note(self, server: str, loaded: object) -> None:
        if self._note_loaded is not None and isinstance(loaded, bytes):
            self._note_loaded(server, loaded)

    async def _ask_cluster(self, name: str, verb: str, script: str, arguments: Sequence[bytes]) -> Any:
        doubts = self._client.doubts
        if doubts != self._stepped_on and name in GRANTING:
            server = await self._name_of_node()
            if server:
                self._note(server, await self._execute("EVAL", text_of("entries/step"), [server]))
            self._stepped_on = doubts
        return await self._execute(verb, script, arguments)

    async def run_each(self, name: str, calls: Iterable[Sequence[bytes]]) -> AsyncGenerator[Any]:
        """Run a script many times and yield the answers in order; calls are sent before earlier answers.

        Raises:
            as :meth:`run`, instead of the answer to the failed call.
        """
        wires, left, sent = self._client.wires, iter(calls), deque[Sequence[bytes]]()
        script = self._scripts.get(name) or self._bind(name)

        def commands() -> Iterator[bytes]:
            for arguments in left:
                sent.append(arguments)
                yield script.packed(arguments)

        server = self._stepped_on
        ready = name not in self._waited_for and wires is not None and wires.server == server
        if ready and wires is not None and not self._client.circuit.is_open:
            with suppress(RedisError, AnotherServerError):
                async with aclosing(wires.ask_each(commands(), server)) as answers:
                    async for answer in answers:
                        sent.popleft()
                        yield answer
        # Something went wrong: run() handles it, and a call that was sent may be sent again.
        for arguments in chain(sent, left):
            yield await self.run(name, arguments)

    async def _name_of_node(self) -> str:
        """Return the run id of the node that has the keys; "" if the account may not read it."""
        client = self._client.client
        if self._client.is_asyncio:
            await client.initialize()
        node = client.get_node_from_key(self._key)
        try:
            info = await settled(client.execute_command("INFO", "server", target_nodes=node))
        except ResponseError as error:
            if kind_of(error) is FaultKind.NOT_NOW:
                raise  # the node is busy: it must not grant a fence before it has stepped
            return ""
        return str(info.get("run_id") or next(iter(info.values()))["run_id"])

    async def _execute(self, verb: str, script: str, arguments: Sequence[bytes | str]) -> Any:
        """Let redis-py pack the command and find its node of a cluster."""
        keys = (2, self._key, self._never)
        return await settled(self._client.client.execute_command(verb, script, *keys, *arguments))

    def _bind(self, name: str) -> Script:
        with without_forks():  # reading a file of a package imports modules
            text = text_of(name)
        sha = sha1(text.encode(), usedforsecurity=False).hexdigest()
        call, whole = (
            packed(word.encode() for word in (verb, script, "1", self._key))
            for verb, script in (("EVALSHA", sha), ("EVAL", text))
        )
        self._scripts[name] = Script(text, sha, call, whole)
        return self._scripts[name]


def text_of(name: str) -> str:
    """Return a script of the history, with the files that it includes."""
    return assembled("history.redis", name)


class ScriptsOfTriggers(dict[str, Scripts]):
    """The scripts of each trigger, made at their first use."""

    def __init__(self, client: RedisClient) -> None:
        super().__init__()
        self._client = client

    def __missing__(self, trigger: str) -> Scripts:
        scripts = self[trigger] = Scripts(self._client, trigger)
        return scripts


def _running(name: str) -> str:
    """Return the present action, for an error."""
    return f"running {name}.lua"
