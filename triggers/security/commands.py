"""The user of the command line, and records of what they decide and command there."""

import os
import socket
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from history.beside.kept import beside_of
from history.beside.security import SecurityEvent, SecurityOutcome, SecurityRecord
from history.store import HistoryStore
from history.store.parking import ParkedLabel
from history.support.rendering import class_of
from triggers.security.recorder import Recorder


def targets(labels: Iterable[ParkedLabel]) -> Iterator[Mapping[str, Any]]:
    """Yield, for each trigger, the number of parked messages, and the message if it is the only one."""
    mine: dict[str, list[ParkedLabel]] = {}
    for label in labels:
        mine.setdefault(label.trigger_name, []).append(label)
    for trigger, some in mine.items():
        message = (some[0].uuid or some[0].id) if len(some) == 1 else None
        yield {"trigger": trigger, "message": message, "messages": len(some)}


def command_record(event: SecurityEvent, *, by: str | None = None, **target: Any) -> SecurityRecord:
    """Return the record of a command of this process's user."""
    user = os_user()
    return SecurityRecord(
        event=event,
        outcome=SecurityOutcome.ALLOWED,
        user=user.name,
        sudo_user=user.sudo_user,
        by=by,
        source=user.host,
        way="command line",
        **target,
    )


@contextmanager
def recorded(store: HistoryStore | None, records: Sequence[SecurityRecord]) -> Generator[None]:
    """Record the work inside, before it is done; if it fails, record that as well.

    Without a history only the log has it.

    Raises:
        DoubtlessError: the history does not take the records: nothing is done.
    """
    kept = beside_of(store)
    log = None if kept is None else kept.security_log
    with recorded_by(Recorder(log, kept_for=None, background=False), records):
        yield


@contextmanager
def recorded_by(recorder: Recorder, records: Sequence[SecurityRecord]) -> Generator[None]:
    """As :func:`recorded`, with an existing recorder."""
    recorder.keep(records)
    try:
        yield
    except Exception as error:
        for record in records:
            recorder.note(record.after(SecurityOutcome.FAILED, class_of(error)))
        raise


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
