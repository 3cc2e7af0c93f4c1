"""The scripts of ``history/lua`` on the keys of one trigger."""

import re
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib.resources import files
from itertools import chain
from typing import Any

from redis.exceptions import NoScriptError, RedisError

from history.bridge import settled
from history.redis_client import RedisClient, keys_of
from history.redis_wires import packed

_INCLUDE = re.compile(r"^ *--include (\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One script: its text, how Redis names it, and the beginning of its call, packed once."""

    text: str
    sha: str
    call: bytes

    def packed(self, words: Sequence[bytes]) -> bytes:
        """Return the call with its words as the server reads it."""
        return b"*%d\r\n%b%b" % (4 + len(words), self.call, packed(words))


class Scripts:
    """Runs scripts on the history of one trigger; every script may be sent twice."""

    def __init__(self, client: RedisClient, trigger: str) -> None:
        self._client = client
        (self._key,) = keys_of(trigger, "history")
        self._scripts: dict[str, Script] = {}

    async def run(self, name: str, words: Sequence[bytes]) -> Any:
        """Run a script by its digest; send it whole where Redis lacks it.

        Raises:
            HistoryUnavailableError: the server is away, or cannot do it at present.
            ConfigurationError: it never will, as it is set.
        """
        if self._client.circuit.is_open:
            self._client.circuit.refuse(name)
        script = self._scripts.get(name) or self._bind(name)
        wires = self._client.wires
        try:
            if wires is None:
                return await self._execute("EVALSHA", script.sha, words)
            return await wires.ask(script.packed(words))
        except NoScriptError:
            return await self._client.call(name, lambda: self._execute("EVAL", script.text, words))
        except RedisError as error:
            return await self._client.call_again(
                name, lambda: self._execute("EVAL", script.text, words), error
            )

    async def run_each(self, name: str, calls: Iterable[Sequence[bytes]]) -> AsyncGenerator[Any]:
        """Run a script many times and yield the answers in order; the next calls travel before an answer.

        Raises:
            as :meth:`run`, in the place of the answer to the call that failed.
        """
        wires, left, sent = self._client.wires, iter(calls), deque[Sequence[bytes]]()
        script = self._scripts.get(name) or self._bind(name)

        def commands() -> Iterator[bytes]:
            for words in left:
                sent.append(words)
                yield script.packed(words)

        if wires is not None and not self._client.circuit.is_open:
            with suppress(RedisError):
                async with aclosing(wires.ask_each(commands())) as answers:
                    async for answer in answers:
                        sent.popleft()
                        yield answer
        # Something went wrong, of which run() knows what to make; what was sent may be sent again.
        for words in chain(sent, left):
            yield await self.run(name, words)

    async def _execute(self, verb: str, script: str, words: Sequence[bytes]) -> Any:
        """Let redis-py pack the command, and find the node of a cluster that it is for."""
        return await settled(self._client.client.execute_command(verb, script, 1, self._key, *words))

    def _bind(self, name: str) -> Script:
        text = text_of(name)
        sha = sha1(text.encode(), usedforsecurity=False).hexdigest()
        call = packed(word.encode() for word in ("EVALSHA", sha, "1", self._key))
        self._scripts[name] = Script(text, sha, call)
        return self._scripts[name]


@cache
def text_of(name: str) -> str:
    """Return a script, or a part of one, with the files that it includes."""
    text = (files("history") / "lua" / f"{name}.lua").read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda found: text_of(found[1]), text)
