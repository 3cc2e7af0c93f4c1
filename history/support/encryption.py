"""Encryption of what a store keeps: AES-256-GCM, with the keys of a file or of an environment variable.

An encrypted value is bytes::

    magic (6)  key id (4)  nonce (12)  ciphertext  tag (16)

The magic begins with a zero byte, and nothing that we store unencrypted does. The key id is the beginning of
a hash of the key. The value is bound to its context (``about``), such as a trigger and an id: in another
place, it cannot be decrypted. Nonces are random, so one key is good for 2^32 values.

The package ``cryptography`` (extra ``encryption``) is loaded for the first key.
"""

import base64
import binascii
import json
import logging
import os
from hashlib import sha256
from typing import Any, NamedTuple, cast

from history.errors import ConfigurationError, MissingExtraError
from history.support.private_files import state_of
from history.support.references import is_reference, read_secret, secret_file

_log = logging.getLogger(__name__)

#: The beginning of every encrypted value; its last byte is the version of the format.
MAGIC = b"\0dbte\1"

#: Sizes in bytes.
KEY_SIZE, NONCE_SIZE, ID_SIZE = 32, 12, 4

#: The name of the option, in URLs and in errors.
SETTING = "encrypt"

#: A command that makes a key.
MAKE_A_KEY = "openssl rand -base64 32"

_HEAD = len(MAGIC) + ID_SIZE + NONCE_SIZE


class DecryptionError(ConfigurationError):
    """One value cannot be decrypted; it stays where it is, and all others can be read."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(SETTING, problem, remedy)


class MissingKeyError(DecryptionError):
    """The key is missing, or it is unknown which one is needed: with that key, the value can be read."""


class _Key(NamedTuple):
    id: bytes
    aead: Any  # an AESGCM, of a package that may be missing


class Cipher:
    """Encrypts with the first key, and decrypts with all of them; safe to share between threads.

    ``reference`` is ``file:/path`` or ``env:NAME``. Each line there is one key: 32 bytes in base64 or in
    hexadecimal digits. Lines that begin with # are left out. A file is read again when it has changed, so
    keys are exchanged without a restart. If it cannot be read then, the earlier keys stay valid, and the log
    says so.

    Raises:
        ConfigurationError: there is no key, a line is not a key, all users may read the file, or
            (MissingExtraError) the package is missing.

    Example::

        cipher = Cipher("file:/run/secrets/doubtless-key")
        assert cipher.decrypt(cipher.encrypt(b"4111", about=["card"]), about=["card"]) == b"4111"
    """

    def __init__(self, reference: str) -> None:
        if not isinstance(cast("object", reference), str) or not is_reference(reference):
            # Not quoted, because it may be the key itself.
            raise ConfigurationError(
                SETTING, "does not name where the key is", "write file:/path/of/the/key or env:NAME"
            )
        self.reference = reference
        self._file = secret_file(reference)
        self._state = self._look()
        self._keys = _read_keys(reference)

    def encrypt(self, data: bytes, *, about: list[str]) -> bytes:
        """Return the data encrypted, and bound to ``about``."""
        key, nonce = self._current()[0], os.urandom(NONCE_SIZE)
        head = MAGIC + key.id + nonce
        return head + cast("bytes", key.aead.encrypt(nonce, data, _bound(head, about)))

    def decrypt(self, value: bytes, *, about: list[str]) -> bytes:
        """Return the data that was encrypted.

        Raises:
            MissingKeyError: the key that encrypted it is missing.
            DecryptionError: it was changed, or moved from another place.
        """
        id_ = _key_id_of(value)
        keys = [key for key in self._current() if key.id == id_]
        if not keys:
            raise MissingKeyError(
                f"it is encrypted with the key {id_.hex()}, which {self.reference} does not have",
                "add that key below the others",
            )
        head, nonce = value[:_HEAD], value[_HEAD - NONCE_SIZE : _HEAD]
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  (the key has loaded it)

        for key in keys:
            try:
                return cast("bytes", key.aead.decrypt(nonce, value[_HEAD:], _bound(head, about)))
            except (InvalidTag, ValueError):  # ValueError: the value was cut short
                continue
        raise DecryptionError(
            "it was changed, or moved from another place, after it was encrypted",
            "find out who else writes there; restore it from a backup, or discard it",
        )

    def _current(self) -> list[_Key]:
        state = self._look()
        if state != self._state:
            self._state = state
            try:
                self._keys = _read_keys(self.reference)
            except ConfigurationError as error:
                _log.error("%s; until that is corrected, the earlier keys stay valid", error)
        return self._keys

    def _look(self) -> tuple[int, ...] | None:
        return None if self._file is None else state_of(self._file)


def cipher_of(encrypt: "str | Cipher | None") -> Cipher | None:
    """Return the cipher for the value of ``encrypt=``; None if nothing is encrypted.

    Raises:
        ConfigurationError: as in :class:`Cipher`.
    """
    return encrypt if encrypt is None or isinstance(encrypt, Cipher) else Cipher(encrypt)


def is_encrypted(value: bytes) -> bool:
    """Whether these are the bytes of an encrypted value, of this or of another version."""
    return value.startswith(MAGIC[:-1])


def decrypted(cipher: Cipher | None, value: bytes, *, about: list[str]) -> bytes:
    """Return a value as it was before it was stored: decrypted, or as it is, if it was stored in plain.

    Raises:
        MissingKeyError: it is encrypted, and the key is missing.
        DecryptionError: it was changed, or moved from another place.
    """
    if not is_encrypted(value):
        return value
    if cipher is None:
        raise MissingKeyError(
            f"it is encrypted with the key {_key_id_of(value).hex()}, and no key is given",
            "add ?encrypt=file:/path/of/the/key to the URL, or give encrypt=",
        )
    return cipher.decrypt(value, about=about)


def _key_id_of(value: bytes) -> bytes:
    """Return the id of the key; refuse a value that this version cannot read."""
    if not value.startswith(MAGIC):
        raise MissingKeyError("a newer version of doubtless has encrypted it", "upgrade this one")
    return value[len(MAGIC) : len(MAGIC) + ID_SIZE]


def _bound(head: bytes, about: list[str]) -> bytes:
    # JSON, so that different lists give different bytes; ASCII, because a name may hold lone surrogates.
    return head + json.dumps(about).encode("ascii")


def _read_keys(reference: str) -> list[_Key]:
    keys: list[_Key] = []
    for number, line in enumerate(read_secret(reference, SETTING).splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        key = _key_of(text)
        if key is None:  # the error quotes nothing of it
            problem = f"line {number} of {reference} is not a key: it must have {KEY_SIZE} bytes"
            raise ConfigurationError(
                SETTING, problem, f"write them in base64 or hexadecimal digits; make one: {MAKE_A_KEY}"
            )
        keys.append(_loaded(key))
    if not keys:
        raise ConfigurationError(SETTING, f"{reference} has no key", f"write one on a line: {MAKE_A_KEY}")
    return keys


def _key_of(text: str) -> bytes | None:
    try:
        if len(text) == 2 * KEY_SIZE:
            return bytes.fromhex(text)
        key = base64.b64decode(text, altchars=b"-_" if {"-", "_"} & set(text) else None, validate=True)
    except (ValueError, binascii.Error):
        return None
    return key if len(key) == KEY_SIZE else None


def _loaded(key: bytes) -> _Key:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  (an optional package)
    except ImportError as error:
        raise MissingExtraError("encrypt=", extra="encryption", package="cryptography") from error
    return _Key(sha256(b"doubtless key " + key).digest()[:ID_SIZE], AESGCM(key))
