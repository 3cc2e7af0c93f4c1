"""Records what a user decides and commands on the command line."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from history.store import HistoryStore
from history.store.parking import ParkedLabel
from history.store.security import SecurityEvent, SecurityOutcome, SecurityRecord, security_log_of
from history.support.rendering import class_of
from triggers.security.people import os_user
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
    log = None if store is None else security_log_of(store)
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
