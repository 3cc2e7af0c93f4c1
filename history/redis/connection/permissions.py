"""Check what a Redis account may do, without running any command.

Redis checks an account's permission before it queues a command in a transaction. So each command is queued
with its real keys after MULTI, and then all are discarded: nothing runs. The commands of a script are found
in its text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import redis
from redis.exceptions import NoPermissionError

from history.bridge import settled
from history.redis.connection.durability import CHANNEL
from history.redis.connection.probe import pool_of
from history.redis.connection.wires import answer_of
from history.store.inspection import Refusal

#: A call in a script, under each name that scripts give it: a command, and its subcommand if it has one.
_CALL = re.compile(r"\b(?:p?call|try|write)\(\s*'([A-Z]+)'(?:,\s*'([A-Z]+)')?")

#: Commands with subcommands; the second word of all other commands is a key.
_CONTAINERS = frozenset({"XGROUP", "XINFO"})

#: The shortest form of each command; K is the key.
_WORDS: Mapping[str, str] = {
    "DEL": "K",
    "EVALSHA": f"{'0' * 40} 1 K",
    "EXISTS": "K",
    "GET": "K",
    "GETRANGE": "K 0 0",
    "HDEL": "K f",
    "HEXISTS": "K f",
    "HGET": "K f",
    "HGETALL": "K",
    "HINCRBY": "K f 1",
    "HKEYS": "K",
    "HLEN": "K",
    "HMGET": "K f",
    "HSCAN": "K 0",
    "HSET": "K f v",
    "HSETNX": "K f v",
    "MGET": "K",
    "PERSIST": "K",
    "PEXPIRE": "K 1000",
    "PEXPIREAT": "K 1000",
    "PING": "",
    "PTTL": "K",
    "PUBLISH": f"{CHANNEL} v",
    "RENAME": "K K",
    "SADD": "K m",
    "SET": "K v",
    "SSCAN": "K 0",
    "STRLEN": "K",
    "TIME": "",
    "TYPE": "K",
    "WAIT": "0 1",
    "XACK": "K g 1-1",
    "XADD": "K * f v",
    "XCLAIM": "K g c 0 1-1",
    "XGROUP CREATE": "K g $",
    "XGROUP CREATECONSUMER": "K g c",
    "XGROUP DELCONSUMER": "K g c",
    "XGROUP DESTROY": "K g",
    "XGROUP SETID": "K g $",
    "XINFO CONSUMERS": "K g",
    "XINFO GROUPS": "K",
    "XINFO STREAM": "K",
    "XLEN": "K",
    "XPENDING": "K g",
    "XRANGE": "K - +",
    "XREADGROUP": "GROUP g c STREAMS K >",
    "XREVRANGE": "K + -",
    "XTRIM": "K MAXLEN 1",
    "ZADD": "K 1 m",
    "ZCARD": "K",
    "ZRANGE": "K 0 0",
    "ZRANGEBYLEX": "K - +",
    "ZRANGEBYSCORE": "K 0 0",
    "ZREM": "K m",
    "ZREVRANGEBYLEX": "K + -",
    "ZSCAN": "K 0",
    "ZSCORE": "K m",
}

#: The words by which a refusal means a key or a channel, not the command.
_KEY = re.compile(r"access (a|one of the) (key|channel)")

#: The answer of a server without such a command.
_UNKNOWN = re.compile(r"(ERR )?[Uu]nknown (sub)?command")

#: A command that checks only the access to a key.
_ANY_USE = ("EVAL", "return 1", "1")


class Use(NamedTuple):
    """A use by an account: in words, its commands, all of them on the first key, and all its keys.

    ``patterns`` are the keys and channels that an operator would grant.
    """

    doing: str
    commands: Sequence[str]
    keys: Sequence[str]
    patterns: Sequence[str]

    def asked(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield each command or key, and the command that checks its permission."""
        for command in self.commands:
            arguments = _WORDS[command].split()
            yield command, [*command.split(), *(self.keys[0] if word == "K" else word for word in arguments)]
        for key in self.keys:
            yield key, [*_ANY_USE, key]


