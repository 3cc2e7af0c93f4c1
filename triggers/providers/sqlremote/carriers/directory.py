"""A carrier of files: one folder per address, one file per message, as the original's FILE system.

A message is written under a hidden name, flushed to the disk and renamed, so that nobody reads half of it.
The folder may be shared by NFS, Samba, rsync or a person with a stick: what else lies there is left alone.
"""

import os
import secrets
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from triggers.providers.sqlremote.carriers.carrier import CarrierUnavailableError, check_address

#: How the name of a message ends.
SUFFIX: Final = ".msg"

#: How the name of one that is being written begins.
HIDDEN: Final = "."

#: After how many seconds a half-written file is nobody's any more.
ABANDONED: Final = 24 * 3600.0


class DirectoryCarrier:
    """Messages as files below ``folder``. ``largest`` bytes of a message are read at most, and one more.

    Guarantee: none by itself; a message that was put is on the disk, whole, until it is deleted.
    """

    def __init__(self, folder: Path, *, largest: int = 64_000_000) -> None:
        self._folder = folder
        self._largest = largest
        self._token = f"{os.getpid():x}-{secrets.token_hex(4)}"
        self._numbers = count()
        self._ready: set[str] = set()

    def put(self, address: str, data: bytes) -> None:
        """Write a message."""
        with _translated("putting a message"):
            inbox = self._inbox(address)
            # By the clock first: the names of one sender sort in the order of sending.
            name = f"{time.time_ns():020}-{self._token}-{next(self._numbers):08}{SUFFIX}"
            hidden = inbox / (HIDDEN + name)
            try:
                with hidden.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                hidden.rename(inbox / name)
            except BaseException:
                hidden.unlink(missing_ok=True)
                raise
            _flush_folder(inbox)

    def list(self, address: str) -> Sequence[str]:
        """Name the messages of an inbox, oldest first; other files are nobody's business."""
        with _translated("reading the inbox"), os.scandir(self._inbox(address)) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(SUFFIX) and not entry.name.startswith(HIDDEN) and entry.is_file()
            )

    def get(self, address: str, name: str) -> bytes:
        """Read a message; of one that is too long, as much as shows that it is."""
        with _translated("reading a message"):
            try:
                with (self._inbox(address) / name).open("rb") as file:
                    return file.read(self._largest + 1)
            except FileNotFoundError as error:
                raise KeyError(name) from error

    def delete(self, address: str, names: Iterable[str]) -> None:
        """Remove messages."""
        with _translated("deleting messages"):
            inbox = self._inbox(address)
            for name in names:
                (inbox / name).unlink(missing_ok=True)

    def has(self, address: str) -> bool:
        """Whether there is an inbox; reading one makes it."""
        return (self._folder / check_address(address)).is_dir()

    def close(self) -> None:
        """Do nothing: no file is held open."""

    def _inbox(self, address: str) -> Path:
        inbox = self._folder / check_address(address)
        if address not in self._ready:
            inbox.mkdir(parents=True, exist_ok=True)
            _sweep(inbox)
            self._ready.add(address)
        return inbox


@contextmanager
def _translated(doing: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise CarrierUnavailableError(doing) from error


def _sweep(inbox: Path) -> None:
    """Remove what a sender that died has left half-written."""
    for file in inbox.glob(f"{HIDDEN}*{SUFFIX}"):
        try:
            if time.time() - file.stat().st_mtime > ABANDONED:
                file.unlink(missing_ok=True)
        except FileNotFoundError:
            continue


def _flush_folder(folder: Path) -> None:
    """Make the new name as durable as the file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
