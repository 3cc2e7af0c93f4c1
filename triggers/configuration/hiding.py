"""URLs for people to see: three stars replace everything that may be secret."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from history.support.urls import origin, split_url
from triggers.configuration.durations import written

_STARS: Final = "***"

#: The keys that hold URLs; ``sinks`` also holds several.
_URLS: Final = frozenset({"provider", "history", "parking", "journal"})

#: Options of a URL that name things; the value of any other is hidden, unless it is a plain number or switch.
_NAMES: Final = frozenset({"stream", "table", "durability", "sslmode", "application_name", "group"})
_PLAIN: Final = re.compile(r"\d{1,8}(\.\d+)?|true|false|on|off|yes|no")
_SECRET: Final = re.compile("pass|pwd|pin|token|key|secret|code", re.IGNORECASE)


def hidden(url: str) -> str:
    """Return a URL without its account, and without other parts that may be secret.

    ``env:NAME`` and ``file:/path`` are shown: they say where the secret is, and are not secret.
    """
    if _is_reference(url):
        return url
    shown = origin(url)
    scheme, _, host = shown.partition("://")
    try:
        parts = split_url(url)
    except ValueError:
        return f"{scheme}://{_STARS}"
    if not parts.netloc and "@" not in url and scheme not in {"http", "https"}:
        return f"{url.partition('?')[0]}{_query(parts.query)}"  # log:, dead-letter:NAME, sqlite:///file
    if not host or scheme in {"http", "https"}:  # the whole path of a webhook is often its password
        return f"{shown}/{_STARS}" if host else f"{scheme}://{_STARS}"
    account = f"{_STARS}@" if "@" in parts.netloc else ""
    return f"{scheme}://{account}{host}{parts.path}{_query(parts.query)}"


def shown(key: str, value: Any) -> Any:
    """Return the value of a key in a form that may be shown."""
    match value:
        case str() if key in _URLS or "://" in value:
            return hidden(value)
        case tuple():
            return [hidden(str(url)) for url in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case timedelta():
            return written(value)
        case Path():
            return str(value)
        case str() | int() | float() | None:
            return value
        case _:
            return f"<{type(value).__name__}>"  # a store or a lot that the code made


def _query(query: str) -> str:
    options = "&".join(f"{name}={_option(name, value)}" for name, value in parse_qsl(query))
    return f"?{options}" if options else ""


def _option(name: str, value: str) -> str:
    is_plain = _PLAIN.fullmatch(value) is not None and _SECRET.search(name) is None
    return value if is_plain or name in _NAMES or _is_reference(value) else _STARS


def _is_reference(text: str) -> bool:
    return text.startswith(("env:", "file:")) and "@" not in text
