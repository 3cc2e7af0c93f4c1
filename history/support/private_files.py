"""Files that hold messages, in folders of ours: nobody but this user reads them."""

import contextlib
import errno
import os
import stat
from pathlib import Path

from history.errors import ConfigurationError

#: What SQLite puts beside a database, with the mode that the database has at that moment.
_BESIDE = ("-wal", "-shm", "-journal")

_MINE_ALONE = 0o600
_OTHERS = 0o007


def make_folder(folder: Path) -> None:
    """Make a folder that only this user may enter, unless it is there; folders above it are as usual."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def create_private(file: Path) -> None:
    """Make a file, empty, that only this user may read; one that is there stays as it is.

    Raises:
        OSError: it cannot be made; or (with ``errno.ELOOP``) it is a link that leads nowhere, or that another
            user has made: what is written would go where somebody else wants it.
    """
    try:
        _create(file)
    except FileExistsError:
        about = file.lstat()
        if stat.S_ISLNK(about.st_mode) and (about.st_uid not in {0, os.geteuid()} or not file.exists()):
            raise OSError(errno.ELOOP, "it is a link, and not to a file of yours", str(file)) from None


def make_private(database: Path) -> None:
    """Make the file of a SQLite database, empty, so that only this user may ever read what is written there.

    From a file that is there, and from SQLite's files beside it, the rights of all others are taken. The
    group's stay: somebody may have given them on purpose.

    Raises:
        OSError: as of :func:`create_private`.
    """
    create_private(database)
    for file in (database, *(database.with_name(database.name + end) for end in _BESIDE)):
        _withhold(file)


def refuse_open_secret(file: Path, setting: str) -> None:
    """Refuse a file of this user's with a secret that all others may read.

    What somebody else has made, and what stands on a file system that cannot be written, is accepted: so come
    the secrets of Docker and Kubernetes.

    Raises:
        OSError: it cannot be looked at.
        ConfigurationError: all others may read it.
    """
    about = file.stat()
    is_ours = about.st_uid == os.geteuid() and not os.statvfs(file).f_flag & os.ST_RDONLY
    if is_ours and about.st_mode & stat.S_IROTH:
        mode = oct(stat.S_IMODE(about.st_mode)).removeprefix("0o")
        raise ConfigurationError(setting, f"all users may read {file} (mode {mode})", f"chmod 600 {file}")


def state_of(file: Path) -> tuple[int, ...] | None:
    """Return what tells whether a file was written, replaced or made readable; None where it is gone."""
    try:
        about = file.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_size, about.st_mode


def _create(file: Path) -> None:
    try:
        # Without a descriptor: closing one lets go of SQLite's locks on it in this process.
        os.mknod(file, stat.S_IFREG | _MINE_ALONE)
    except (AttributeError, PermissionError):  # not here, or not for everybody
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MINE_ALONE))


def _withhold(file: Path) -> None:
    with contextlib.suppress(OSError):  # it is not there, or somebody else's
        mode = file.stat().st_mode
        if stat.S_ISREG(mode) and mode & _OTHERS:
            file.chmod(stat.S_IMODE(mode) & ~_OTHERS)
