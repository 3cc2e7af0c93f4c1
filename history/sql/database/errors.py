"""Errors of SQLite and PostgreSQL, sorted by the remedy: waiting, or correcting a setting.

libpq reports a failed connection only in words. Words of the server are in the language of its
``lc_messages``. If that is not English, a wrong account counts as an unavailable database.
"""

import re
import sqlite3
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError

from history.errors import (
    ConfigurationError,
    DoubtlessError,
    HistoryUnavailableError,
    NotPermittedError,
    TransactionConflictError,
)

#: The longest text of a driver that we repeat, in characters.
LONGEST = 300


@dataclass(frozen=True, slots=True)
class _SettingFault:
    """A setting that cannot work, recognized by the start of an SQLSTATE or SQLite code, or by a pattern."""

    codes: tuple[str, ...]
    pattern: str
    problem: str
    remedy: str
    error: type[ConfigurationError] = ConfigurationError

    def explains(self, code: str, said: str) -> bool:
        return code.startswith(self.codes) or bool(self.pattern and re.search(self.pattern, said))


_POSTGRESQL: tuple[_SettingFault, ...] = (
    _SettingFault(
        ("28",),
        r"authentication failed|no password supplied|no pg_hba\.conf entry|pg_hba\.conf rejects"
        r"|role .* (?:does not exist|is not permitted to log in)",
        "PostgreSQL rejected the role or its password",
        "correct role and password in the URL: postgresql://role:password@host/database",
    ),
    _SettingFault(
        ("3D",),
        r"FATAL: +database .* (?:does not exist|is not currently accepting connections)",
        "the database does not exist",
        "create it, or name another one: postgresql://role@host/database",
    ),
    _SettingFault(
        ("42501", "3F000"),
        r"FATAL: +permission denied for database",
        "its role lacks a permission",
        "grant it CONNECT on the database, and USAGE and CREATE on its schema (search_path)",
        NotPermittedError,
    ),
    _SettingFault(
        (),
        # A lost connection is not a matter of settings: OpenSSL 3's "SSL error: unexpected eof while
        # reading".
        r"server does not support SSL|certificate|SSL error(?!: unexpected eof)|invalid sslmode|sslrootcert",
        "the TLS connection that the URL asks for failed",
        "check sslmode and the certificates",
    ),
    _SettingFault(
        (),
        r"invalid response to SSL negotiation|expected authentication request from server",
        "the server at this address is not PostgreSQL",
        "check host and port",
    ),
    _SettingFault(
        ("22P05",),
        "",
        "the encoding of its database does not have a character",
        "use a database with the encoding UTF8, or names in ASCII only",
    ),
    _SettingFault(
        (),
        r"unsupported startup parameter",
        "the pooler in between refuses a parameter of the URL (options=...)",
        "take it out of the URL, and set it for the role instead: ALTER ROLE ... SET search_path = ...",
    ),
    _SettingFault(
        (),
        # An option that libpq, then psycopg, then the server cannot use; the last is in ``options``.
        r"^invalid (?:connection option|port number|integer value|URI)|\binvalid \w+ value: "
        r"|^bad value for connect_timeout"
        r"|invalid value for parameter|outside the valid range for parameter"
        r"|FATAL: +(?:unrecognized configuration parameter|invalid command-line argument)",
        "its URL cannot be used",
        "use postgresql://role:password@host/database",
    ),
)

_SQLITE: tuple[_SettingFault, ...] = (
    _SettingFault(
        ("SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH"),
        "",
        "its file cannot be opened",
        "create its folder, and give this process permission to write there",
    ),
    _SettingFault(
        ("SQLITE_READONLY",),
        "",
        "its file cannot be written to",
        "give this process permission to write to the file and its folder",
    ),
    _SettingFault(("SQLITE_NOTADB",), "", "its file is not a SQLite database", "name another file"),
    _SettingFault(("SQLITE_CORRUPT",), "", "its file is damaged", "restore it, or name another file"),
)

#: The cause if a write to SQLite has waited in vain.
LOCKED = ": the database is locked by another process or connection"

#: The class of SQLSTATEs of serialization failures and deadlocks.
_ROLLED_BACK = "40"

#: PostgreSQL's lock_not_available: lock_timeout has passed.
_LOCK_NOT_AVAILABLE = "55P03"

#: PostgreSQL's undefined_table.
_NO_TABLE = "42P01"

#: Statements that end a transaction prevent the commit by these arithmetic errors. A division by zero means
#: that a completion was not written; the root of a negative number, that a message was not ours.
_NOT_COMPLETED, _NOT_TAKEN_OUT = "22012", "2201F"

#: How libpq repeats a server's text: its severity, in any language, and two blanks.
_REPLY = re.compile(r"failed: \S+:  ")


def translated(error: DBAPIError, doing: str) -> DoubtlessError:
    """Return our error for an error of the driver: a setting to correct, or an unavailable history."""
    origin = error.orig
    said = str(origin)
    if isinstance(origin, sqlite3.Error):
        code, faults = getattr(origin, "sqlite_errorname", None), _SQLITE
    else:
        code, faults = getattr(origin, "sqlstate", None), _POSTGRESQL
    if is_conflict(error):
        return TransactionConflictError(doing)
    fault = next((fault for fault in faults if fault.explains(code or "?", said)), None)
    if fault is None:
        cause = LOCKED if is_locked(error) else _lost_table(code, said)
        return HistoryUnavailableError(f"{doing}{cause}")
    problem = f"{fault.problem} (while {doing}): {' '.join(said.split())[:LONGEST]}"
    return fault.error("history", problem, fault.remedy)


def _lost_table(code: str | None, said: str) -> str:
    """Return the text for a lost table, which a restored dump brings back: no empty table replaces it."""
    if code != _NO_TABLE and not said.startswith("no such table"):
        return ""
    return (
        f": {said.splitlines()[0]}. Its tables were dropped, moved or renamed: restore them. To begin with "
        "empty ones, drop them all and restart the processes"
    )


def is_conflict(error: DBAPIError) -> bool:
    """Return whether a transaction was rolled back in favour of another one, and may be tried again."""
    state = getattr(error.orig, "sqlstate", None)
    return isinstance(state, str) and state.startswith(_ROLLED_BACK)


def is_locked(error: BaseException) -> bool:
    """Return whether another process or connection has locked the file of SQLite."""
    code = getattr(error.orig, "sqlite_errorname", None) if isinstance(error, DBAPIError) else None
    return str(code).startswith("SQLITE_BUSY")


def waited_in_vain(error: DBAPIError) -> bool:
    """Return whether a statement gave up waiting for a lock that another transaction held."""
    if isinstance(error.orig, sqlite3.Error):
        return str(getattr(error.orig, "sqlite_errorname", "")).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
    return getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE


def uncommitted(error: DBAPIError) -> DoubtlessError:
    """Return our error for a COMMIT that failed, or that a statement sent with it has prevented."""
    state = getattr(error.orig, "sqlstate", None)
    if state == _NOT_TAKEN_OUT:
        return TransactionConflictError("taking out messages that were given to somebody else")
    if state == _NOT_COMPLETED:
        return HistoryUnavailableError("settling what this very transaction claimed")
    return translated(error, "committing")


def is_unanswered(error: DBAPIError) -> bool:
    """Return whether a failed attempt to connect met no server; a server that refuses has answered."""
    if is_conflict(error) or _REPLY.search(str(error.orig)):
        return False
    return isinstance(translated(error, ""), HistoryUnavailableError)
