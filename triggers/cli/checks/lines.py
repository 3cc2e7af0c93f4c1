"""Whether the connection to a server is encrypted, as far as its URL says."""

from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import parse_qs

from history.support.urls import split_url
from triggers.cli.checks.findings import CheckFinding, Level

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


def of_line(of: str, url: str) -> Iterator[CheckFinding]:
    """Warn of passwords and messages that cross a network unencrypted."""
    parts = split_url(url)
    scheme = parts.scheme.partition("+psycopg")[0]
    remedy = _REMEDIES.get(scheme)
    if remedy is None or parse_qs(parts.query).get("sslmode", [""])[0] in _ENCRYPTED:
        return
    hosts = [address.rpartition("@")[2] for address in parts.netloc.split(",")]
    if all(_is_here(host) for host in hosts):
        return
    what = "the password and all messages" if "@" in parts.netloc else "all messages"
    yield CheckFinding(of, Level.WARNING, f"{what} cross the network in clear", remedy)


def _is_here(host: str) -> bool:
    """Whether a host is this machine, or a socket on it."""
    name = host.removeprefix("[").partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name in {"", "localhost"}:
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
