"""Carry out a decision about parked messages: "it happened", "drop it", "run it".

"It happened" completes the entries, so that the next copies are duplicates. It completes only the entries
that existed when the messages were parked. An entry that somebody has started again since, or that is
running, is left unchanged.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from history.beside.fingerprints import NO_FENCE
from history.beside.kept import beside_of
from history.beside.parking import Parking
from history.entry import Claim, Entry, EntryOutcome, Settlement, State
from history.message import Uuid
from history.store import CLAIM_BATCH, HistoryStore
from history.store.decisions import Decided, DecisionKind, Ended, OperatorDecision
from history.store.owners import owner_token
from history.store.parking import ParkedLabel
from history.support.paging import pieces_of
from history.support.rendering import text_of

#: How the owner's token of an entry begins that is about to be completed; no service runs under it.
DONE = "done:"

#: How long copies wait for a decision that is being carried out.
LEASE = timedelta(seconds=30)

#: How the outcome of a refused decision begins.
REFUSED = "refused: "

GONE = "it is not parked any more, or its entry has just changed: look again"
RUNNING = "its service is running: wait until it has ended, or its lease is over"
STARTED_AGAIN = "it was started again since it was parked: look at it again"
CHANGED = "its entry has just changed: look again"

_log = logging.getLogger(__name__)

#: How long outcomes are gathered for one record, in seconds: a record for each makes the trail too long.
GATHERED = 1.0

#: How much of the outcome of a message is stored, in characters.
OUTCOME_TEXT = 300


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """The result for one parked message; ``left`` says why it stays parked, None if it was carried out."""

    label: ParkedLabel
    left: str | None


async def decide(
    labels: Sequence[ParkedLabel], decision: OperatorDecision, *, lot: Parking, store: HistoryStore | None
) -> Sequence[DecisionResult]:
    """Carry out a decision for parked messages of ``lot``; return the result of each.

    ``store`` is the history that has their entries. If ``lot`` is the lot beside it, entries and messages
    change in one step. Otherwise the entries come first, of messages that are still parked. A crash in
    between leaves parked copies of duplicates, which can be decided again.
    """
    verdicts: list[DecisionResult] = []
    for number, (name, piece) in enumerate(_pieces(labels)):
        step = decision.model_copy(update={"token": f"{decision.token}/{number}"})
        if decision.kind is DecisionKind.DONE and store is not None:
            some = await _settle(name, piece, step, lot, store)
        else:
            some = await _carry_out(name, piece, step, lot, {})
        await _record_refused(name, some, step, lot)
        verdicts += some
    return verdicts


async def _record_refused(
    trigger: str, verdicts: Sequence[DecisionResult], step: OperatorDecision, lot: Parking
) -> None:
    """Record decisions that were refused; another person's decision in the meantime has its own record."""
    refused = [
        (verdict.label, f"{REFUSED}{verdict.left}", False)
        for verdict in verdicts
        if verdict.left not in {None, GONE}
    ]
    if refused:
        await record(lot, trigger, step.model_copy(update={"token": f"{step.token}/refused"}), refused)


def _pieces(labels: Sequence[ParkedLabel]) -> Iterator[tuple[str, Sequence[ParkedLabel]]]:
    for name in dict.fromkeys(label.trigger_name for label in labels):
        mine = [label for label in labels if label.trigger_name == name]
        for piece in pieces_of(mine, CLAIM_BATCH):
            yield name, piece


