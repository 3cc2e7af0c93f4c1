"""Errors of redis-py, sorted by the remedy. Histories and providers share this one table.

=============  ===========================================================================
UNANSWERED     nothing came back: refused, cut, timed out, host unknown
NOT_NOW        an answer: the server cannot do it at present (LOADING, READONLY, OOM, ...)
NEVER          a setting is wrong: account, permission, database, or the server is not Redis
OTHER          anything else, such as a script that is wrong
=============  ===========================================================================
"""

import re
from dataclasses import dataclass
from enum import Enum, auto

import redis
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ClusterError,
    InvalidResponse,
    MovedError,
    NoPermissionError,
    RedisClusterException,
)

from history.errors import ConfigurationError, NotPermittedError
from history.support.tls import stays_wrong


class FaultKind(Enum):
    """The remedy for an error."""

    UNANSWERED = auto()
    NOT_NOW = auto()
    NEVER = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class _Fault:
    """A setting that cannot work: its errors, by class or by words, and its remedy."""

    classes: tuple[type[Exception], ...]
    words: str
    problem: str
    remedy: str
    kind: type[ConfigurationError] = ConfigurationError

    def explains(self, error: Exception) -> bool:
        return isinstance(error, self.classes) or bool(self.words and re.search(self.words, str(error)))


#: In this order: the first match counts. ``{said}`` is replaced by the server's text.
_FAULTS = (
    _Fault(
        (NoPermissionError,),
        # For scripts, older servers write NOPERM later in the text, newer ones not at all.
        r"\bNOPERM\b|^(?:ERR )?The user executing the script can't|^ACL failure in script",
        "its Redis account lacks a permission: {said}",
        "put a user with this permission into the URL (docs/how-to/run-on-redis.md, Permissions)",
        NotPermittedError,
    ),
    _Fault(
        (),
        # Another Sentinel that is away may take them: then it is no mistake.
        r"^No master found for (?!.* - (?:\w+:)?(?:Connection|Timeout)Error\b)"
        r".* - (?:\w+:)?AuthenticationError\b",
        "the Sentinels rejected the user or the password: {said}",
        "put sentinel_username and sentinel_password into the URL",
    ),
    _Fault(
        (),
        r"\bNOAUTH\b|^HELLO must be called with|^Authentication required",
        "Redis asks for a password",
        "put user and password into the URL: redis://user:password@host:6379/0",
    ),
    _Fault(
        (AuthenticationError, AuthorizationError),
        r"\bWRONGPASS\b",
        "Redis rejected the user or the password: {said}",
        "put user and password into the URL: redis://user:password@host:6379/0",
    ),
    _Fault(
        (),
        r"DB index is out of range|invalid DB index",
        "the server has no database with the number at the end of the URL",
        "use a smaller one, such as redis://host:6379/0, or raise the server's setting `databases`",
    ),
    _Fault(
        (MovedError,),
        r"SELECT is not allowed in cluster mode",
        "this server is a node of a Redis Cluster",
        "write redis+cluster:// in the URL, instead of redis://",
    ),
    _Fault(
        (),
        r"^Client names cannot contain",
        "Redis refuses the client_name in the URL: {said}",
        "use letters, digits and hyphens",
    ),
    _Fault(
        (),
        r"^Protocol error: invalid bulk length",
        "the server takes no value as large as this one",
        "raise its setting `proto-max-bulk-len`, or send less in one message",
    ),
    _Fault(
        (InvalidResponse,),
        r"^Protocol error",
        "the server at this address is not Redis, or expects TLS ({said})",
        "check host and port; for TLS use rediss://",
    ),
)

_TLS = _Fault(
    (),
    "",
    "the TLS connection failed: {said}",
    "use redis:// for a server without TLS, or check the certificates",
)

#: The errors that redis-py raises. If no node of a Cluster answers, the error is not a RedisError.
REDIS_ERRORS = (redis.RedisError, RedisClusterException)

