"""A decision in progress: how far it is; cancel it, and continue it."""

from typing import Any

from starlette.responses import Response

from history.beside.security import SecurityEvent
from history.store.decisions import OperatorDecision
from triggers.dashboard.jobs.job import DecisionJob
from triggers.dashboard.pages.decide import PATIENCE, begin
from triggers.dashboard.visit import Visit
from triggers.operations.pacing import RunPace


def job(visit: Visit) -> Response:
    """Show the progress of a decision, and its results."""
    asked_job = visit.operations.jobs.find(visit.asked("key"))
    if asked_job is None and visit.by_program:
        text = "The dashboard remembers the last decisions only, and none after a restart."
        return visit.problem(404, "There is no such decision", text)
    if asked_job is None:
        return visit.go("/decisions")
    if visit.by_program:
        return visit.data(_facts(visit, asked_job))
    return visit.show("desk/job.html", job=asked_job, running=not asked_job.finished.is_set())


def _facts(visit: Visit, job: DecisionJob) -> dict[str, Any]:
    """Return how far a decision is, and which of its messages stay parked."""
    return {
        "decision": job.decision.kind.value,
        "finished": job.finished.is_set(),
        "total": job.total,
        "closed": job.closed,
        "left": job.left,
        "rest": len(job.rest),
        "rate": None if job.pace is None else job.pace.rate,
        "cancelled_by": job.cancelled_by,
        "error": visit.shown(job.error),
        "parked": [
            {"trigger": share.trigger, "message": name, "why": visit.shown(why)}
            for share in job.shares
            for name, why in share.why_left
        ],
    }


def cancel(visit: Visit) -> Response:
    """Let no other message of a decision have its turn; what has run stays run."""
    asked_job = visit.operations.jobs.find(visit.given("key"))
    if asked_job is None or asked_job.finished.is_set():
        return visit.problem(409, "Nothing to cancel", "This decision is not being carried out any more.")
    event = SecurityEvent.CANCEL
    with visit.recorded([visit.record_of(event, trigger=name) for name in asked_job.triggers]):
        asked_job.cancel(visit.session.user)
    asked_job.finished.wait(PATIENCE)
    return visit.go("/job", key=asked_job.key)


def resume(visit: Visit) -> Response:
    """Begin the same decision again about the messages that have not had their turn."""
    asked_job = visit.operations.jobs.find(visit.given("key"))
    labels = () if asked_job is None or not asked_job.finished.is_set() else asked_job.take_rest()
    if asked_job is None or not labels:
        return visit.problem(409, "Nothing to continue", "Every message of this decision has had its turn.")
    before = asked_job.decision
    decision = OperatorDecision(kind=before.kind, by=visit.session.user, reason=before.reason)
    return begin(visit, decision, labels, None if asked_job.pace is None else RunPace(asked_job.pace.rate))
