"""The user of the command line, whatever name they give."""

import os
import socket
from dataclasses import dataclass

try:
    import pwd
except ModuleNotFoundError:  # Windows
    pwd = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class OsUser:
    """A user of the operating system, and the host. ``sudo_user`` is the user who became that user by sudo.

    ``name`` belongs to the process's real user id. ``sudo_user`` is read from ``SUDO_USER``, which users
    without sudo can set as well.
    """

    name: str
    host: str
    sudo_user: str | None = None

    def __str__(self) -> str:
        """Return them as people read them: "root@host", "root@host (sudo: ana)"."""
        sudo = "" if self.sudo_user is None else f" (sudo: {self.sudo_user})"
        return f"{self.name}@{self.host}{sudo}"


def os_user() -> OsUser:
    """Return the user that runs this process."""
    return OsUser(_name(), socket.gethostname(), os.environ.get("SUDO_USER") or None)


def _name() -> str:
    if pwd is None:
        return os.environ.get("USERNAME", "unknown")
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # a container with a user without a name
        return f"user {number}"
