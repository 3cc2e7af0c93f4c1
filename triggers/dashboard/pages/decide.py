"""Deciding: a preview that says how many, a reason that must be given, and what came of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.responses import Response

from history.bridge import drive
from history.errors import ConfigurationError
from history.store.decisions import DecisionKind, OperatorDecision
from history.store.parking import ParkedLabel
from triggers.dashboard.pages.parked import decisions_about
from triggers.dashboard.visit import Visit

#: How long the answer to a decision waits for its end, in seconds; then the next page says how far it is.
PATIENCE = 1.0

#: How many messages a preview names.
NAMED = 10


@dataclass(frozen=True, slots=True)
class Choice:
    """The messages that a decision is about, and how a form names them.

    ``label`` makes a label of one of ``messages``: that of each only when the decision is carried out.
    """

    messages: Sequence[Any]
    label: Callable[[Any], ParkedLabel]
    fields: Sequence[tuple[str, str]]
    #: What they have in common, where they are of a group.
    reason: str | None = None

    @property
    def named(self) -> list[ParkedLabel]:
        """The labels of some of them."""
        return [self.label(one) for one in self.messages[:NAMED]]


def preview(visit: Visit) -> Response:
    """Show how many messages a decision would be about, and which; nothing is changed."""
    return _preview(visit, _wanted(visit.asked("decision")), _chosen(visit))


def _preview(
    visit: Visit, word: DecisionKind, choice: Choice, status: int = 200, problem: str | None = None
) -> Response:
    return visit.show(
        "desk/preview.html",
        status,
        decision=word.value,
        count=len(choice.messages),
        named=choice.named,
        fields=choice.fields,
        reason=choice.reason,
        problem=problem,
    )


def decide(visit: Visit) -> Response:
    """Begin to carry a decision out."""
    word, choice = _wanted(visit.given("decision")), _chosen(visit)
    reason = (visit.given("reason") or "").strip()
    if not choice.messages:
        return visit.problem(409, "Nothing was done", "None of these messages is parked any more.")
    first = choice.named[0]  # all are of one trigger and one kind
    if word.value not in decisions_about(visit, first.trigger_name, first.kind):
        problem = f"{first.kind} messages of {first.trigger_name} cannot be run here"
        raise ConfigurationError("run", problem, "start the dashboard with the module of its trigger")
    if not reason:
        return _preview(visit, word, choice, 422, "Give a reason: it is kept with the decision.")
    decision = OperatorDecision(kind=word, by=visit.session.user, reason=reason)
    labels = [choice.label(one) for one in choice.messages]
    job = visit.operations.jobs.start(decision, labels)
    job.finished.wait(PATIENCE)
    return visit.go("/job", key=job.key)


def job(visit: Visit) -> Response:
    """Show how far a decision is, and what came of it."""
    found = visit.operations.jobs.find(visit.asked("key"))
    if found is None:
        return visit.go("/decisions")
    return visit.show("desk/job.html", job=found, running=not found.finished.is_set())


def _wanted(text: str | None) -> DecisionKind:
    try:
        return DecisionKind(text or "")
    except ValueError as error:
        raise ConfigurationError("decision", f"{text!r} is none", "use run, done or discard") from error


def _chosen(visit: Visit) -> Choice:
    """Find the messages that a form or an address names: one, or a group, or some of a group."""
    named = dict.fromkeys(visit.request.query_params.getlist("id"))
    ids = list(visit.form.get("id", ())) or list(named)
    ask = visit.given if visit.form else visit.asked
    key, until, trigger = ask("key"), ask("until"), ask("trigger")
    if key is None:
        return _one(visit, trigger or "", ids[0] if ids else "", until)
    group = visit.operations.surveyor.latest().group(key)
    if group is None:
        raise ConfigurationError("group", "nothing is left of it", "look at the others")
    moment = group.lines[-1].parked_at if group.lines and until is None else _instant(until)
    everything = ask("all") is not None
    if not ids and not everything:
        raise ConfigurationError("messages", "none is chosen", "tick some, or decide about the whole group")
    lines = group.choose(None if everything else set(ids), moment)
    chosen = [("all", "yes")] if everything else [("id", one) for one in ids]
    return Choice(lines, group.label, [("key", key), ("until", moment.isoformat()), *chosen], group.reason)


def _one(visit: Visit, trigger: str, id_: str, until: str | None) -> Choice:
    parked = drive(visit.operations.store.parking.get(id_, trigger=trigger)) if id_ else None
    if parked is None or parked.id != id_:
        return Choice([], _itself, [])
    if until is not None and parked.parked_at > _instant(until):
        raise ConfigurationError(
            parked.uuid or id_, "it was parked again since you looked", "look at it anew"
        )
    fields = [("trigger", trigger), ("id", id_), ("until", parked.parked_at.isoformat())]
    label = ParkedLabel.of(parked)
    return Choice([label], _itself, fields)


def _itself(label: ParkedLabel) -> ParkedLabel:
    return label


def _instant(text: str | None) -> datetime:
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ConfigurationError("until", f"{text!r} is no time", "open the page again")
    return found
