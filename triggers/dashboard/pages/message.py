"""One parked message: the question, the known facts, its content, and the two answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from history.beside.comments import Comment
from history.beside.journal import JournalLine
from history.beside.kept import KeepsBeside
from history.beside.sealing import why_locked
from history.beside.security import SecurityEvent
from history.bridge import drive
from history.errors import UnavailableError
from history.store.parking import Parked, ParkedKind, ParkedLabel
from triggers.dashboard.pages.export import row
from triggers.dashboard.pages.overview import last_survey
from triggers.dashboard.pages.parked import decisions_about, why_not_run
from triggers.dashboard.pages.timeline import KnownFacts, owner_in_words, timeline
from triggers.dashboard.pulse import problem_of
from triggers.dashboard.rendering import body_of
from triggers.dashboard.visit import Visit, outage
from triggers.operations.comparing import Comparison, compared
from triggers.operations.decisions import decided_about
from triggers.operations.entries import state_of
from triggers.operations.messages import comments_about
from triggers.operations.resolving import ResolverAnswer


def message(visit: Visit) -> Response:
    """Show a parked message; while its lot is away, what the last survey knew of it."""
    trigger, id_ = visit.trigger(), visit.asked("id")
    try:
        parked = _asked_for(visit, trigger, id_)
        return _gone(visit, trigger) if parked is None else _shown(visit, parked)
    except UnavailableError as error:
        known = None if visit.by_program else _last_known(visit, trigger or "", id_ or "")
        if known is None:
            raise
        return _not_now(visit, known, outage(visit.operations.pulse, error))


def _last_known(visit: Visit, trigger: str, id_: str) -> ParkedLabel | None:
    groups = (group for group in last_survey(visit.operations).groups if group.trigger == trigger)
    return next((group.label(line) for group in groups for line in group.choose({id_}, None)), None)


def _not_now(visit: Visit, known: ParkedLabel, text: str) -> Response:
    operations = visit.operations
    return visit.show(
        "desk/last_known.html",
        503,
        title="The history does not answer",
        text=text,
        again=True,
        known=known,
        owner=owner_in_words(known.evidence.owner, known.evidence.fence),
        counted_at=operations.surveyor.counted_at(operations.pulse.lot_source_of(known.trigger_name)),
    )


def resolve(visit: Visit) -> Response:
    """Show a parked message with its resolver's present answer; change nothing."""
    parked = _asked_for(visit, visit.given("trigger"), visit.given("id"))
    if parked is None:
        return _gone(visit, visit.given("trigger"))
    trigger = visit.operations.triggers.get(parked.trigger_name)
    return _shown(visit, parked, visit.operations.questions.ask(trigger, parked))


def _asked_for(visit: Visit, trigger: str | None, id_: str | None) -> Parked | None:
    parking = visit.operations.lot_of(trigger).parking
    parked = drive(parking.get(id_, trigger=trigger or "")) if id_ else None
    return parked if parked is not None and parked.id == id_ else None


def _gone(visit: Visit, trigger: str | None) -> Response:
    if (where := visit.operations.unseen(trigger or "")) is not None:
        return visit.problem(404, "This message cannot be shown", f"What {trigger} parks is {where}.")
    text = "It was decided, or closed because its original has completed. The decisions say more."
    return visit.problem(404, "This message is not parked any more", text)


