"""TLS: lines without it, and errors that last until somebody corrects a file or a URL.

The other errors are lost connections.
"""

import logging
import ssl
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import parse_qs

from history.support.urls import split_url

_log = logging.getLogger(__name__)

#: For each scheme without encryption: how to encrypt it.
_REMEDIES = {
    "redis": "use rediss://",
    "redis+sentinel": "use rediss+sentinel://",
    "redis+cluster": "use rediss+cluster://",
    "amqp": "use amqps://",
    "rabbitmq": "use rabbitmqs://",
    "nats": "use natss://",
    "kafka": "use kafkas://",
    "postgresql": "say ?sslmode=verify-full, or at least sslmode=require",
    "postgres": "say ?sslmode=verify-full, or at least sslmode=require",
}

#: The values of ``sslmode`` with which nothing is sent unencrypted.
_ENCRYPTED = {"require", "verify-ca", "verify-full"}

#: The servers that were warned of.
_WARNED: set[tuple[str, ...]] = set()

#: The peer went away, in a handshake or later: it may be back soon.
_ENDED = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)


class OpenLine(NamedTuple):
    """A line that crosses a network unencrypted."""

    hosts: tuple[str, ...]
    has_password: bool
    remedy: str


def open_line(url: str) -> OpenLine | None:
    """Return the line of a URL if it crosses a network unencrypted; None if not."""
    parts = split_url(url)
    query = parse_qs(parts.query)
    remedy = _REMEDIES.get(parts.scheme.partition("+psycopg")[0])
    if remedy is None or query.get("sslmode", [""])[0] in _ENCRYPTED:
        return None
    addresses = [parts.netloc, *query.get("host", [])]  # libpq has hosts in both places
    hosts = tuple(host.rpartition("@")[2] for address in addresses for host in address.split(","))
    if all(_is_here(host) for host in hosts):
        return None
    return OpenLine(hosts, "@" in parts.netloc or "password" in query, remedy)


def warn_of_open_line(url: str, setting: str) -> None:
    """Log once for each server that its password crosses a network unencrypted."""
    line = open_line(url)
    if line is None or not line.has_password or line.hosts in _WARNED:
        return
    _WARNED.add(line.hosts)
    text = "%s: the password and all messages cross the network to %s unencrypted: %s"
    _log.warning(text, setting, ", ".join(filter(None, line.hosts)), line.remedy)


def _is_here(host: str) -> bool:
    """Whether a host is this machine, or a socket on it."""
    name = host.removeprefix("[").partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name in {"", "localhost"} or name.startswith("/"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def stays_wrong(error: BaseException | None) -> bool:
    """Whether a retry cannot fix a TLS error: a bad certificate, a server without TLS."""
    if not isinstance(error, ssl.SSLError) or isinstance(error, _ENDED):
        return False
    return error.reason != "UNEXPECTED_EOF_WHILE_READING"
