"""Files that hold messages, in our folders: only this user can read them."""

import contextlib
import errno
import os
import stat
from pathlib import Path

from history.errors import ConfigurationError

#: The files that SQLite puts beside a database, with the mode that the database has at that moment.
_BESIDE = ("-wal", "-shm", "-journal")

_MINE_ALONE = 0o600
_OTHERS = 0o007


def make_folder(folder: Path) -> None:
    """Make a folder that only this user may enter, unless it exists; folders above it are as usual."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def create_private(file: Path) -> None:
    """Make an empty file that only this user may read; an existing file stays as it is.

    Raises:
        OSError: it cannot be made; or (with ``errno.ELOOP``) it is a link that leads nowhere, or that another
            user has made: that user could choose where we write.
    """
    try:
        _create(file)
    except FileExistsError:
        about = file.lstat()
        if stat.S_ISLNK(about.st_mode) and (about.st_uid not in {0, os.geteuid()} or not file.exists()):
            raise OSError(errno.ELOOP, "it is a link to a file that is not yours", str(file)) from None


def make_private(database: Path) -> None:
    """Make the file of a SQLite database, empty, so that only this user can ever read its contents.

    If the file or SQLite's files beside it exist, all other users lose their rights to them. The group keeps
    its rights: somebody may have given them on purpose.

    Raises:
        OSError: as in :func:`create_private`.
    """
    create_private(database)
    for file in (database, *(database.with_name(database.name + end) for end in _BESIDE)):
        _withhold(file)


def refuse_open_secret(file: Path, setting: str) -> None:
    """Refuse a file of this user that holds a secret and that all others may read or write.

    Files of another user, and files on a read-only file system, are accepted: Docker and Kubernetes provide
    secrets in this way.

    Raises:
        OSError: the file cannot be examined.
        ConfigurationError: all others may read or write it.
    """
    about = file.stat()
    is_ours = about.st_uid == os.geteuid() and not os.statvfs(file).f_flag & os.ST_RDONLY
    if is_ours and about.st_mode & (stat.S_IROTH | stat.S_IWOTH):
        mode = oct(stat.S_IMODE(about.st_mode)).removeprefix("0o")
        may = "read" if about.st_mode & stat.S_IROTH else "write"
        raise ConfigurationError(setting, f"all users may {may} {file} (mode {mode})", f"chmod 600 {file}")


def state_of(file: Path) -> tuple[int, ...] | None:
    """Return a value that changes if a file is written, replaced or made readable; None if it is gone."""
    try:
        about = file.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_size, about.st_mode


def _create(file: Path) -> None:
    try:
        # Without a descriptor: closing one would release this process's SQLite locks on the file.
        os.mknod(file, stat.S_IFREG | _MINE_ALONE)
    except (AttributeError, PermissionError):  # not available here, or not for every user
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MINE_ALONE))


def _withhold(file: Path) -> None:
    with contextlib.suppress(OSError):  # it is missing, or belongs to another user
        mode = file.stat().st_mode
        if stat.S_ISREG(mode) and mode & _OTHERS:
            file.chmod(stat.S_IMODE(mode) & ~_OTHERS)