def _shown(visit: Visit, parked: Parked, answer: ResolverAnswer | None = None) -> Response:
    operations, trigger = visit.operations, parked.trigger_name
    store, lot = operations.store_of(trigger), operations.lot_of(trigger)
    entry, lines, silence = None, list[JournalLine](), None
    try:
        entry = None if parked.uuid is None else drive(store.lookup(trigger, [parked.uuid]))[0]
        lines = [*_lines_of(store, parked)]
    except UnavailableError as error:
        if store is lot:
            raise
        silence = problem_of(error)
    code, whole = operations.triggers.get(trigger), visit.sees_bodies
    locked = why_locked(parked)
    if whole and not (parked.message is None and parked.raw is None):
        visit.record(SecurityEvent.VIEW_BODY, trigger=trigger, message=parked.uuid or parked.id)
    decided = decided_about([lot.parking], trigger, id_=parked.id)
    written = comments_about(lot, trigger, parked.id)
    if visit.by_program:
        return visit.data(_facts(visit, parked, decided, written))
    return visit.show(
        "desk/message.html",
        parked=parked,
        entry=entry,
        silence=silence,
        entry_state=None if entry is None else state_of(entry),
        entry_owner=None if entry is None else owner_in_words(entry.owner, None),
        question=question(parked),
        events=timeline(
            KnownFacts(
                parked=parked,
                entry=entry,
                lines=lines,
                decisions=decided,
                comments=written,
                lease=None if code is None else code.settings.lease,
            )
        ),
        headers=parked.message.headers() if whole and parked.message is not None else None,
        body=body_of(parked.message) if whole and parked.message is not None else None,
        raw=parked.raw if whole and locked is None else None,
        comparison=compared(lot.parking, parked) if whole else Comparison(),
        locked=locked,
        decisions=decisions_about(visit, trigger, parked.kind),
        not_run=why_not_run(visit, trigger, parked.kind),
        has_code=code is not None,
        has_resolver=code is not None and code.resolver is not None,
        answer=answer,
        assigned_to=_assigned_to(written),
    )


def _assigned_to(written: Sequence[Mapping[str, Any]]) -> str | None:
    """Return to whom a message is assigned now."""
    names = [comment["assigned_to"] for comment in written if comment["assigned_to"] is not None]
    return (names[-1] or None) if names else None


def comment(visit: Visit) -> Response:
    """Add somebody's comment on a parked message, or assign the message."""
    parked = _asked_for(visit, visit.given("trigger"), visit.given("id"))
    if parked is None:
        return _gone(visit, visit.given("trigger"))
    trigger, assign = parked.trigger_name, visit.given("assign")
    comments = visit.operations.lot_of(trigger).comments
    before = drive(comments.assigned(trigger, [parked.id])).get(parked.id, "")
    is_same = assign is not None and assign.strip() == before
    written = Comment.checked(
        parked.id,
        by=visit.session.user,
        text=visit.given("text"),
        assigned_to=None if is_same else assign,
    )
    target: dict[str, Any] = {"trigger": trigger, "message": parked.uuid or parked.id}
    with visit.recorded([visit.record_of(SecurityEvent.COMMENT, **target)]):
        drive(comments.add(trigger, written))
    return visit.go("/message", trigger=trigger, id=parked.id)


def _facts(
    visit: Visit,
    parked: Parked,
    decided: Sequence[Mapping[str, Any]],
    written: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return what a program gets of a message: the row of an export, and what can be, and was, decided."""
    texts = ("reason", "outcome")
    return row(parked, None if visit.sees_bodies else visit.shown) | {
        "question": question(parked),
        "decisions": decisions_about(visit, parked.trigger_name, parked.kind),
        "assigned_to": _assigned_to(written),
        "comments": [{**comment, "text": visit.shown(comment["text"])} for comment in written],
        "decided": [{**taken, **{key: visit.shown(taken[key]) for key in texts}} for taken in decided],
    }


def _lines_of(store: KeepsBeside, parked: Parked) -> Sequence[JournalLine]:
    return [] if parked.uuid is None else drive(store.journal.read(parked.trigger_name, parked.uuid))


def question(parked: Parked) -> str:
    """Return the question that a person must answer."""
    name = parked.uuid or parked.id
    match parked.kind:
        case ParkedKind.IN_DOUBT:
            return f"Did {parked.trigger_name} happen for {name}?"
        case ParkedKind.REJECTED:
            return f"{parked.trigger_name} did not happen for {name}. Is its cause fixed?"
        case ParkedKind.UNREADABLE:
            return f"What came for {parked.trigger_name} could not be read. Was it sent again?"