def commands_of(*scripts: str) -> Sequence[str]:
    """Return the commands in the texts of scripts, sorted."""
    calls = {match.groups() for script in scripts for match in _CALL.finditer(script)}
    return sorted({f"{name} {sub}" if name in _CONTAINERS else str(name) for name, sub in calls})


async def refusals_of(client: Any, uses: Sequence[Use]) -> Sequence[Refusal]:
    """Return the refusals for the account of a redis-py client, over a separate connection.

    Raises:
        redis.RedisError: the server does not answer, or the account may not use MULTI for the check.
    """
    asked = [list(use.asked()) for use in uses]
    commands = [command for some in asked for _, command in some]
    user, answers = await queued(client, uses[0].keys[0], commands)
    left, refusals = iter(answers), list[Refusal]()
    for use, some in zip(uses, asked, strict=True):
        problems = {what: next(left) for what, _ in some}
        refusals += _refusals(use, user, problems)
    return refusals


async def queued(client: Any, key: str, asked: Sequence[Sequence[str]]) -> tuple[str, Sequence[object]]:
    """Return the name of an account, and the answer to each command: QUEUED, or the error.

    Raises:
        as :func:`refusals_of`.
    """
    pool = pool_of(client)
    if pool is None:  # each node of a Cluster has its own accounts: use the node that has the key
        pool = client.get_redis_connection(client.get_node_from_key(key)).connection_pool
    wire = pool.connection_class(**pool.connection_kwargs)
    try:
        await settled(wire.connect())
        name = await _say(wire, "ACL", "WHOAMI")
        # One by one: without a transaction, all following commands would run.
        for word, wanted in (("MULTI", b"OK"), ("PING", b"QUEUED")):
            answer = await _say(wire, word)
            if answer != wanted:
                raise _no_transaction(answer)
        for command in (*asked, ("DISCARD",)):
            await settled(wire.send_command(*command))
        *answers, _ = [await answer_of(wire) for _ in range(len(asked) + 1)]
    finally:
        # Nothing was executed in any case: a transaction ends with its connection.
        await settled(wire.disconnect())
    user = name.decode() if isinstance(name, bytes) else pool.connection_kwargs.get("username")
    return user or "default", answers


async def _say(wire: Any, *command: str) -> object:
    await settled(wire.send_command(*command))
    return await answer_of(wire)


def _no_transaction(answer: object) -> redis.ResponseError:
    """Return why the check is impossible: MULTI is refused, or a proxy in between does not support it."""
    if isinstance(answer, redis.ResponseError):
        return answer
    return NoPermissionError(f"MULTI and what follows are answered with {answer!r:.60}")


def _refusals(use: Use, user: str, answers: Mapping[str, object]) -> Iterator[Refusal]:
    refused = {what: str(answer) for what, answer in answers.items() if isinstance(answer, NoPermissionError)}
    places = [what for what, text in refused.items() if _KEY.search(text)]
    # If EVAL is refused, nothing is known about the keys.
    commands = sorted({what if what in _WORDS else _ANY_USE[0] for what in refused if what not in places})
    keys = list(dict.fromkeys(_place(use, what) for what in places))
    if refused:
        named = [", ".join(commands)] * bool(commands) + [f"the keys {', '.join(keys)}"] * bool(keys)
        granted = ["+" + command.lower().replace(" ", "|") for command in commands]
        yield Refusal(
            use.doing,
            f"Redis refuses its user {user!r} {' and '.join(named)}",
            f"ACL SETUSER {user} {' '.join([*granted, *(use.patterns if keys else [])])}",
        )
    missing = sorted(what for what, answer in answers.items() if _UNKNOWN.match(str(answer)))
    if missing:
        yield Refusal(
            use.doing,
            f"Redis does not know {', '.join(missing)}",
            "use Redis 6.2 or newer, and leave these out of its rename-command",
        )


def _place(use: Use, refused: str) -> str:
    """Return the key, or the channel, at which something was refused."""
    if refused in use.keys:
        return refused
    return CHANNEL if refused == "PUBLISH" else use.keys[0]
