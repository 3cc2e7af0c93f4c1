"""Writes that count only after replicas have them: ``durability=replicas:1``.

Redis answers before its replicas have a write, so a replica that takes over may lack it. WAIT, sent after a
write on the same connection, returns how many replicas have everything up to there. A write that they do not
have in time may or may not survive: the call fails as if the history were unavailable, and is sent again.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from history.errors import ConfigurationError, HistoryUnavailableError

#: How long replicas may take, in milliseconds.
PATIENCE = 1000

#: A channel without listeners. If a call that is sent again has nothing left to write, WAIT would have
#: nothing to wait for. A published message goes to the replicas, after everything that was written before.
CHANNEL = "doubtless:durability"

_FORM = re.compile(r"replicas:([1-9][0-9]{0,2})")


class _Lengths(dict[int, bytes]):
    """The length of an argument in the server's format; those of short arguments are made once."""

    def __missing__(self, length: int) -> bytes:
        return b"$%d\r\n" % length


_LENGTHS = _Lengths((length, b"$%d\r\n" % length) for length in range(256))


def packed(arguments: Iterable[bytes]) -> bytes:
    """Return arguments in the server's format, each with its length. A command begins with their number."""
    parts = [_LENGTHS[len(argument)] + argument for argument in arguments]
    parts.append(b"")  # so that the last argument also has an end
    return b"\r\n".join(parts)


class NotDurableError(HistoryUnavailableError):
    """Too few replicas have a write. The primary has it, but nobody may rely on it."""


@dataclass(frozen=True, slots=True)
class Durability:
    """How many replicas must have a write before it counts."""

    replicas: int

    @classmethod
    def of(cls, text: object, *, cluster: bool = False) -> Self | None:
        """Read ``replicas:1``; None if the option is absent.

        Raises:
            ConfigurationError: it has another form, or the deployment is a Cluster.
        """
        if text is None:
            return None
        form = _FORM.fullmatch(text) if isinstance(text, str) else None
        if form is None:
            raise ConfigurationError(
                "durability", f"must say how many replicas, not {text!r}", "give replicas:1, or leave it out"
            )
        if cluster:
            raise ConfigurationError(
                "durability", "cannot be asked of a Redis Cluster", "leave it out, or use Redis Sentinel"
            )
        return cls(int(form[1]))

    @property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """The commands to send after a write; :meth:`check` takes the answer to the last one."""
        return ("PUBLISH", CHANNEL, ""), ("WAIT", str(self.replicas), str(PATIENCE))

    def packed(self) -> bytes:
        """Return these commands in the server's format."""
        return b"".join(
            b"*%d\r\n%b" % (len(command), packed(argument.encode() for argument in command))
            for command in self.commands
        )

    def lack(self, reached: int) -> str | None:
        """Return what is missing if ``reached`` replicas have a write; None if they are enough."""
        if reached >= self.replicas:
            return None
        return (
            f"{reached} of {self.replicas} replicas had it after {PATIENCE / 1000:g} s "
            f"(durability=replicas:{self.replicas})"
        )

    def check(self, reached: int, doing: str) -> None:
        """Return if ``reached`` replicas are enough.

        Raises:
            NotDurableError: they are not.
        """
        if (lack := self.lack(reached)) is not None:
            raise NotDurableError(f"{doing}: {lack}")
