"""One parked message: the question, what is known, what it holds, and the two answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.responses import Response

from history.bridge import drive
from history.entry import Entry
from history.store import HistoryStore
from history.store.parking import Parked, ParkedKind
from triggers.cli.history import state_of
from triggers.cli.parked.deciding import decided_about
from triggers.cli.parked.resolving import ResolverAnswer, answer_now
from triggers.dashboard.pages.parked import decisions_about
from triggers.dashboard.rendering import body_of
from triggers.dashboard.visit import Visit


@dataclass(frozen=True, slots=True)
class Event:
    """Something that is known to have happened to a message."""

    at: datetime
    what: str
    detail: str = ""


def message(visit: Visit) -> Response:
    """Show a parked message."""
    parked = _asked_for(visit.operations.store, visit.asked("trigger"), visit.asked("id"))
    return _gone(visit) if parked is None else _shown(visit, parked)


def resolve(visit: Visit) -> Response:
    """Show a parked message with what its trigger's resolver says now; nothing is changed."""
    parked = _asked_for(visit.operations.store, visit.given("trigger"), visit.given("id"))
    if parked is None:
        return _gone(visit)
    return _shown(visit, parked, answer_now(visit.operations.triggers.get(parked.trigger_name), parked))


def _asked_for(store: HistoryStore, trigger: str | None, id_: str | None) -> Parked | None:
    parked = drive(store.parking.get(id_, trigger=trigger or "")) if id_ else None
    return parked if parked is not None and parked.id == id_ else None


def _gone(visit: Visit) -> Response:
    text = "It was decided, or closed because its original has completed. The decisions say more."
    return visit.problem(404, "This message is not parked any more", text)


def _shown(visit: Visit, parked: Parked, answer: ResolverAnswer | None = None) -> Response:
    operations, trigger = visit.operations, parked.trigger_name
    entry = None if parked.uuid is None else drive(operations.store.lookup(trigger, [parked.uuid]))[0]
    decided = decided_about([operations.store.parking], trigger, id_=parked.id)
    code, whole = operations.triggers.get(trigger), visit.sees_bodies
    return visit.show(
        "desk/message.html",
        parked=parked,
        entry=entry,
        entry_state=None if entry is None else state_of(entry),
        question=question(parked),
        events=sorted(_events(parked, entry, decided), key=lambda event: event.at),
        headers=parked.message.headers() if whole and parked.message is not None else None,
        body=body_of(parked.message) if whole and parked.message is not None else None,
        raw=parked.raw if whole else None,
        decisions=decisions_about(visit, trigger, parked.kind),
        has_code=code is not None,
        has_resolver=code is not None and code.resolver is not None,
        answer=answer,
    )


def question(parked: Parked) -> str:
    """Return what somebody is to find out."""
    name = parked.uuid or parked.id
    match parked.kind:
        case ParkedKind.IN_DOUBT:
            return f"Did {parked.trigger_name} happen for {name}?"
        case ParkedKind.REJECTED:
            return f"{parked.trigger_name} did not happen for {name}. Is its cause mended?"
        case ParkedKind.UNREADABLE:
            return f"What came for {parked.trigger_name} could not be read. Was it sent again?"


def _events(parked: Parked, entry: Entry | None, decided: Sequence[dict[str, Any]]) -> Iterator[Event]:
    sent = None if parked.message is None else parked.message.timestamp
    if sent is not None:
        yield Event(sent, "sent")
    evidence = parked.evidence
    if evidence.started_at is not None:
        yield Event(evidence.started_at, "an earlier run started", _owner(evidence.owner, evidence.fence))
    times = "" if parked.copies == 1 else f", {parked.copies} times in all"
    count = evidence.delivery_count
    delivery = f"at its delivery number {count}" if count > 0 else "its provider counts no deliveries"
    yield Event(parked.parked_at, f"parked{times}", delivery)
    if entry is not None and evidence.fence is not None and entry.fence != evidence.fence:
        yield Event(entry.started_at, "started again since", _owner(entry.owner, entry.fence))
    if entry is not None and entry.lease_until is not None:
        yield Event(entry.lease_until, "its lease ends" if entry.lease_alive else "its lease was over")
    for one in decided:
        detail = ": ".join(filter(None, [one["reason"], one["outcome"]]))
        yield Event(one["at"], f"{one['by']} decided: {one['decision']}", detail)


def _owner(owner: str | None, fence: int | None) -> str:
    """Return who ran it, in words; tokens of owners begin with host and process."""
    parts = (owner or "").removeprefix("decided:").split(":")
    at = f"on {parts[0]}, process {parts[1]}" if len(parts) > 2 else f"by {owner}" if owner else ""  # noqa: PLR2004
    return ", ".join(filter(None, [at, None if fence is None else f"fence {fence}"]))
