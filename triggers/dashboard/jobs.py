"""Decisions that are being carried out, one after the other, while pages show how far they are."""

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from secrets import token_hex
from threading import Event, Lock

from history.bridge import drive
from history.store import CLAIM_BATCH, HistoryStore
from history.store.decisions import DecisionKind, OperatorDecision
from history.store.parking import ParkedLabel
from history.support.rendering import text_of
from triggers.cli.parked.commands import run_row
from triggers.consumer.options import AnyTrigger
from triggers.dashboard.survey import Surveyor
from triggers.pipeline.parking.decisions import GONE, decide

_log = logging.getLogger(__name__)

#: How many jobs are remembered, and how many of the messages that a job leaves parked are named.
REMEMBERED, NAMED = 200, 50


@dataclass(slots=True)
class Job:
    """One decision about ``total`` messages: how many are closed, and why others stay parked."""

    decision: OperatorDecision
    total: int
    key: str = field(default_factory=lambda: token_hex(8))
    closed: int = 0
    left: int = 0
    why_left: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    error: str | None = None
    finished: Event = field(default_factory=Event)

    def close(self, count: int) -> None:
        """Count messages that are not parked any more."""
        self.closed += count

    def leave(self, label: ParkedLabel, why: str) -> None:
        """Count a message that stays parked."""
        self.left += 1
        if len(self.why_left) < NAMED:
            self.why_left.append((label.uuid or label.id, why))


class Jobs:
    """Carries decisions out in one thread of its own, in the order in which they were taken.

    Runs need ``triggers``, by name; ``history`` is the URL for those that name none.
    """

    def __init__(
        self, store: HistoryStore, surveyor: Surveyor, triggers: dict[str, AnyTrigger], history: str
    ) -> None:
        self._store, self._surveyor = store, surveyor
        self._triggers, self._history = triggers, history
        self._known: dict[str, Job] = {}
        self._lock = Lock()
        self._ending = Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decisions")

    def start(self, decision: OperatorDecision, labels: Sequence[ParkedLabel]) -> Job:
        """Begin to carry a decision out."""
        job = Job(decision, len(labels))
        with self._lock:
            self._known[job.key] = job
            while len(self._known) > REMEMBERED:
                del self._known[next(iter(self._known))]
        self._thread.submit(self._carry_out, job, labels)
        return job

    def find(self, key: str | None) -> Job | None:
        """Return a job by its key, if it is still remembered."""
        with self._lock:
            return self._known.get(key or "")

    def close(self) -> None:
        """Finish the step that is being done; messages that have not had their turn stay parked."""
        self._ending.set()
        self._thread.shutdown(wait=True)

    def _carry_out(self, job: Job, labels: Sequence[ParkedLabel]) -> None:
        try:
            run = job.decision.kind is DecisionKind.RUN
            for number, piece in enumerate(_pieces(labels)):
                if self._ending.is_set():
                    job.error = "the dashboard was stopped: the others stay parked"
                    return
                # The audit trail puts the steps of one decision together by what stands before "/".
                step = job.decision.model_copy(update={"token": f"{job.decision.token}/{number}"})
                taken = self._run(job, piece, step) if run else self._settle(job, piece, step)
                self._surveyor.take_out(taken)
        except Exception as error:  # noqa: BLE001  (whatever it is, the page says it, and the next job runs)
            _log.warning("a decision about parked messages failed", exc_info=True)
            job.error = text_of(error)
        finally:
            job.finished.set()

    def _settle(
        self, job: Job, labels: Sequence[ParkedLabel], step: OperatorDecision
    ) -> Sequence[ParkedLabel]:
        taken: list[ParkedLabel] = []
        for verdict in drive(decide(labels, step, lot=self._store.parking, store=self._store)):
            if verdict.left is None:
                job.close(1)
            else:
                job.leave(verdict.label, verdict.left)
            if verdict.left in {None, GONE}:
                taken.append(verdict.label)
        return taken

    def _run(self, job: Job, labels: Sequence[ParkedLabel], step: OperatorDecision) -> Sequence[ParkedLabel]:
        drive(decide(labels, step, lot=self._store.parking, store=None))
        taken: list[ParkedLabel] = []
        for label in labels:
            if self._ending.is_set():
                break
            row = run_row(self._store.parking, label, self._triggers[label.trigger_name], self._history)
            if row["closed"]:
                job.close(1)
                taken.append(label)
            else:
                job.leave(label, ": ".join(filter(None, [row["reason"], row["error"]])))
        return taken


def _pieces(labels: Sequence[ParkedLabel]) -> Iterator[Sequence[ParkedLabel]]:
    for start in range(0, len(labels), CLAIM_BATCH):
        yield labels[start : start + CLAIM_BATCH]
