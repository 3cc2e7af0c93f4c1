"""Alarms, which stop a link until somebody decides: one end does not match what the other end knows.

The original has no such alarms. Without them a restored subscriber asks for ever for work that its publisher
considers confirmed. And the new work of a restored publisher is discarded as duplicates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from history.store.watermark import Epoch, Offset

#: How one end gets the data of the other one.
_EXTRACT: Final = "run doubtless sqlremote extract at the end that is right, and load it at the other one"


class AlarmKind(StrEnum):
    """Why a link is stopped."""

    SUBSCRIBER_REGRESSED = "SUBSCRIBER_REGRESSED"
    AHEAD_OF_LOG = "AHEAD_OF_LOG"
    EPOCH_MISMATCH = "EPOCH_MISMATCH"
    LOG_DIFFERS = "LOG_DIFFERS"
    SUBSCRIPTION_CHANGED = "SUBSCRIPTION_CHANGED"
    EXTRACT_NEEDED = "EXTRACT_NEEDED"


#: The alarms that only an extract ends, or a reset.
EXTRACT: Final = (AlarmKind.SUBSCRIPTION_CHANGED, AlarmKind.EXTRACT_NEEDED)


@dataclass(frozen=True, slots=True)
class Alarm:
    """A link stops; ``problem`` says what was seen, ``remedy`` what to do."""

    kind: AlarmKind
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.problem}; {self.remedy}"


def regressed(asked: Offset, confirmed: Offset) -> Alarm:
    """Return the alarm of a publisher if its subscriber asks for work that it confirmed already."""
    return Alarm(
        AlarmKind.SUBSCRIBER_REGRESSED,
        f"the peer confirmed work up to {confirmed}, and now asks for everything after {asked}: "
        "it was restored from a backup",
        f"send that again: doubtless sqlremote reset SETTINGS LINK --confirmed {asked}; if the log does not "
        "hold it any more, run doubtless sqlremote extract here, and load it there",
    )


def ahead_of_log(confirmed: Offset, log_end: Offset, log_send: Offset) -> Alarm:
    """Return the alarm of a publisher if its subscriber has more than its log, or than was sent from it."""
    ends = confirmed > log_end
    seen = f"the log here ends at {log_end}" if ends else f"nothing beyond {log_send} was sent from here"
    return Alarm(
        AlarmKind.AHEAD_OF_LOG,
        f"the peer has work up to {confirmed}, and {seen}: this database was restored from a backup",
        f"restore the rest of the log, or {_EXTRACT}",
    )


def epoch_mismatch(theirs: Epoch, ours: Epoch) -> Alarm:
    """Return the alarm of an end if the peer names another incarnation of a log than it knows."""
    return Alarm(
        AlarmKind.EPOCH_MISMATCH,
        f"the peer speaks of the log {theirs}, and the log known here is {ours}: "
        "one end was restored or reset",
        f"load the extract that the peer has made, or {_EXTRACT}",
    )


def peer_differs(received: Offset) -> Alarm:
    """Return the alarm of a publisher if its subscriber has applied other work than the log here has."""
    return Alarm(
        AlarmKind.LOG_DIFFERS,
        f"up to offset {received} the peer has applied other work than the log here holds: "
        "this database was restored from a backup, and has committed since",
        f"restore the rest of the log, or {_EXTRACT}",
    )


def log_differs(received: Offset) -> Alarm:
    """Return the alarm of a subscriber that gets other work under the offset that it applied last."""
    return Alarm(
        AlarmKind.LOG_DIFFERS,
        f"the peer sends other work under offset {received} than was applied here: "
        "it was restored from a backup, and has committed since",
        f"restore the rest of the peer's log, or {_EXTRACT}",
    )


def subscription_changed(link: str, had: str | None) -> Alarm:
    """Return the alarm of a publisher if its peer still has the rows of its old subscription."""
    rows = "all rows" if had is None else f"the rows of the subscription {had!r}"
    return _extract_for(link, f"the subscription was changed, and the peer still has {rows}")


def log_cut(link: str, publication: str) -> Alarm:
    """Return the alarm of a new publisher whose log does not begin at the beginning."""
    problem = f"the link is new, and a part of the log of {publication} was deleted: the peer would miss it"
    return _extract_for(link, problem, AlarmKind.EXTRACT_NEEDED)


def revoked_before(link: str) -> Alarm:
    """Return the alarm of a new link if old messages may still arrive."""
    problem = "a link to this peer was revoked: its old messages may still arrive"
    return _extract_for(link, problem, AlarmKind.EXTRACT_NEEDED)


def column_changed(link: str, tables: Sequence[str]) -> Alarm:
    """Return the alarm of a publisher if another column says now which rows of these tables its peer gets."""
    return _extract_for(
        link, f"another column of {', '.join(tables)} selects the rows now, and the peer has the old ones"
    )


def awaits_extract(stopped: str) -> bool:
    """Whether a link that is stopped for this reason needs an extract for its peer."""
    return any(kind in stopped for kind in EXTRACT)


def _extract_for(link: str, problem: str, kind: AlarmKind = AlarmKind.SUBSCRIPTION_CHANGED) -> Alarm:
    return Alarm(
        kind,
        problem,
        f"run doubtless sqlremote extract SETTINGS {link} --to FILE here, and load FILE at the peer",
    )
