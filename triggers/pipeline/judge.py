"""From message to decision: claim the uuid, read the table, ask the resolver, take an entry over."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

from history.circuit import CircuitOpenError
from history.entry import Claim, Entry, EntryOutcome, State
from history.errors import ConfigurationError, HistoryUnavailableError, TransactionConflictError
from history.message import Message
from history.store import BatchOwner, HistoryStore
from history.store.owners import owner_token
from history.support.rendering import exception_info, in_one_line, told_of
from history.support.user_code import is_failure
from resolvers.resolution import Asked, Resolution
from triggers.detection.aftermath import Ending
from triggers.detection.suspension import Suspension
from triggers.detection.table import (
    RESOLUTION_WORDS,
    Answer,
    Count,
    Decision,
    Found,
    HistoryUse,
    Status,
    Word,
    classify_count,
    decide,
)
from triggers.pipeline.bodies import Bodies
from triggers.pipeline.end import failed
from triggers.pipeline.finding import Finding, found_in, one_for_each
from triggers.pipeline.leases import LeaseKeeper
from triggers.pipeline.run import RESOLVER_SAYS, Run, patience_with
from triggers.pipeline.sharing.gathered import Asking, GatheredCalls
from triggers.pipeline.sharing.turn import Turns
from triggers.pipeline.undecided import UndecidedClaims
from triggers.service.failures import own_error
from triggers.service.outcome import VERDICT_LOGGER
from triggers.service.settings import Settings

_log = logging.getLogger(__name__)
_verdicts = logging.getLogger(VERDICT_LOGGER)

#: How often a claim is repeated if the existing entry keeps changing hands.
CLAIM_ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Decides about a message; a run that is to execute has its own claim afterwards.

    ``inside`` means that ``store`` is inside a transaction, which must not go on after the store has failed.
    ``batch`` owns what is claimed and taken over; without it, each claim has its own token. ``leases`` renews
    the leases of claimed entries, until the run is concluded. ``undecided`` holds earlier claims without an
    answer, ``turns`` the claims that a worker made ahead, and ``gathered`` the calls that are shared with
    other tasks. ``bodies`` compares the bodies of one uuid before the claim.
    """

    settings: Settings
    store: HistoryStore | None
    resolver: Asked | None
    inside: bool = False
    batch: BatchOwner | None = None
    leases: LeaseKeeper | None = None
    undecided: UndecidedClaims = field(default_factory=UndecidedClaims)
    turns: Turns | None = None
    gathered: GatheredCalls | None = None
    bodies: Bodies | None = None
    #: The decisions that need nothing but the table, by delivery count and what was found.
    usual: dict[tuple[int, Found], Decision] = field(
        default_factory=dict[tuple[int, Found], Decision], init=False, repr=False
    )

    @property
    def parts(self) -> dict[str, Any]:
        """Return its fields, to make another kind: ``pipeline.judged(lambda judge: Mine(**judge.parts))``."""
        return {part.name: getattr(self, part.name) for part in fields(self) if part.init}

    async def claim(self, runs: Sequence[Run], *, expect: Callable[[], None] | None = None) -> None:
        """Claim in one call every uuid that the table may look at. Calls ``expect`` right before."""
        if self.store is None or not self.settings.policy.detect_duplicates:
            return
        asked, uuids = self._asked_of(runs)
        if self.bodies is not None and asked:
            # Inside a transaction, bodies were compared before it began: a stored fingerprint outlives it.
            asked = [run for run in asked if not run.is_unlike] if self.inside else await self.compare(asked)
            uuids = [run.message.uuid or "" for run in asked]
        if asked:
            if expect is not None:
                expect()
            await self._claim(self.store, asked, uuids)

    def _asked_of(self, runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
        """Return the runs for which the history is needed, and their uuids."""
        limit = self.settings.policy.max_delivery_count
        asked: list[Run] = []
        uuids: list[str] = []
        for run in runs:
            message = run.message
            if message.uuid is not None and message.delivery_count <= limit:
                asked.append(run)
                uuids.append(message.uuid)
        return asked, uuids

    async def compare(self, runs: Sequence[Run]) -> list[Run]:
        """Return the runs that have the first body of their uuid; only these are claimed."""
        asked, _ = self._asked_of(runs)
        if self.bodies is None:
            return asked
        try:
            return await self.bodies.same(asked)
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001  (as in claiming)
            self._note_absence(error, asked)
            return []

    async def _claim(self, store: HistoryStore, asked: Sequence[Run], uuids: Sequence[str]) -> None:
        if self.turns is not None and (ahead := self.turns.take(uuids)) is not None:
            await self._note_claims(store, asked, [ahead.claim], ahead.owner, ahead.asked_at)
            return
        asking = Asking(uuids[0], self.token(), monotonic())
        try:
            if self.gathered is not None and len(uuids) == 1:
                claims: Sequence[Claim] = [await self.gathered.claim(asking)]
            else:
                claims = await store.claim(
                    self.settings.name,
                    uuids,
                    asking.owner if self.batch is None else self.batch,
                    self.settings.lease,
                    time_to_live=self.settings.history_time_to_live,
                )
                claims = one_for_each(claims, uuids)
        except ConfigurationError:
            raise
        except BaseException as error:  # any error of a store: without a history nothing runs
            if self.inside:
                raise
            self._note_undecided(error, asking.owner, uuids)
            if not isinstance(error, Exception):  # for example a cancellation of this task
                raise
            self._note_absence(error, asked)
            return
        await self._note_claims(store, asked, claims, asking.owner, asking.asked_at)

    async def _note_claims(
        self, store: HistoryStore, asked: Sequence[Run], claims: Sequence[Claim], owner: str, asked_at: float
    ) -> None:
        """Note what was found, and hold the leases of new claims, from ``asked_at`` (monotonic) on."""
        policy, on = self.settings.policy, HistoryUse.ON
        for run, (found, fence) in zip(asked, claims, strict=True):
            run.finding = Finding(on, found, fence, owner)
        if self.leases is not None:
            self.leases.hold([run for run in asked if run.finding.found is None], asked_at)
        if policy.forgotten == "in_doubt":
            oldest = datetime.now(UTC) - self.settings.history_time_to_live
            for run in asked:
                if run.found is None and _is_older(run.message, oldest):
                    run.finding = run.finding._replace(instead=Found.FORGOTTEN)
        if self.undecided.known and not self.inside:
            await self._settle_undecided(store, asked)

    def give_up(self, runs: Sequence[Run]) -> None:
        """Remember which of these runs were claimed and will not begin because their task was cancelled.

        Nothing of them has happened, so nobody may mistake them for runs that died.
        """
        for run in runs:
            if run.never_began and run.owner is not None and run.message.uuid is not None:
                self._note_undecided(None, run.owner, [run.message.uuid])
        if self.leases is not None and self.undecided.known:
            self.leases.do_soon("releasing what was claimed and not begun", self._release_soon)

    async def _release_soon(self, store: HistoryStore) -> None:
        """Release the claims of a cancelled task before their lease ends, so that others can run them."""
        await self.undecided.release_in(store, self.settings.name, on_their_way=True)

    def _note_undecided(self, error: BaseException | None, owner: str, uuids: Sequence[str]) -> None:
        """Remember a claim that was sent and has no known result, or a claim under which nobody runs.

        Not for the claim of a batch: its token stays the same. Not if a resolver may let a message run
        without the history: then the entry is the only evidence of the run.
        """
        sent = not isinstance(error, CircuitOpenError)
        if sent and self.batch is None and self.settings.policy.on_history_error == "suspend":
            self.undecided.note(owner, uuids)

    async def _settle_undecided(self, store: HistoryStore, asked: Sequence[Run]) -> None:
        """Release what unanswered claims have left, now that the history answers."""
        self.undecided.forget([run.message.uuid or "" for run in asked if run.found is None])
        with suppress(Exception):  # the requested claims are made; the undecided ones stay known
            await self.undecided.release_in(store, self.settings.name)

    async def _take_up(self, run: Run) -> None:
        """Take over an entry that our own undecided claim has left: nobody runs under it."""
        if not self.undecided.is_ours(run.message.uuid, run.found):
            return
        if await self._take_over(run):
            run.finding = run.finding._replace(found=None)
            run.note("its earlier claim, which had no answer, was taken over")
            self.undecided.forget([run.message.uuid or ""])
        elif run.history is HistoryUse.ON:
            await self.claim([run])

    async def judge(self, run: Run) -> Decision:
        """Decide, ask the resolver if the table orders it, and take over the entry for another run."""
        if run.alive_until and (run.taken_by is not None or monotonic() > run.alive_until):
            await self._come_late(run)
        if run.unidentified is not None:
            run.problem = run.unidentified
            run.note(run.text_of(run.unidentified))
        elif (decision := self._usual(run)) is not None:
            run.decision = decision
            return decision
        for _ in range(CLAIM_ROUNDS):
            if self.undecided.known:
                await self._take_up(run)
            decision = run.decision = await self._decide(run)
            if decision.answer is Answer.RECOVER_LATER:
                run.patience = self._patience(run)
            if not decision.runs or run.finding.found is None or await self._take_over(run):
                return decision
            if run.history is HistoryUse.ON:
                await self.claim([run])
        run.note("its entry kept changing hands")
        facts = run.facts(self._count(run), Word.BROKEN)
        if facts.found is Found.STARTED:  # the owner is alive and not this worker: do not give it up
            facts = replace(facts, found=Found.IN_PROGRESS)
        run.decision = decide(facts, self.settings.policy)
        run.patience = self._patience(run)
        return run.decision

    def _usual(self, run: Run) -> Decision | None:
        """Return the decision about a message that only the table decides about: new, or completed."""
        finding = run.finding
        entry = finding.found
        if (
            (entry is not None and entry.state is not State.COMPLETED)
            or finding.instead is not None
            or finding.fence is None
            or finding.history is not HistoryUse.ON
            or self.undecided.known
        ):
            return None
        case = run.message.delivery_count, found_in(entry)
        decision = self.usual.get(case)
        if decision is None:
            decision = self._read_table(run, Word.NONE if self.resolver is None else Word.NOT_ASKED)
            takes_over = decision.runs and entry is not None
            if decision.ask or takes_over or decision.answer is Answer.RECOVER_LATER:
                return None
            self.usual[case] = decision
        return decision

    async def _decide(self, run: Run) -> Decision:
        """Read the table, with the answer of the resolver if the table needs it."""
        decision = self._read_table(run, Word.NONE if self.resolver is None else Word.NOT_ASKED)
        if decision.ask:
            decision = self._read_table(run, await self._ask(run))
            if decision.status is Status.DUPLICATE:
                await self._complete(run)
        return decision

    async def _come_late(self, run: Run) -> None:
        """Renew a lease that ended before its run began, or look at the message again.

        This happens after a process was stopped for a while, or if the reply to a claim took that long.
        Another worker may have presumed the run dead, and have run the message.
        """
        leases, lease, uuid = self.leases, self.settings.lease, run.message.uuid
        if self.store is None or leases is None or lease is None or uuid is None or run.fence is None:
            return
        asked_at = monotonic()
        try:
            kept = await self.store.renew(self.settings.name, uuid, run.fence, lease)
        except Exception as error:  # noqa: BLE001  (as in claiming; what is cancelled here is given up)
            if run.owner is not None:
                self._note_undecided(HistoryUnavailableError("renewing"), run.owner, [uuid])
            self._note_absence(error, [run])
            return
        if kept:
            leases.hold([run], asked_at)
            return
        leases.let_go([run])
        run.alive_until, run.taken_by = 0.0, None
        await self.claim([run])

    def _patience(self, run: Run) -> timedelta:
        return patience_with(
            run.found,
            run.message.delivery_count,
            limit=self.settings.policy.max_delivery_count,
            lease=self.settings.lease,
        )

    def undo(self, run: Run, error: Exception) -> None:
        """Decide again about a run after its transaction did not commit: it is recovered."""
        conflict = isinstance(error, TransactionConflictError)
        if not conflict:
            self._note_absence(error, [run])
        if not conflict or run.decision is None:  # a conflict during the claim comes before every decision
            run.decision = self._read_table(run, Word.NONE)
        if conflict or run.decision.runs:  # row 0 uses no history
            away = None if conflict else Suspension.HISTORY
            run.end = failed(Ending.TRANSIENT, error, self.settings.policy, recorded=True, suspension=away)
        run.note(f"its transaction did not commit: {run.text_of(error)}")

    def _note_absence(self, error: Exception, runs: Sequence[Run]) -> None:
        if not isinstance(error, HistoryUnavailableError):
            redact, extra = self.settings.redaction, {"trigger": self.settings.name}
            info = exception_info(error, redact=redact)
            _log.error("the document history failed: %s", told_of(error, redact), exc_info=info, extra=extra)
        for run in runs:
            run.became_unreachable(error)

    def _read_table(self, run: Run, word: Word) -> Decision:
        return decide(run.facts(self._count(run), word), self.settings.policy)

    def _count(self, run: Run) -> Count:
        return classify_count(run.message.delivery_count, self.settings.policy.max_delivery_count)

    async def _ask(self, run: Run) -> Word:
        """Ask the resolver; an exception that it raises is also an answer."""
        assert self.resolver is not None  # noqa: S101  (the table asks only where there is one)
        message = run.message
        try:
            answer = await self.resolver.ask(message.uuid or "", self.settings.name, message, run.evidence())
            said = answer.reason and in_one_line(run.redacted(answer.reason))
            if said:
                run.note(f"{RESOLVER_SAYS}{said}")
            if answer.resolution is Resolution.NEW:  # other answers are reported with the verdict
                extra = {"trigger": self.settings.name, "uuid": message.uuid}
                reason = f": {said}" if said else ""
                _verdicts.info("%s: the resolver says NEW%s", run.named, reason, extra=extra)
        except BaseException as error:
            if not is_failure(error):
                raise
            run.problem = own_error(error)
            return Word.TRANSIENT if self.settings.is_transient(error) else Word.BROKEN
        run.problem = None
        return RESOLUTION_WORDS[answer.resolution]

    async def _complete(self, run: Run) -> None:
        """Complete the entry after the resolver has found the effect: copies are duplicates then.

        Completes only the entry that the resolver saw. An entry that cannot be written, or has changed, stays
        as it is: the next copy asks again.
        """
        store, entry, uuid = self.store, run.found, run.message.uuid
        if store is None or entry is None or uuid is None or self.settings.resolved_duplicate == "leave":
            return
        name = self.settings.name
        try:
            await store.complete(name, uuid, entry.fence, EntryOutcome.OK, owner=entry.owner)
        except Exception as error:  # any error of a store: the answer of the resolver stays valid
            if self.inside:
                raise
            run.note(f"its entry could not be completed: {run.text_of(error)}")
            extra = {"trigger": name, "uuid": uuid, "fence": entry.fence}
            _log.warning("resolved as a duplicate, and %s", run.notes[-1], extra=extra)

    async def _take_over(self, run: Run) -> bool:
        """Become the owner of the existing entry; False to look at the message again."""
        if self.store is None or run.found is None or run.message.uuid is None:
            return True
        owner = self.token()
        asked_at = monotonic()
        try:
            taken = await self._become_owner(self.store, run.message.uuid, owner, run.found)
        except BaseException as error:  # as in a claim
            if self.inside:
                raise
            self._note_undecided(error, owner, [run.message.uuid])
            if not isinstance(error, Exception):
                raise
            self._note_absence(error, [run])
            return False
        if taken is not None:
            failed = run.found.outcome is EntryOutcome.FAILED
            _verdicts.log(
                logging.INFO if failed else logging.WARNING,
                "%s takes the entry over from %s%s",
                owner,
                "a run that failed" if failed else run.found.owner,
                # Entries that a batch adopts have the fence of the batch.
                "" if self.batch else f", fence {taken.fence} from {run.found.fence}",
                extra={"trigger": self.settings.name, "uuid": run.message.uuid, "fence": taken.fence},
            )
            run.finding = run.finding.taken_over(taken.fence, owner)
            if self.leases is not None:
                self.leases.hold([run], asked_at)
        return taken is not None

    def token(self) -> str:
        """Return the token for the next claim or take-over."""
        return owner_token() if self.batch is None else self.batch.token

    async def _become_owner(self, store: HistoryStore, uuid: str, owner: str, entry: Entry) -> Claim | None:
        name, time_to_live = self.settings.name, self.settings.history_time_to_live
        if self.batch is None:
            lease, failed = self.settings.lease, entry.outcome is EntryOutcome.FAILED
            return await store.take_over(
                name,
                uuid,
                owner,
                lease,
                entry.fence,
                time_to_live=time_to_live,
                expected_owner=entry.owner,
                failed=failed,
            )
        adopted = await store.adopt(name, [(uuid, entry.fence)], self.batch, time_to_live=time_to_live)
        return Claim(None, entry.fence) if adopted[0] else None


def _is_older(message: Message, oldest: datetime) -> bool:
    """Whether a message was delivered before, so long ago that the history may have forgotten it."""
    again = message.redelivered or message.delivery_count > 1
    return again and message.timestamp is not None and message.timestamp < oldest
