"""The rules for signing in: tokens, and the header of a reverse proxy."""

import hmac
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from hashlib import blake2b
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from secrets import token_urlsafe
from threading import Lock

from history.errors import ConfigurationError
from history.support.private_files import refuse_open_secret, state_of
from triggers.dashboard.access.roles import Role
from triggers.security.recorder import SecurityLogging

_log = logging.getLogger(__name__)

#: The shortest secret that is accepted: a secret with fewer characters can be guessed.
SHORTEST_SECRET = 20

#: How many words a line of a file of tokens has.
_WORDS = 3


@dataclass(frozen=True, slots=True)
class Token:
    """A token for signing in. ``secret`` is never logged or shown.

    Raises:
        ConfigurationError: the name is empty, or the secret shorter than :data:`SHORTEST_SECRET` characters.
    """

    name: str
    role: Role
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigurationError("token", "it has no name", "give the name of who signs in with it")
        if len(self.secret) < SHORTEST_SECRET:
            problem = f"that of {self.name} has fewer than {SHORTEST_SECRET} characters"
            raise ConfigurationError("token", problem, f"make one: {token_urlsafe()}")

    @classmethod
    def drawn(cls, name: str, role: Role) -> "Token":
        """Return a token with a new random secret."""
        return cls(name, role, token_urlsafe())


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyHeader:
    """The header in which a reverse proxy names the signed-in user.

    It is trusted only from ``addresses``, the proxy's: IP addresses, or networks such as 10.0.0.0/8. Without
    ``role_header``, or if a request has none, everybody has ``role``.

    Raises:
        ConfigurationError: an address is neither.
    """

    user_header: str
    role_header: str | None = None
    role: Role = Role.VIEWER
    addresses: frozenset[str] = frozenset({"127.0.0.1", "::1"})

    def __post_init__(self) -> None:
        _networks(self.addresses)

    def is_at(self, host: str) -> bool:
        """Whether a request from this address comes from the proxy."""
        try:
            address = ip_address(host)
        except ValueError:  # an in-process client
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in _networks(self.addresses))


@cache
def _networks(addresses: frozenset[str]) -> Sequence[IPv4Network | IPv6Network]:
    try:
        return [ip_network(address) for address in sorted(addresses)]
    except ValueError as error:
        remedy = "give an IP address, or a network such as 10.0.0.0/8"
        raise ConfigurationError("proxy address", str(error), remedy) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The rules of access: who may sign in, and for how long.

    A session ends after ``idle`` without a request, and after ``longest`` in any case. It also ends when its
    token is removed from a :class:`TokenFile`, or has another role there. Headers and bodies of messages are
    shown from the role ``bodies`` on. ``hosts`` are the names by which browsers may address the dashboard: a
    request from another site that resolves its own name to this machine is refused. ``https`` means that
    browsers use TLS, so that they send the session's cookie only over TLS. ``security_log`` says how long the
    history keeps the security log, and which file also has it.

    Raises:
        ConfigurationError: nobody could sign in, or two tokens have the same secret.
    """

    tokens: "Sequence[Token] | TokenFile" = ()
    proxy: ProxyHeader | None = None
    idle: timedelta = timedelta(minutes=30)
    longest: timedelta = timedelta(hours=12)
    bodies: Role = Role.OPERATOR
    hosts: frozenset[str] = frozenset({"localhost", "127.0.0.1", "::1"})
    https: bool = False
    security_log: SecurityLogging = field(default_factory=SecurityLogging)

    def __post_init__(self) -> None:
        if not self.known_tokens() and self.proxy is None:
            raise ConfigurationError(
                "access", "nobody could sign in", "give tokens, or the header of a reverse proxy"
            )
        _check_secrets(self.known_tokens())

    def known_tokens(self) -> Sequence[Token]:
        """Return the tokens that are valid at the moment."""
        return self.tokens.read() if isinstance(self.tokens, TokenFile) else self.tokens

    def token_of(self, secret: str) -> Token | None:
        """Return the token with this secret; its timing reveals nothing about other secrets."""
        offered = _hashed(secret)
        tokens = self.known_tokens()
        matching = [token for token in tokens if hmac.compare_digest(offered, _hashed(token.secret))]
        return matching[0] if matching else None


class TokenFile:
    """Tokens in a file, which is read again after a change: so a token is revoked without a restart.

    If it is not valid then, this is logged once. The previous tokens that it still has stay valid. If it is
    missing, empty or not text, all previous tokens do: an editor may be writing it.

    Raises:
        ConfigurationError: the same as :func:`read_tokens`.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = Lock()
        self._state = state_of(self._file)
        self._tokens: Sequence[Token] = read_tokens(file)

    def read(self) -> Sequence[Token]:
        """Return the tokens in it."""
        with self._lock:
            state = state_of(self._file)
            if state != self._state:
                self._state = state
                try:
                    self._tokens = read_tokens(self._file)
                except ConfigurationError as error:
                    self._tokens = _left_in(self._file, self._tokens)
                    _log.error("%s; until that is corrected, only tokens from before count", error)
            return self._tokens


def _left_in(file: Path, tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens that a file still has, although it is not valid."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return tokens
    lines = [line.split() for line in text.splitlines()]
    written = [(words[0], Role.of(words[1]), words[2]) for words in lines if len(words) == _WORDS]
    present = [token for token in tokens if (token.name, token.role, token.secret) in written]
    return present if text.strip() else tokens


def _check_secrets(tokens: Sequence[Token]) -> None:
    if len({token.secret for token in tokens}) < len(tokens):
        raise ConfigurationError("token", "two have the same secret", "give each person one")


def _hashed(secret: str) -> bytes:
    return blake2b(secret.encode("utf-8", "surrogatepass")).digest()


def read_tokens(file: Path) -> list[Token]:
    """Read a file of tokens: a name, a role and a secret on each line; lines that begin with # are skipped.

    Raises:
        ConfigurationError: it cannot be read, all users may read it, or a line is not a token.
    """
    setting = "--tokens"
    try:
        refuse_open_secret(file, setting)
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            setting, f"{file} cannot be read: {error}", "name a file of tokens"
        ) from error
    tokens: list[Token] = []
    for number, line in enumerate(text.splitlines(), 1):
        columns = line.split()
        if not columns or line.lstrip().startswith("#"):
            continue
        role = Role.of(columns[1]) if len(columns) == _WORDS else None
        if role is None:  # nothing of it is quoted: any of its words may be the secret
            problem = f"line {number} of {file} is no token"
            remedy = "write a name, a role (viewer, operator or admin) and a secret on each line"
            raise ConfigurationError(setting, problem, remedy)
        if len(columns[2]) < SHORTEST_SECRET:  # its other words may be the secret
            problem = f"the secret in line {number} of {file} has fewer than {SHORTEST_SECRET} characters"
            raise ConfigurationError(setting, problem, f"make one: {token_urlsafe()}")
        tokens.append(Token(columns[0], role, columns[2]))
    if not tokens:
        raise ConfigurationError(setting, f"there is no token in {file}", "write one on a line")
    _check_secrets(tokens)
    return tokens
