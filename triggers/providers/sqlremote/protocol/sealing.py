"""The envelope of a message on a carrier: compressed if that helps, signed if the link has a key.

    mark (4 bytes)  flags (1)  body  [trailer  length of it (1)  checksum (16)]  [signature (32)]

The trailer holds further facts for both ends. It comes after a compressed body, where older versions never
look, and it is left out if the message has no room for it.

The signature is an HMAC-SHA256 over sender, receiver and everything before it, so that a message cannot be
sent back or put into another link's inbox. Write access to a shared folder is not enough to inject work.
"""

import hmac
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from history.errors import ConfigurationError
from triggers.providers.sqlremote.protocol.packet import DEFAULT_MESSAGE_SIZE
from triggers.providers.sqlremote.protocol.parts import DIGEST_SIZE, MangledError, checksum

_MARK: Final = b"dbl1"
_COMPRESSED: Final = 1
_SIGNED: Final = 2
_TELLS: Final = 4
_HEAD: Final = len(_MARK) + 1
_SIGNATURE: Final = 32

#: Bytes that an envelope adds at most.
OVERHEAD: Final = _HEAD + _SIGNATURE

#: Bytes of a key, at least.
SHORTEST_KEY: Final = 16


class UntrustedError(MangledError):
    """A message is not signed, or not with a key of this link: it is parked, and never applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Wraps and opens messages between two ends.

    The first key signs; each of them opens, so that keys can be changed at one end after the other.
    ``compression`` is zlib's level, 0 for none.

    Raises:
        ConfigurationError: a key is too short, or the level does not exist.
    """

    keys: Sequence[bytes] = ()
    compression: int = 6
    message_size: int = DEFAULT_MESSAGE_SIZE

    def __post_init__(self) -> None:
        if any(len(key) < SHORTEST_KEY for key in self.keys):
            raise ConfigurationError("keys", "a key is too short", f"use {SHORTEST_KEY} bytes or more")
        if not 0 <= self.compression <= 9:  # noqa: PLR2004  (zlib's levels)
            raise ConfigurationError("compression", f"must be 0 to 9, not {self.compression}", "use 0 to 9")

    @property
    def largest(self) -> int:
        """The size in bytes of the longest message that may arrive."""
        return self.message_size + OVERHEAD

    def close(self, data: bytes, *, sender: str, receiver: str, trailer: bytes = b"") -> bytes:
        """Wrap a message, with a trailer of at most 255 bytes if there is room."""
        flags = _SIGNED if self.keys else 0
        smaller = zlib.compress(data, self.compression) if self.compression or trailer else data
        aside = trailer + bytes([len(trailer)]) if trailer else b""
        aside = aside and aside + checksum(smaller + aside)
        if trailer and _HEAD + len(smaller) + len(aside) + _SIGNATURE <= self.largest:
            flags, data = flags | _COMPRESSED | _TELLS, smaller + aside
        elif len(smaller) < len(data):
            flags, data = flags | _COMPRESSED, smaller
        sealed = _MARK + bytes([flags]) + data
        return sealed + (_sign(self.keys[0], sealed, sender, receiver) if self.keys else b"")

    def open(self, data: bytes, *, sender: str, receiver: str) -> bytes:
        """Unwrap a message; raises as :meth:`unwrap`."""
        return self.unwrap(data, sender=sender, receiver=receiver)[0]

    def unwrap(self, data: bytes, *, sender: str, receiver: str) -> tuple[bytes, bytes]:
        """Unwrap a message and its trailer, which may be empty.

        Raises:
            UntrustedError: this end has a key, and the message is not signed with it.
            MangledError: it is too long, or not an envelope.
        """
        if self.keys:
            data = self._checked(data, sender, receiver)
        if len(data) > self.largest:
            raise MangledError(
                f"{len(data)} bytes do not fit into message_size={self.message_size}; give both ends the same"
            )
        if data[: len(_MARK)] != _MARK or len(data) < _HEAD:
            raise MangledError("the envelope is missing")
        flags, body = data[_HEAD - 1], data[_HEAD:]
        if flags & _SIGNED and not self.keys:
            body = body[:-_SIGNATURE]  # nobody here can check it, and no key requires it
        trailer = b""
        if flags & _TELLS:
            body, trailer = _taken_off(body)
        return self._inflated(body) if flags & _COMPRESSED else body, trailer

    def _checked(self, data: bytes, sender: str, receiver: str) -> bytes:
        sealed, signature = data[:-_SIGNATURE], data[-_SIGNATURE:]
        if not any(hmac.compare_digest(_sign(key, sealed, sender, receiver), signature) for key in self.keys):
            raise UntrustedError("it is not signed with a key of this link")
        return sealed

    def _inflated(self, body: bytes) -> bytes:
        inflate = zlib.decompressobj()
        try:
            data = inflate.decompress(body, self.message_size + 1)
        except zlib.error as error:
            raise MangledError("it cannot be decompressed") from error
        if not inflate.eof:
            raise MangledError(
                f"it is cut off, or longer than message_size={self.message_size}; give both ends the same"
            )
        return data


def _taken_off(body: bytes) -> tuple[bytes, bytes]:
    """Remove and return the trailer of a message."""
    rest, seal = body[:-DIGEST_SIZE], body[-DIGEST_SIZE:]
    if not rest or checksum(rest) != seal or rest[-1] >= len(rest):
        raise MangledError("the trailer of the message was changed on its way")
    start = len(rest) - 1 - rest[-1]
    return rest[:start], rest[start:-1]


def _sign(key: bytes, sealed: bytes, sender: str, receiver: str) -> bytes:
    signature = hmac.new(key, f"{sender}\0{receiver}\0".encode(), "sha256")
    signature.update(sealed)
    return signature.digest()
