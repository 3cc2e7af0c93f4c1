"""Decisions: a preview with the number of messages, a required reason, and the result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

from starlette.responses import Response

from history.beside.security import SecurityEvent, SecurityOutcome, SecurityRecord
from history.bridge import drive
from history.errors import ConfigurationError
from history.store.decisions import DecisionKind, OperatorDecision
from history.store.parking import ParkedKind, ParkedLabel
from triggers.dashboard.groups import Group
from triggers.dashboard.jobs.job import DecisionJob
from triggers.dashboard.pages.parked import why_not_run
from triggers.dashboard.visit import Visit
from triggers.operations.pacing import RunPace, pace_of
from triggers.security.commands import targets
from triggers.security.recorder import Recorder

#: How long the answer to a decision waits for its end, in seconds; then the next page shows the progress.
PATIENCE = 1.0

#: How many messages a preview names.
NAMED = 10

#: How many digits a number of messages has at most.
LONGEST_NUMBER = 9

T = TypeVar("T")

Fields = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class GroupPart:
    """Messages of one trigger and kind for a decision, and how a form names them.

    ``label`` makes a label of one of ``messages``; it is called only when the decision is carried out.
    """

    trigger: str
    kind: ParkedKind
    messages: Sequence[Any]
    label: Callable[[Any], ParkedLabel]
    fields: Fields


@dataclass(frozen=True, slots=True)
class Choice:
    """All messages of a decision, and the fields of a form for the whole decision."""

    parts: Sequence[GroupPart]
    fields: Fields = ()
    #: Why all of them are parked.
    reason: str | None = None

    @property
    def count(self) -> int:
        """How many messages these are."""
        return sum(len(part.messages) for part in self.parts)

    def labels(self, limit: int | None = None) -> list[ParkedLabel]:
        """Return the labels of all messages, or of at most ``limit``."""
        return list(islice((part.label(message) for part in self.parts for message in part.messages), limit))


def preview(visit: Visit) -> Response:
    """Show how many messages a decision would affect, and the result for each; change nothing."""
    return _preview(visit, _wanted(visit.asked("decision")), _chosen(visit))


def _preview(
    visit: Visit, word: DecisionKind, choice: Choice, status: int = 200, problem: str | None = None
) -> Response:
    if visit.by_program and problem is not None:
        return visit.problem(status, "Not done", problem)
    rows = [(part, _barred(visit, word, part)) for part in choice.parts]
    left = replace(choice, parts=[part for part, barred in rows if barred is None])
    if not left.parts:
        _refuse(visit, word, choice)
    return visit.show(
        "desk/preview.html",
        status,
        decision=word.value,
        count=left.count,
        rows=rows,
        named=left.labels(NAMED),
        fields=[*chain.from_iterable(part.fields for part in left.parts), *choice.fields],
        reason=choice.reason,
        problem=problem,
    )


def decide(visit: Visit) -> Response:
    """Begin to carry a decision out."""
    word, choice = _wanted(visit.given("decision")), _chosen(visit)
    reason = (visit.given("reason") or "").strip()
    if not choice.count:
        return visit.problem(409, "Nothing was done", "None of these messages is parked any more.")
    _refuse(visit, word, choice)
    if not reason:
        return _preview(visit, word, choice, 422, "Give a reason: it is kept with the decision.")
    return begin(visit, OperatorDecision(kind=word, by=visit.session.user, reason=reason), choice.labels())


def begin(
    visit: Visit, decision: OperatorDecision, labels: Sequence[ParkedLabel], pace: RunPace | None = None
) -> Response:
    """Begin a decision about messages, and show its progress."""
    pace = pace or pace_of(visit.given("rate"))
    word = decision.kind
    records = [visit.record_of(SecurityEvent(word.value), **target) for target in targets(labels)]
    with visit.recorded(records):
        job = visit.operations.jobs.start(
            decision, labels, ended=partial(_ended, visit.operations.recorder, records), pace=pace
        )
    job.finished.wait(PATIENCE)
    return visit.go("/job", key=job.key)


def _ended(recorder: Recorder, records: Sequence[SecurityRecord], job: DecisionJob) -> None:
    """Record for which triggers a decision was aborted, and how many messages were closed before."""
    closed = {share.trigger: share.closed for share in job.shares if share.error is not None}
    for record in records:
        if record.trigger in closed:
            why = f"it broke off when {closed[record.trigger]} of {record.messages} messages were closed"
            recorder.note(record.after(SecurityOutcome.FAILED, why))


def _barred(visit: Visit, word: DecisionKind, part: GroupPart) -> str | None:
    """Return why a decision cannot be carried out about some messages; None if it can."""
    return why_not_run(visit, part.trigger, part.kind) if word is DecisionKind.RUN else None


def _refuse(visit: Visit, word: DecisionKind, choice: Choice) -> None:
    """Refuse a decision if it cannot be carried out for all of its messages."""
    for part in choice.parts:
        if (barred := _barred(visit, word, part)) is not None:
            problem = f"{part.kind} messages of {part.trigger} cannot be run here: {barred}"
            raise ConfigurationError("run", problem, "start the dashboard with the module of its trigger")


def _wanted(text: str | None) -> DecisionKind:
    try:
        return DecisionKind(text or "")
    except ValueError as error:
        raise ConfigurationError("decision", f"{text!r} is none", "use run, done or discard") from error


def _chosen(visit: Visit) -> Choice:
    """Find the messages that a form or an address names: one, some of a group, or all of some groups."""
    keys, ids = _given(visit, "key"), _given(visit, "id")
    if not keys:
        return _one(visit, next(iter(_given(visit, "trigger")), ""), next(iter(ids), ""))
    survey = visit.operations.surveyor.latest()
    untils, shown = _of_each(visit, "until", keys, _instant), _of_each(visit, "shown", keys, _number)
    filters = visit.filters
    whole = [group for key in dict.fromkeys(keys) if (group := survey.group(key)) is not None]
    groups = [narrowed for group in whole if (narrowed := filters.narrow(group)) is not None]
    hosts = {group.host for group in groups}
    if not groups:
        raise ConfigurationError("group", "nothing is left of it", "look at the others")
    if len(groups) > 1 and (len(hosts) > 1 or None in hosts):
        raise ConfigurationError("group", "these are not of one host", "decide about one after the other")
    everything = bool(_given(visit, "all"))
    if not ids and not everything:
        raise ConfigurationError("messages", "none is chosen", "tick some, or decide about the whole group")
    some = None if everything else set(ids)
    parts = [_part(group, some, untils.get(group.key), shown.get(group.key)) for group in groups]
    fields = [("all", "yes")] if everything else [("id", id_) for id_ in dict.fromkeys(ids)]
    fields += filters.given.items()
    return Choice([part for part in parts if part.messages], fields, groups[0].reason)


def _given(visit: Visit, name: str) -> Sequence[str]:
    """Return all values of a name in a form, or else in the address."""
    return visit.form.get(name, ()) if visit.form else visit.request.query_params.getlist(name)


def _of_each(visit: Visit, name: str, keys: Sequence[str], read: Callable[[str], T]) -> Mapping[str, T]:
    """Return the value of a name for each group, by the groups' keys; nothing without a value."""
    texts = _given(visit, name)
    if texts and len(texts) != len(keys):
        raise ConfigurationError(name, "it is not given for each group", "open the page again")
    return dict(zip(keys, map(read, texts), strict=False))


