"""The evidence about a parked message as a timeline: every stored fact, in order of time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from history.beside.journal import JournalLine
from history.entry import Entry, State
from history.store.parking import Parked, ParkedKind
from triggers.operations.decisions import decider

#: How owners' tokens of unusual runs begin, and what that means.
_ORIGINS = {"decided:": "by somebody's decision", "done:": "to settle it as done"}


@dataclass(frozen=True, slots=True)
class Event:
    """A known event in the life of a message.

    ``holds_texts``: the detail holds a text of an error, a resolver or a person.
    """

    at: datetime
    what: str
    detail: str = ""
    holds_texts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFacts:
    """The facts about a message in the parking lot, the history, the journal and the audit trail.

    ``lease`` is its trigger's present lease, None if its code is not loaded.
    """

    parked: Parked
    entry: Entry | None
    lines: Sequence[JournalLine]
    decisions: Sequence[dict[str, Any]]
    comments: Sequence[Mapping[str, Any]]
    lease: timedelta | None


def timeline(facts: KnownFacts) -> list[Event]:
    """Return the known events, the oldest first."""
    events = [*_parked(facts.parked), *_entry(facts), *_journal(facts.lines), *_decided(facts.decisions)]
    events += _written(facts.comments)
    return sorted(events, key=lambda event: event.at)


def _parked(parked: Parked) -> Iterator[Event]:
    message, evidence = parked.message, parked.evidence
    if message is not None and message.timestamp is not None:
        to = None if parked.destination is None else f"to {parked.destination}"
        yield Event(message.timestamp, "sent", _words(to, message.message_id))
    if message is not None and message.expiration is not None:
        yield Event(message.expiration, "it expires at its provider")
    if evidence.started_at is not None:
        yield Event(
            evidence.started_at, "an earlier run claimed it", owner_in_words(evidence.owner, evidence.fence)
        )
    count = evidence.delivery_count
    delivery = f"at its delivery number {count}" if count > 0 else "its provider counts no deliveries"
    failed = None
    if parked.kind is ParkedKind.REJECTED and parked.error_class is not None:
        failed = f"after {parked.error_class}"
    times = "" if parked.copies == 1 else f", {parked.copies} times in all, this is the last"
    yield Event(parked.parked_at, f"parked{times}", _words(delivery, failed))


def _entry(facts: KnownFacts) -> Iterator[Event]:
    entry, evidence = facts.entry, facts.parked.evidence
    if entry is None:
        return
    is_parked_one = evidence.fence is not None and entry.is_of(evidence.fence)
    if not is_parked_one or evidence.started_at is None:
        what = "claimed" if evidence.fence is None or is_parked_one else "claimed again since"
        yield Event(entry.started_at, what, owner_in_words(entry.owner, entry.fence))
    if entry.state is State.STARTED and entry.lease_until is not None:
        yield from _heartbeat(entry.started_at, entry.lease_until, facts.lease)
        yield Event(entry.lease_until, "its lease ends" if entry.lease_alive else "its lease was over")
    yield Event(entry.expires_at, "the history forgets it, unless it is renewed")


def _heartbeat(started_at: datetime, lease_until: datetime, lease: timedelta | None) -> Iterator[Event]:
    """Yield when the lease was last renewed, by the trigger's present lease."""
    if lease is None or lease_until - lease < started_at:
        return
    beat = lease_until - lease
    what = "last heartbeat" if beat > started_at else "no heartbeat since its claim"
    yield Event(beat, what, f"by the lease of {lease.total_seconds():g} s that its trigger has now")


def _journal(lines: Sequence[JournalLine]) -> Iterator[Event]:
    for line in lines:
        if line.at is not None:
            delivery = f"delivery number {line.delivery_count}" if line.delivery_count > 0 else None
            fence = None if line.fence is None else f"fence {line.fence}"
            by = None if line.by is None else f"by {line.by}"
            yield Event(
                line.at,
                f"journal: {line.verdict}",
                _words(line.reason, delivery, fence, by),
                holds_texts=True,
            )


def _decided(decisions: Sequence[dict[str, Any]]) -> Iterator[Event]:
    for decision in decisions:
        detail = ": ".join(filter(None, [decision["reason"], decision["outcome"]]))
        yield Event(
            decision["at"], f"{decider(decision)} decided: {decision['decision']}", detail, holds_texts=True
        )


def _written(comments: Sequence[Mapping[str, Any]]) -> Iterator[Event]:
    for comment in comments:
        name = comment["assigned_to"]
        to = None if name is None else f"assigned to {name}" if name else "assigned to nobody"
        yield Event(comment["at"], f"{decider(comment)} wrote", _words(to, comment["text"]), holds_texts=True)


def owner_in_words(owner: str | None, fence: int | None) -> str:
    """Return who ran it, in words; tokens of owners begin with host and process."""
    origin = next((text for prefix, text in _ORIGINS.items() if (owner or "").startswith(prefix)), None)
    parts = (owner or "").partition(":")[2].split(":") if origin else (owner or "").split(":")
    usual = len(parts) > 2  # noqa: PLR2004  (host, process and what makes the token unique)
    at = f"on {parts[0]}, process {parts[1]}" if usual else f"by {owner}" if owner else None
    return _words(at, origin, None if fence is None else f"fence {fence}")


def _words(*parts: str | None) -> str:
    return ", ".join(filter(None, parts))
