"""URLs that say where a secret is, instead of holding it: ``env:NAME`` and ``file:/path``.

A whole URL may be such a reference, and so may the options ``username`` and ``password`` of any URL, and
``sentinel_username`` and ``sentinel_password`` of Redis' URLs::

    env:DOUBTLESS_HISTORY
    redis://127.0.0.1:6379/0?username=orders&password=file:/run/secrets/redis

They are read when a connection is opened: logs, screens and executors get only the reference.
"""

import os
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlunsplit

from history.errors import ConfigurationError
from history.support.private_files import refuse_open_secret
from history.support.urls import guarded, split_url

_CREDENTIALS = ("username", "password")

#: Options that keep their place.
_OPTIONS = ("sentinel_username", "sentinel_password")


def dereferenced(url: str, setting: str) -> str:
    """Return a URL with the referenced text; a URL without a reference stays the same.

    Raises:
        ConfigurationError: it is not a text, or the variable or file is missing or empty.
    """
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance]  (a user's)
        problem = f"a {type(url).__qualname__} is not a URL"  # not its text, which may hold a password
        raise ConfigurationError(setting, problem, "give a text such as 'redis://127.0.0.1:6379/0'")
    if is_reference(url):
        url = read_secret(url, setting)
    with guarded(url, setting):
        parts = split_url(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    secrets = {
        name: read_secret(value, setting)
        for name, value in query
        if name in (*_CREDENTIALS, *_OPTIONS) and is_reference(value)
    }
    if not secrets:
        return url
    account = {name: secret for name, secret in secrets.items() if name in _CREDENTIALS}
    rest = [(name, secrets.get(name, value)) for name, value in query if name not in account]
    address = _with_credentials(parts.netloc, account) if account else parts.netloc
    return urlunsplit(parts._replace(netloc=address, query=urlencode(rest)))


def is_reference(text: str) -> bool:
    """Whether a text is a reference to a secret."""
    # SQLite's URLs begin with sqlite:, and no provider's with file: or env:.
    return text.startswith(("env:", "file:"))


def secret_file(reference: str) -> Path | None:
    """Return the file that a reference names; None for a variable."""
    scheme, _, name = reference.partition(":")
    return Path(name.removeprefix("//")) if scheme == "file" else None


def read_secret(reference: str, setting: str) -> str:
    """Return the text that a reference names, without blanks around it.

    Raises:
        ConfigurationError: the variable or file is missing or empty, or all users may read the file.
    """
    scheme, _, name = reference.partition(":")
    if "@" in name and (scheme == "env" or (name.startswith("//") and not name.startswith("///"))):
        # A URL with an account: nothing of it may be quoted.
        raise ConfigurationError(
            setting,
            f"{scheme}: must be followed by a name, not by an account",
            "write env:NAME or file:/path",
        )
    path = secret_file(reference)
    if path is None:
        value, remedy = os.environ.get(name, ""), f"set the environment variable {name}"
    else:
        remedy = f"write the value into the file {path}, readable by this user"
        try:
            refuse_open_secret(path, setting)
            value = path.read_text(encoding="utf-8-sig").strip()  # without Windows' byte order mark
        except UnicodeDecodeError:  # without the error's text, which quotes the secret
            problem = f"{reference} cannot be read: it is not UTF-8"
            raise ConfigurationError(setting, problem, remedy) from None
        except OSError as error:
            raise ConfigurationError(
                setting, f"{reference} cannot be read: {error.strerror}", remedy
            ) from error
    if not value:
        raise ConfigurationError(setting, f"{reference} is empty or not set", remedy)
    return value


def _with_credentials(address: str, secrets: dict[str, str]) -> str:
    account, _, hosts = address.rpartition("@")
    name, _, password = account.partition(":")
    name = quote(secrets.get("username", unquote(name)), safe="")
    password = quote(secrets.get("password", unquote(password)), safe="")
    return f"{name}:{password}@{hosts}" if password else f"{name}@{hosts}"