async def _carry_out(
    trigger: str,
    labels: Sequence[ParkedLabel],
    decision: OperatorDecision,
    lot: Parking,
    settlements: Mapping[str, Settlement],
) -> Sequence[DecisionResult]:
    if not labels:
        return []
    chosen = [Decided(label.id, label.uuid, settlements.get(label.uuid or "")) for label in labels]
    answers = await lot.decide(trigger, decision, chosen)
    return [
        DecisionResult(label, None if done else GONE) for label, done in zip(labels, answers, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How entries end, by uuid; how they end if that fails; and why messages stay parked, by id."""

    settlements: dict[str, Settlement] = field(default_factory=dict[str, Settlement])
    undone: dict[str, Settlement] = field(default_factory=dict[str, Settlement])
    left: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, uuid: str, claim: Claim, owner: str, otherwise: EntryOutcome | None) -> None:
        """Complete an entry that is claimed or taken over, so that nobody else can."""
        self.settlements[uuid] = Settlement(Uuid(uuid), claim.fence, EntryOutcome.OK, owner)
        self.undone[uuid] = self.settlements[uuid]._replace(outcome=otherwise)


async def _settle(
    trigger: str, labels: Sequence[ParkedLabel], decision: OperatorDecision, lot: Parking, store: HistoryStore
) -> Sequence[DecisionResult]:
    """Complete the entries of parked messages and remove the messages. Without uuid: no entry."""
    gone: Sequence[ParkedLabel] = []
    if not _is_beside(lot, store):  # no step changes both, so this looks first
        held = await lot.holds(trigger, labels)
        gone = [label for label, is_held in zip(labels, held, strict=True) if not is_held]
        labels = [label for label, is_held in zip(labels, held, strict=True) if is_held]
    plan = await _plan(trigger, labels, store)
    rest = [label for label in labels if label.id not in plan.left]
    verdicts = list(await _finish(trigger, rest, decision, lot, store, plan.settlements))
    kept = {verdict.label.uuid for verdict in verdicts if verdict.left is None and _has_entry(verdict.label)}
    if vain := [settlement for uuid, settlement in plan.undone.items() if uuid not in kept]:
        await store.settle(trigger, vain)
    return [
        *verdicts,
        *(DecisionResult(label, plan.left[label.id]) for label in labels if label.id in plan.left),
        *(DecisionResult(label, GONE) for label in gone),
    ]


async def _plan(trigger: str, labels: Sequence[ParkedLabel], store: HistoryStore) -> _Plan:
    """Read the entries; create missing ones, and take over failed ones."""
    plan, owner = _Plan(), DONE + owner_token()
    uuids = list(
        dict.fromkeys(label.uuid for label in labels if label.uuid is not None and _has_entry(label))
    )
    claims = await store.claim(trigger, uuids, owner, LEASE)
    claimed = dict(zip(uuids, claims, strict=True))
    for label in labels:
        uuid = label.uuid
        if uuid is None or not _has_entry(label) or uuid in plan.settlements:
            continue
        claim = claimed[uuid]
        entry = claim.found
        if entry is None:
            plan.add(uuid, claim, owner, None)
        elif (problem := _problem(entry, label)) is not None:
            plan.left[label.id] = problem
        elif entry.state is State.STARTED:
            plan.settlements[uuid] = Settlement(Uuid(uuid), entry.fence, EntryOutcome.OK, entry.owner)
        elif entry.outcome is EntryOutcome.FAILED:
            taken = await _take(store, trigger, uuid, owner, entry)
            if taken is None:
                plan.left[label.id] = CHANGED
            else:
                plan.add(uuid, taken, owner, EntryOutcome.FAILED)
    return plan


async def _finish(
    trigger: str,
    labels: Sequence[ParkedLabel],
    decision: OperatorDecision,
    lot: Parking,
    store: HistoryStore,
    settlements: Mapping[str, Settlement],
) -> Sequence[DecisionResult]:
    """Settle and remove: in one step if the lot is beside the history, else one after the other."""
    if _is_beside(lot, store):
        return await _carry_out(trigger, labels, decision, lot, settlements)
    answers = await store.settle(trigger, list(settlements.values()))
    settled = {uuid for uuid, done in zip(settlements, answers, strict=True) if done}
    good = [label for label in labels if label.uuid not in settlements or label.uuid in settled]
    verdicts = await _carry_out(trigger, good, decision, lot, {})
    return [*verdicts, *(DecisionResult(label, CHANGED) for label in labels if label not in good)]


def _is_beside(lot: Parking, store: HistoryStore) -> bool:
    return (kept := beside_of(store)) is not None and lot is kept.parking


def _has_entry(label: ParkedLabel) -> bool:
    """Whether the entry of its uuid belongs to it, and not to another body that came first."""
    return label.evidence.fence != NO_FENCE


def _problem(entry: Entry, label: ParkedLabel) -> str | None:
    """Return why an entry must not be completed because somebody has changed it since; else None."""
    if entry.outcome is EntryOutcome.OK or (entry.owner or "").startswith(DONE):
        return None
    if entry.lease_alive:
        return RUNNING
    parked = label.evidence.fence
    return None if parked is None or entry.is_of(parked) else STARTED_AGAIN


async def _take(store: HistoryStore, trigger: str, uuid: str, owner: str, entry: Entry) -> Claim | None:
    return await store.take_over(
        trigger, uuid, owner, LEASE, entry.fence, expected_owner=entry.owner, failed=True
    )


class Outcomes:
    """Adds to the audit trail what a decision led to: the first outcome immediately, others after a second.

    A run takes time, and its decision is recorded before it. If the process dies between the two, the trail
    has the decision without an outcome. The entry of the history then says more.
    """

    def __init__(
        self, lot: Parking, decision: OperatorDecision, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lot, self._decision, self._clock = lot, decision, clock
        self._gathered: list[tuple[ParkedLabel, str, bool]] = []
        self._written_at: float | None = None
        self._number = 0

    async def add(self, label: ParkedLabel, text: str, *, closed: bool) -> None:
        """Note the outcome of a message, and whether it is no longer parked."""
        self._gathered.append((label, text[:OUTCOME_TEXT], closed))
        now = self._clock()
        is_due = self._written_at is None or now - self._written_at >= GATHERED
        if is_due or len(self._gathered) >= CLAIM_BATCH:
            self._written_at = now
            await self.write()

    async def write(self) -> None:
        """Write the gathered outcomes; a failure is logged, and repeated with the next ones."""
        for name in dict.fromkeys(label.trigger_name for label, _, _ in self._gathered):
            mine = [gathered for gathered in self._gathered if gathered[0].trigger_name == name][:CLAIM_BATCH]
            try:
                await record(self._lot, name, self._step(), mine)
            except Exception as error:  # noqa: BLE001  (any error of a lot: what has run stays run)
                _log.warning("trigger %s: outcomes of decisions were not written: %s", name, text_of(error))
            else:
                self._gathered = [gathered for gathered in self._gathered if gathered not in mine]

    def _step(self) -> OperatorDecision:
        self._number += 1
        token = self._decision.token
        changes = {"token": f"{token}/outcome/{self._number}", "outcome_of": token.partition("/")[0]}
        return self._decision.model_copy(update=changes)


async def record(
    lot: Parking, trigger: str, step: OperatorDecision, outcomes: list[tuple[ParkedLabel, str, bool]]
) -> None:
    """Add a record of the outcomes of a trigger's messages; change nothing else."""
    texts = dict.fromkeys((text, closed) for _, text, closed in outcomes)
    ended = tuple(
        Ended(text, closed, tuple(label.id for label, *how in outcomes if how == [text, closed]))
        for text, closed in texts
    )
    chosen = [Decided(label.id, label.uuid) for label, _, _ in outcomes]
    await lot.decide(trigger, OperatorDecision.model_validate({**step.model_dump(), "ended": ended}), chosen)
