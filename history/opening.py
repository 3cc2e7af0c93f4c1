"""From a URL to a document history."""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from history.errors import ConfigurationError
from history.support.encryption import SETTING, Cipher, cipher_of
from history.support.forks import without_forks
from history.support.references import dereferenced, is_reference
from history.support.tls import warn_of_open_line
from history.support.urls import guarded, refuse_unknown, split_option, split_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from history.beside.kept import KeepsBeside

#: The URLs that :func:`open_history` understands, for its errors and for ``--help``.
HISTORY_URLS = (
    "redis://host:6379/0, rediss://..., redis+sentinel://a,b,c/service/0, redis+cluster://a,b,c, "
    "sqlite:///file.db, postgresql://user@host/database or memory://"
)


def open_history(url: str) -> "KeepsBeside":
    """Open the document history at ``url``: redis(s)://, sqlite:///, postgresql:// or memory://.

    The URL may also be ``env:NAME`` or ``file:/path``, see :mod:`history.support.references`. Nothing is
    connected before the first use. The store is blocking; ``for_asyncio()`` returns its asyncio twin. In one
    process, all callers that open ``memory://`` share one store, and so do all that open ``memory://name``.

    With ``?encrypt=file:/run/secrets/key`` or ``?encrypt=env:NAME`` in the URL, Redis, SQLite and PostgreSQL
    encrypt parked messages, kept results and messages that wait in joins (extra ``encryption``).

    Raises:
        ConfigurationError: the scheme is unknown, or (MissingExtraError) its driver is not installed.
    """
    url = dereferenced(url, "history")
    with guarded(url, "history"), without_forks():
        store = _opener_of(url, "history")(url)
        warn_of_open_line(url, "history")
        return store


def refuse_unknown_scheme(setting: str, url: str) -> None:
    """Refuse the URL of a history by its scheme alone. Nothing is read or opened.

    Raises:
        ConfigurationError: no history has such a URL.
    """
    if is_reference(url):
        return
    with guarded(url, setting):
        _opener_of(url, setting)


def _opener_of(url: str, setting: str) -> "Callable[[str], KeepsBeside]":
    scheme = split_url(url).scheme.partition("+")[0]
    if scheme not in _OPENERS:
        raise ConfigurationError(setting, f"unknown URL scheme {scheme!r}", f"use {HISTORY_URLS}")
    return _OPENERS[scheme]


def _open_redis(url: str) -> "KeepsBeside":
    from history.redis.history import RedisHistory  # noqa: PLC0415  (a driver loads only when needed)

    return RedisHistory.from_url(url)


def _open_sql(url: str) -> "KeepsBeside":
    from history.sql.history import SqlHistory  # noqa: PLC0415  (as above)

    return SqlHistory.from_url(url)


def _open_memory(url: str) -> "KeepsBeside":
    from history.memory.history import shared_history  # noqa: PLC0415  (as above)

    name, _, query = url.partition("://")[2].partition("?")
    refuse_unknown([option for option, _ in parse_qsl(query, keep_blank_values=True)], (), "history")
    return shared_history(name)


_OPENERS = {
    **dict.fromkeys(("redis", "rediss", "unix"), _open_redis),
    **dict.fromkeys(("sqlite", "postgresql", "postgres"), _open_sql),
    "memory": _open_memory,
}


def cipher_of_url(url: str | None) -> Cipher | None:
    """Return the cipher of the history at a URL; None without encryption, or without a URL.

    Raises:
        ConfigurationError: the key cannot be read.
    """
    if not url:
        return None
    return cipher_of(split_option(dereferenced(url, "history"), SETTING)[1])


def open_local_parking(file: Path, cipher: Cipher | None) -> "KeepsBeside":
    """Open a local parking file, encrypted in the same way as the history."""
    from history.sql.history import SqlHistory  # noqa: PLC0415  (as above)

    return SqlHistory.from_url(f"sqlite:///{file}", encrypt=cipher)


def local_parking_file() -> Path:
    """Return the file that keeps messages when no server can: it is in this user's state directory."""
    from platformdirs import user_state_path  # noqa: PLC0415  (few processes need this file)

    return user_state_path("doubtless") / "parked.sqlite3"
