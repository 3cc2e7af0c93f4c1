"""The URL of a message broker: hosts to try in turn, account, TLS; for the AMQP 1.0 and RabbitMQ providers.

``rabbitmqs://user:password@one:5671,two/vhost?cafile=ca.pem``: several hosts are tried in turn. With ``s``
at the end of its scheme a URL means TLS; certificates are verified, by the system's authorities unless
``cafile`` names others. ``certfile`` and ``keyfile`` are the client's, and ``sasl=external`` logs in by it.
"""

import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

from history.errors import ConfigurationError
from history.support.tls import stays_wrong
from history.support.urls import guarded, split_url

#: RabbitMQ refuses a shorter heartbeat over AMQP 1.0.
LEAST_HEARTBEAT = 2

#: How long a check of a host's certificate may take, in seconds.
_PROBE_PATIENCE = 5.0

#: The greatest whole number in a URL: nine digits.
_MOST = 999_999_999

#: The options of the connection, for any wire.
_OPTIONS = {"cafile", "certfile", "keyfile", "sasl", "heartbeat"}


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a TLS connection; None means the system's authorities, or no client certificate."""

    cafile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None

    def context(self) -> ssl.SSLContext:
        """Make a context that verifies the server's certificate and name.

        Raises:
            ConfigurationError: a file cannot be used.
        """
        try:
            context = ssl.create_default_context(cafile=self.cafile)
            if self.certfile is not None:
                context.load_cert_chain(self.certfile, self.keyfile)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(file for file in (self.cafile, self.certfile, self.keyfile) if file)
            raise ConfigurationError("provider", f"{files}: {error}", "name PEM files that exist") from error
        return context

    def problem_with(self, host: str, port: int) -> str:
        """Return why no handshake with a host can succeed; an empty text if one does, or nobody answers."""
        try:
            with (
                socket.create_connection((host, port), _PROBE_PATIENCE) as connection,
                self.context().wrap_socket(connection, server_hostname=host),
            ):
                return ""
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        except OSError as error:
            return str(error) if stays_wrong(error) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUrl:
    """A URL, taken apart; the password is never shown. ``heartbeat`` is in seconds."""

    hosts: Sequence[tuple[str, int]]
    user: str | None = field(repr=False)
    password: str | None = field(repr=False)
    path: str
    tls: TlsFiles | None
    external: bool
    heartbeat: int
    #: An option may be another URL, with a password.
    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def read(
        cls,
        url: str,
        *,
        example: str,
        ports: tuple[int, int],
        known: set[str],
        dotted: bool = False,
    ) -> Self:
        """Read a URL; ``ports`` are those without and with TLS, ``known`` the options of the provider.

        With ``dotted``, options with a dot in their names are for the broker's client.

        Raises:
            ConfigurationError: the URL is not valid, or has an unknown option.
        """
        with guarded(url, "provider"):
            return cls._checked(url, example, ports, known, dotted=dotted)

    @classmethod
    def _checked(
        cls, url: str, example: str, ports: tuple[int, int], allowed: set[str], *, dotted: bool
    ) -> Self:
        try:
            return cls._read(url, example.partition(":")[0], ports, allowed, dotted=dotted)
        except ValueError as error:
            if isinstance(error, ConfigurationError):
                raise
            raise ConfigurationError(
                "provider", f"its URL cannot be used: {error}", f"use {example}"
            ) from error

    @classmethod
    def _read(cls, url: str, scheme: str, ports: tuple[int, int], allowed: set[str], *, dotted: bool) -> Self:
        parts = split_url(url)
        secure = parts.scheme == f"{scheme}s"
        account, _, hosts = parts.netloc.rpartition("@")
        user, colon, password = account.partition(":")
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        for name in options.keys() - allowed - _OPTIONS:
            if dotted and "." in name:
                continue
            remedy = f"leave it out, or use one of {', '.join(sorted(allowed | _OPTIONS))}"
            raise ConfigurationError("provider", f"the option {name!r} in its URL is unknown", remedy)
        files = {name: options.pop(name) for name in ("cafile", "certfile", "keyfile") if name in options}
        if files and not secure:
            raise ConfigurationError(
                "provider", "names certificates, but does not use TLS", f"use {parts.scheme}s://"
            )
        sasl = options.pop("sasl", "plain")
        if sasl not in {"plain", "external"}:
            raise ConfigurationError("sasl", f"{sasl!r} is unknown", "give plain or external")
        heartbeat = options.pop("heartbeat", "30")
        return cls(
            hosts=[_host(host, ports[secure]) for host in hosts.split(",")],
            user=unquote(user) if account else None,
            password=unquote(password) if colon else None,
            path=unquote(parts.path[1:]),
            tls=TlsFiles(**files) if secure else None,
            external=sasl == "external",
            heartbeat=whole_number("heartbeat", heartbeat, least=LEAST_HEARTBEAT, unit="seconds"),
            options=options,
        )

    @property
    def where(self) -> str:
        """The hosts, for people to read."""
        return ", ".join(f"{host}:{port}" for host, port in self.hosts)


def whole_number(name: str, text: str, *, least: int, most: int = _MOST, unit: str = "") -> int:
    """Read a setting in a URL that is a whole number from ``least`` to ``most``, both of them allowed.

    Raises:
        ConfigurationError: it is not one, or beyond them; the text names the ``unit``.
    """
    if text.isascii() and text.isdigit() and len(text) <= len(str(_MOST)) and least <= int(text) <= most:
        return int(text)
    number = f"a whole number of {unit}" if unit else "a whole number"
    limits = f"from {least}" if most == _MOST else f"from {least} to {most}"
    raise ConfigurationError(name, f"must be {number} {limits}, not {text!r:.60}", "correct it")


def _host(text: str, default: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("it names no host")
    return parts.hostname, parts.port or default