def _part(group: Group, ids: set[str] | None, until: datetime | None, shown: int | None) -> GroupPart:
    """Choose messages of a group; the page showed at most ``shown`` of them.

    A message that is parked later is not always the newest: clocks differ, and a survey takes time.
    """
    if until is None and group.lines:
        until = group.lines[-1].parked_at
    messages = group.choose(ids, until)
    if shown is not None and len(messages) > shown:
        problem = f"{len(messages)} of {group.trigger} are parked, and you were shown {shown}"
        raise ConfigurationError("group", problem, "look at them again")
    moments = [] if until is None else [("until", until.isoformat())]
    fields = [("key", group.key), *moments, ("shown", str(len(messages)))]
    return GroupPart(group.trigger, group.kind, messages, group.label, fields)


def _one(visit: Visit, trigger: str, id_: str) -> Choice:
    parked = drive(visit.operations.lot_of(trigger).parking.get(id_, trigger=trigger)) if id_ else None
    if parked is None or parked.id != id_:
        return Choice([])
    if any(parked.parked_at > _instant(until) for until in _given(visit, "until")):
        raise ConfigurationError(
            parked.uuid or id_, "it was parked again since you looked", "look at it again"
        )
    fields = [("trigger", trigger), ("id", id_), ("until", parked.parked_at.isoformat())]
    label = ParkedLabel.of(parked)
    return Choice([GroupPart(trigger, parked.kind, [label], _itself, fields)], reason=label.reason)


def _itself(label: ParkedLabel) -> ParkedLabel:
    return label


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise ConfigurationError("until", f"{text!r} is no time", "open the page again")
    return instant


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER):
        raise ConfigurationError("shown", f"{text!r} is no number", "open the page again")
    return int(text)
