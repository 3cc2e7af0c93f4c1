"""A carrier of files: one folder per address, one file per message, as the original's FILE system.

A message is written under a hidden name, flushed to the disk and renamed, so that nobody reads half of it.
The folder may be shared by NFS, Samba, rsync or a person with a stick: other files in it are not touched.
"""

import errno
import os
import secrets
import stat
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from history.support.private_files import make_folder
from triggers.providers.sqlremote.carriers.carrier import (
    CarrierUnavailableError,
    UnreadableMessageError,
    check_address,
)

#: The suffix of a message's name.
SUFFIX: Final = ".msg"

#: The prefix of a message that is being written.
HIDDEN: Final = "."

#: The folder for unreadable messages, inside an inbox.
ASIDE: Final = "unreadable"

#: Do not open the target of a symbolic link, and do not wait for a pipe; Windows has neither flag.
_NO_FOLLOWING: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

#: Errors that do not concern the file: too many are open, memory is short, the network folder is away.
_OF_EVERYTHING: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.ENETDOWN}
)

#: After so many seconds a half-written file counts as abandoned.
ABANDONED: Final = 24 * 3600.0


class DirectoryCarrier:
    """Messages as files below ``folder``. It reads at most ``largest`` bytes of a message, and one more.

    Guarantee: none by itself; a message that was put is on the disk, whole, until it is deleted.
    """

    def __init__(self, folder: Path, *, largest: int = 64_000_000) -> None:
        self._folder = folder
        self._largest = largest
        self._token = f"{os.getpid():x}-{secrets.token_hex(4)}"
        self._numbers = count()
        self._ready: set[str] = set()
        #: Messages that can neither be read nor moved: they are skipped.
        self._left: set[tuple[str, str]] = set()

    def put(self, address: str, data: bytes) -> None:
        """Write a message."""
        with _translated("putting a message"):
            inbox = self._inbox(address)
            # By the clock first: the names of one sender sort in the order of sending.
            name = f"{time.time_ns():020}-{self._token}-{next(self._numbers):08}{SUFFIX}"
            hidden = inbox / (HIDDEN + name)
            try:
                with hidden.open("xb") as file:
                    # A user who may not read the folder may not read what is moved out of it.
                    allowed = stat.S_IMODE(inbox.stat().st_mode) | stat.S_IRUSR | stat.S_IWUSR
                    hidden.chmod(stat.S_IMODE(os.fstat(file.fileno()).st_mode) & allowed)
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                hidden.rename(inbox / name)
            except BaseException:
                hidden.unlink(missing_ok=True)
                raise
            _flush_folder(inbox)

    def list(self, address: str) -> Sequence[str]:
        """Return the names of the messages of an inbox, oldest first; other files are ignored."""
        with _translated("reading the inbox"), os.scandir(self._inbox(address)) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(SUFFIX)
                and not entry.name.startswith(HIDDEN)
                and not entry.is_dir(follow_symlinks=False)
                and (address, entry.name) not in self._left
            )

    def get(self, address: str, name: str) -> bytes:
        """Read a message; if it is too long, only as much as shows that."""
        file = self._inbox(address) / name
        try:
            # Only the owner decides what a link points to, and a read would wait for a pipe.
            handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | _NO_FOLLOWING)
        except FileNotFoundError as error:
            raise KeyError(name) from error
        except OSError as error:
            raise self._unreadable(address, name, error) from error
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise UnreadableMessageError(name, "it is no regular file")
            with open(handle, "rb", closefd=False) as opened:
                return opened.read(self._largest + 1)
        except OSError as error:
            raise self._unreadable(address, name, error) from error
        finally:
            os.close(handle)

    def set_aside(self, address: str, name: str) -> str:
        """Move an unreadable message out of the inbox, by its name, and keep it; return where it is.

        If it cannot be moved either, it stays where it is, and this process does not list it again.
        """
        inbox = self._inbox(address)
        kept = inbox / ASIDE / f"{time.time_ns():020}-{name}"
        try:
            make_folder(kept.parent)
            (inbox / name).rename(kept)
        except OSError:
            self._left.add((address, name))
            return str(inbox / name)
        return str(kept)

    def _unreadable(self, address: str, name: str, error: OSError) -> Exception:
        """Return the meaning of an error: for one file, or, if nothing else can be read either, for all."""
        try:
            self._inbox(address).stat()
        except OSError:
            return CarrierUnavailableError("reading a message")
        if error.errno in _OF_EVERYTHING:
            return CarrierUnavailableError("reading a message")
        return UnreadableMessageError(name, error.strerror or type(error).__name__)

    def delete(self, address: str, names: Iterable[str]) -> None:
        """Remove messages."""
        with _translated("deleting messages"):
            inbox = self._inbox(address)
            for name in names:
                if (address, name) not in self._left:
                    (inbox / name).unlink(missing_ok=True)

    def has(self, address: str) -> bool:
        """Whether an inbox exists; reading one makes it."""
        return (self._folder / check_address(address)).is_dir()

    def close(self) -> None:
        """Do nothing: no file is held open."""

    def _inbox(self, address: str) -> Path:
        inbox = self._folder / check_address(address)
        if address not in self._ready:
            make_folder(inbox)
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
    """Remove half-written files of a dead sender."""
    for file in inbox.glob(f"{HIDDEN}*{SUFFIX}"):
        try:
            if time.time() - file.lstat().st_mtime > ABANDONED:
                file.unlink(missing_ok=True)
        except OSError:
            continue  # gone by now, or not a sender's file


def _flush_folder(folder: Path) -> None:
    """Make the new name as durable as the file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
