"""The protocol of a carrier: inboxes by address, in which messages stay until they are deleted.

A carrier may lose, double, reorder and garble: the link tolerates all of that. The methods may be coroutines,
or plain functions; the agent awaits what can be awaited.
"""

import re
from collections.abc import Awaitable, Iterable, Sequence
from typing import Final, Protocol, runtime_checkable

from history.errors import ConfigurationError
from triggers.providers.provider import ProviderUnavailableError

_ADDRESS: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


class CarrierUnavailableError(ProviderUnavailableError):
    """The carrier did not answer: a message to put may have arrived, and is put again."""

    def __init__(self, doing: str) -> None:
        super().__init__("the link's carrier", doing)


class UnreadableMessageError(Exception):
    """One message cannot be read, although the carrier works: the others are read."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name} cannot be read: {problem}")


@runtime_checkable
class SettingAside(Protocol):
    """A carrier that can move an unreadable message out of an inbox, without losing it."""

    def set_aside(self, address: str, name: str) -> Awaitable[str] | str:
        """Move it out, and return where it is kept."""
        ...


class Carrier(Protocol):
    """Carries bytes to addresses. Used by one agent at a time; many may put to one inbox.

    Every method raises :class:`CarrierUnavailableError` when the carrier does not answer.
    """

    def put(self, address: str, data: bytes) -> Awaitable[None] | None:
        """Send a message; when this returns it is in the inbox, as safely as the carrier keeps anything."""
        ...

    def list(self, address: str) -> Awaitable[Sequence[str]] | Sequence[str]:
        """Begin a reading of an inbox: return the names of its messages, about in the order of arrival."""
        ...

    def get(self, address: str, name: str) -> Awaitable[bytes] | bytes:
        """Return a message; it stays until it is deleted.

        Raises:
            KeyError: the inbox has no message of that name.
            UnreadableMessageError: this message cannot be read.
        """
        ...

    def delete(self, address: str, names: Iterable[str]) -> Awaitable[None] | None:
        """Delete messages of an inbox; a missing message is not an error."""
        ...

    def close(self) -> Awaitable[None] | None:
        """Close what the carrier holds open."""
        ...


def check_address(address: str, *, setting: str = "address") -> str:
    """Return an address that is a plain name.

    Raises:
        ConfigurationError: it is not.
    """
    if _ADDRESS.fullmatch(address) is None:
        raise ConfigurationError(
            setting, f"{address!r} is not a plain name", "use letters, digits, '-', '_' and '.'"
        )
    return address