_REPLICA = "this is a replica{}: if it stays so, check that the address leads to the primary"
_SLOT_MOVES = "wait until the slot has moved to another node"

#: Errors that may pass, by class in redis-py and text: some have no class, or lose it in a script.
#: The first match counts: the next step, and whether another server may have replaced this one. After a
#: failover behind one name or address, an open connection still leads to the old server. It is a replica now,
#: cut off, starting, or has a disk that is full or broken (MISCONF).
_PASSING: dict[str, tuple[str | None, bool]] = {
    r"\bOOM\b|^OutOfMemoryError": ("raise its setting maxmemory, or delete data that nobody needs", False),
    r"\b(?:BUSY|UNKILLABLE)\b": (
        "wait until the script of another program ends, or end it with SCRIPT KILL",
        False,
    ),
    r"\bMISCONF\b": ("make room on its disk; its log has the reason", True),
    r"\bREADONLY\b|^ReadOnlyError|^\w+: The previous master is now a slave": (_REPLICA.format(""), True),
    r"\bMASTERDOWN\b|^MasterDownError": (_REPLICA.format(" without its primary"), True),
    r"\bNOREPLICAS\b": ("start its replicas, or lower its setting min-replicas-to-write", True),
    r"\bLOADING\b|^BusyLoadingError": ("wait until it has loaded its data", True),
    r"\bCLUSTERDOWN\b|^ClusterDownError": (
        "start the missing nodes; redis-cli --cluster check names them",
        True,
    ),
    r"\bTRYAGAIN\b|^TryAgainError": (_SLOT_MOVES, True),
    r"\bTTL exhausted\b": (_SLOT_MOVES, False),
    r"max number of clients reached": ("raise its setting maxclients, or close connections of others", False),
    r"\bUNBLOCKED\b": (None, True),
    r"^\w+: (?:Too many connections|No connection available)": (None, False),
}


def with_next_step(doing: str, error: Exception) -> str:
    """Return the action that failed, the server's text, and what to do about it, if that is clear."""
    step, _ = _passing(error) or (None, False)
    return f"{doing} ({error})" if step is None else f"{doing} ({error}): {step}"


def kind_of(error: Exception) -> FaultKind:
    """Return the remedy for an error of redis-py."""
    if _fault_of(error) is not None:
        return FaultKind.NEVER
    if _passing(error) is not None or isinstance(error, ClusterError | RedisClusterException):
        return FaultKind.NOT_NOW
    if isinstance(error, redis.ConnectionError | redis.TimeoutError):
        return FaultKind.UNANSWERED
    return FaultKind.OTHER


def is_wrong_type(error: Exception) -> bool:
    """Whether a key has another type than ours. From a script, the word is not the first on each server."""
    return "WRONGTYPE" in str(error)


def is_elsewhere(error: Exception) -> bool:
    """Whether a new connection may find a server that can do it. This server did nothing."""
    _, elsewhere = _passing(error) or (None, False)
    return elsewhere and _fault_of(error) is None


def configuration_error(error: Exception, doing: str, *, setting: str) -> ConfigurationError:
    """Return the error to raise for a ``FaultKind.NEVER``: its setting, problem and remedy."""
    fault = _fault_of(error)
    assert fault is not None  # noqa: S101  (the caller has sorted it)
    return fault.kind(setting, f"{fault.problem.format(said=error)} (while {doing})", fault.remedy)


def _fault_of(error: Exception) -> _Fault | None:
    if isinstance(error, redis.ConnectionError) and stays_wrong(error.__context__):
        return _TLS
    return next((fault for fault in _FAULTS if fault.explains(error)), None)


def _passing(error: Exception) -> tuple[str | None, bool] | None:
    text = f"{type(error).__name__}: {error}"
    return next((passing for words, passing in _PASSING.items() if re.search(words, text)), None)
