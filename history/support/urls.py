"""URLs in errors: only scheme and host are quoted, because the rest may be a password.

A password with an unescaped ``/``, ``#``, ``?`` or ``@`` moves the border between account, host, path and
options. Then a part of it is read as a port, a database or the name of an option.
"""

import re
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from history.errors import ConfigurationError, MissingExtraError

#: The advice for a password that is misread as another part of the URL.
ESCAPES = "in its user and password write / as %2F, # as %23, ? as %3F and @ as %40"

#: The schemes, up to a plus sign, of URLs that hold an account, and no other unescaped @.
_ACCOUNTED = frozenset(
    {"redis", "rediss", "unix", "postgresql", "postgres", "rabbitmq", "rabbitmqs", "amqp", "amqps"}
)

#: A shorter piece of a password may occur in any text.
_SHORTEST = 3


def split_url(url: str) -> SplitResult:
    """Split a URL as ``urlsplit`` does; it may also have several hosts, some with IPv6 addresses.

    Python 3.14 refuses these, because only a single host may be in brackets.
    """
    scheme, mark, rest = url.partition("://")
    hosts = re.split("[/?#]", rest, maxsplit=1)[0]
    if not mark or "," not in hosts:
        return urlsplit(url)
    return urlsplit(f"{scheme}://{rest.removeprefix(hosts)}")._replace(netloc=hosts)


def is_of_one_process(url: str) -> bool:
    """Return whether a store is in the memory of a process: ``memory://``, or a SQLite URL without a file."""
    parts = split_url(url)
    scheme, options = parts.scheme.partition("+")[0], dict(parse_qsl(parts.query))
    if scheme != "sqlite" or parts.netloc:  # SQLite has no host, and refuses one
        return scheme == "memory"
    file = parts.path.removeprefix("/").removeprefix("file:")
    return file in {"", ":memory:"} or options.get("mode") == "memory" or options.get("vfs") == "memdb"


def split_option(url: str, name: str) -> tuple[str, str | None]:
    """Return a URL without one of its options, which the driver does not know, and the option's value."""
    parts = split_url(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    rest = [pair for pair in query if pair[0] != name]
    if len(rest) == len(query):
        return url, None
    return urlunsplit(parts._replace(query=urlencode(rest))), dict(query)[name]


@contextmanager
def guarded(url: str, setting: str) -> Generator[None]:
    """Keep every part of a password out of the errors of code that reads ``url``.

    Raises:
        ConfigurationError: the URL is refused; without the reader's own text and cause if these may hold a
            part of a password.
    """
    displaced = _is_displaced(url)
    if displaced and _scheme(url) in _ACCOUNTED:
        raise _unreadable(url, setting, displaced=True)
    try:
        yield
    except MissingExtraError:
        raise
    except ConfigurationError as error:
        if not displaced and not _is_quoted(url, error):
            raise
        # Without its cause, because a traceback shows the cause as well.
        raise _unreadable(url, setting, displaced=displaced) from None
    except Exception as error:
        if not displaced and not _is_quoted(url, error) and "@" not in url:
            if type(error) is ValueError:  # of urlsplit
                problem = f"its URL, {origin(url)}, cannot be read: {error}"
                raise ConfigurationError(setting, problem, "correct it") from error
            raise
        raise _unreadable(url, setting, displaced=displaced) from None


def origin(url: str) -> str:
    """Return the part of a URL that may be quoted: its scheme and host."""
    try:
        host = "" if _is_displaced(url) else split_url(url).netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    return f"{_scheme_as_written(url)}://{host}"


def refuse_unknown(names: Collection[str], allowed: Collection[str], setting: str) -> None:
    """Refuse the first unknown option of a URL: if it were ignored, the program would run without it.

    Raises:
        ConfigurationError: an option is unknown; the text names the most similar ones.
    """
    for name in names:
        if name in allowed:
            continue
        if near := get_close_matches(name, allowed):
            remedy = f"did you mean {' or '.join(near)}?"
        elif allowed:
            remedy = f"use {', '.join(sorted(allowed))}, or leave it out"
        else:
            remedy = "leave it out: such a URL has no options"
        raise ConfigurationError(setting, f"its URL has an unknown option {name!r}", remedy)


def number_in(
    options: Mapping[str, object], name: str, convert: type[float], default: float, *, least: int
) -> float:
    """Return the number in an option of a URL.

    Raises:
        ConfigurationError: it is not a number, is too small, or has no end.
    """
    value = options.get(name)
    if value is None:
        return default
    with suppress(ValueError):
        number = convert(str(value))
        if least <= number < float("inf"):
            return number
    raise ConfigurationError(name, f"{value!r} in the URL cannot be used", f"give a number, {least} or more")


def is_number_in(text: str, allowed: range) -> bool:
    """Whether a text is a whole number of a range. Python refuses to read one of thousands of digits."""
    return text.isdecimal() and len(text) <= len(str(allowed[-1])) and int(text) in allowed


def _unreadable(url: str, setting: str, *, displaced: bool) -> ConfigurationError:
    problem = f"its URL, {origin(url)}, cannot be used" if not displaced else "its URL cannot be read"
    return ConfigurationError(setting, problem, ESCAPES)


def _scheme(url: str) -> str:
    return _scheme_as_written(url).partition("+")[0].lower()


def _scheme_as_written(url: str) -> str:
    return url.partition(":")[0]


def _is_displaced(url: str) -> bool:
    """Whether an @ comes after the host, or the address cannot be read."""
    head, mark, rest = url.partition("://")
    if "@" not in rest or not mark:
        return "@" in url.removeprefix(f"{head}://") and not mark and _scheme(url) in _ACCOUNTED
    try:
        parts = split_url(url)
    except ValueError:
        return True
    if _scheme(url).startswith("postgres") and parts.netloc.count("@") > 1:
        return True
    return "@" in parts.path + parts.fragment or ("@" in parts.query and "@" not in parts.netloc)


def _is_quoted(url: str, error: Exception) -> bool:
    """Whether the text of an error, or of its cause, holds the password of a URL."""
    account = url.partition("://")[2].rpartition("@")[0]
    password = account.partition(":")[2]
    texts = f"{error} {error.__cause__} {error.__context__}"
    pieces = {password, unquote(password)}
    return any(len(piece) >= _SHORTEST and piece in texts for piece in pieces)
