"""From message to decision: claim the uuid, read the table, ask the resolver, take an entry over."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic

from history.circuit import CircuitOpenError
from history.entry import Claim, Entry, EntryOutcome
from history.errors import ConfigurationError, HistoryUnavailableError, TransactionConflictError
from history.message import Message
from history.store import BatchOwner, HistoryStore
from history.store.owners import owner_token
from history.support.rendering import exception_info, told_of
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
from triggers.pipeline.finding import Finding, one_for_each
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

#: How often a claim is made again when the entry in its way keeps changing hands.
CLAIM_ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Finds out what a message is, and leaves a run that is to execute with a claim of its own.

    ``inside`` says that ``store`` is inside a transaction, which must not go on after the store has failed.
    ``batch`` owns what is claimed and taken over; without one, each claim has a token of its own.
    ``leases`` renews those of what is claimed; whoever concludes the run lets it go. ``undecided`` are the
    claims of before that had no answer, ``turns`` what a worker has claimed ahead, ``gathered`` the calls
    that it shares with other tasks, and ``bodies`` compares those of one uuid first.
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

    async def claim(self, runs: Sequence[Run], *, expect: Callable[[], None] | None = None) -> None:
        """Claim every uuid that the table may look at, in one call, of which ``expect`` is told before."""
        if self.store is None or not self.settings.policy.detect_duplicates:
            return
        asked, uuids = self._asked_of(runs)
        if self.bodies is not None and asked:
            # Inside a transaction they were compared before it began: what is kept of a body outlives it.
            asked = [run for run in asked if not run.is_unlike] if self.inside else await self.compare(asked)
            uuids = [run.message.uuid or "" for run in asked]
        if asked:
            if expect is not None:
                expect()
            await self._claim(self.store, asked, uuids)

    def _asked_of(self, runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
        """Return the runs that the history is asked about, and their uuids."""
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
        """Return those that have the body that came first under their uuid; only these are claimed."""
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
            claims = await self._call_claim(store, uuids, asking)
        except ConfigurationError:
            raise
        except BaseException as error:  # whatever a store raises: without a history nothing runs
            if self.inside:
                raise
            self._note_undecided(error, asking.owner, uuids)
            if not isinstance(error, Exception):  # such as a cancellation of this task
                raise
            self._note_absence(error, asked)
            return
        await self._note_claims(store, asked, claims, asking.owner, asking.asked_at)

    async def _call_claim(self, store: HistoryStore, uuids: Sequence[str], asking: Asking) -> Sequence[Claim]:
        """Claim in one call, together with what other tasks claim now where calls are gathered."""
        if self.gathered is not None and len(uuids) == 1:
            return [await self.gathered.claim(asking)]
        claims = await store.claim(
            self.settings.name,
            uuids,
            asking.owner if self.batch is None else self.batch,
            self.settings.lease,
            time_to_live=self.settings.history_time_to_live,
        )
        return one_for_each(claims, uuids)

    async def _note_claims(
        self, store: HistoryStore, asked: Sequence[Run], claims: Sequence[Claim], owner: str, asked_at: float
    ) -> None:
        """Note what was found, and hold the leases of what is claimed since ``asked_at``, monotonic."""
        leases, policy, on = self.leases, self.settings.policy, HistoryUse.ON
        for run, claim in zip(asked, claims, strict=True):
            run.finding = Finding(on, claim.found, claim.fence, owner)
            if claim.found is None and leases is not None:
                leases.hold(run, asked_at)
        if policy.forgotten == "in_doubt":
            oldest = datetime.now(UTC) - self.settings.history_time_to_live
            for run in asked:
                if run.found is None and _is_older(run.message, oldest):
                    run.finding = run.finding._replace(instead=Found.FORGOTTEN)
        if self.undecided.known and not self.inside:
            await self._settle_undecided(store, asked)

    def give_up(self, runs: Sequence[Run]) -> None:
        """Remember which of these runs were claimed and will not begin: their task was cancelled before.

        Nothing of them has happened, so nobody is to take them for runs that died.
        """
        for run in runs:
            if run.never_began and run.owner is not None and run.message.uuid is not None:
                self._note_undecided(None, run.owner, [run.message.uuid])
        if self.leases is not None and self.undecided.known:
            self.leases.do_soon("releasing what was claimed and not begun", self._release_soon)

    async def _release_soon(self, store: HistoryStore) -> None:
        """Let others have, before their lease is over, what was claimed here by a task that was cancelled."""
        await self.undecided.release_in(store, self.settings.name, on_their_way=True)

    def _note_undecided(self, error: BaseException | None, owner: str, uuids: Sequence[str]) -> None:
        """Remember a claim that was sent, and of which nobody knows what became, or under which nobody runs.

        Not that of a batch, whose token stays the same; and not where a resolver may let a message run
        without the history: then the entry is all that tells of it.
        """
        sent = not isinstance(error, CircuitOpenError)
        if sent and self.batch is None and self.settings.policy.on_history_error == "suspend":
            self.undecided.note(owner, uuids)

    async def _settle_undecided(self, store: HistoryStore, asked: Sequence[Run]) -> None:
        """Now that the history answers: let go what stands of claims whose answer never came."""
        self.undecided.forget([run.message.uuid or "" for run in asked if run.found is None])
        with suppress(Exception):  # the claims that were asked for are made; those stay to be recognised
            await self.undecided.release_in(store, self.settings.name)

    async def _take_up(self, run: Run) -> None:
        """Take over an entry that an undecided claim of our own has left: nobody runs under it."""
        if not self.undecided.is_ours(run.message.uuid, run.found):
            return
        if await self._take_over(run):
            run.finding = run.finding._replace(found=None)
            run.note("its claim of before, whose answer did not come, was taken up")
            self.undecided.forget([run.message.uuid or ""])
        elif run.history is HistoryUse.ON:
            await self.claim([run])

    async def judge(self, run: Run) -> Decision:
        """Decide, ask the resolver where the table says so, and take over what is to run again."""
        if run.alive_until and (run.taken_by is not None or monotonic() > run.alive_until):
            await self._come_late(run)
        if run.unidentified is not None:
            run.problem = run.unidentified
            run.note(run.text_of(run.unidentified))
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
        if facts.found is Found.STARTED:  # by somebody who is alive: not ours, and not to be given up
            facts = replace(facts, found=Found.IN_PROGRESS)
        run.decision = decide(facts, self.settings.policy)
        run.patience = self._patience(run)
        return run.decision

    async def _decide(self, run: Run) -> Decision:
        """Read the table, with the resolver's word where it asks for that."""
        decision = self._read_table(run, Word.NONE if self.resolver is None else Word.NOT_ASKED)
        if decision.ask:
            decision = self._read_table(run, await self._ask(run))
            if decision.status is Status.DUPLICATE:
                await self._complete(run)
        return decision

    async def _come_late(self, run: Run) -> None:
        """Renew a lease that was over before its run began, or look at the message afresh.

        So it is when a process was stopped for a while, or a claim's reply took that long: somebody else may
        have presumed the run dead, and have run the message.
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
            leases.hold(run, asked_at)
            return
        leases.let_go(run)
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
        """Decide anew about a run whose transaction did not commit: it is given back."""
        conflict = isinstance(error, TransactionConflictError)
        if not conflict:
            self._note_absence(error, [run])
        if not conflict or run.decision is None:  # a conflict while claiming comes before every decision
            run.decision = self._read_table(run, Word.NONE)
        if conflict or run.decision.runs:  # row 0 asks no history
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
        """Ask the resolver for the last word; what it raises is a word too."""
        assert self.resolver is not None  # noqa: S101  (the table asks only where there is one)
        message = run.message
        try:
            answer = await self.resolver.ask(message.uuid or "", self.settings.name, message, run.evidence())
            said = answer.reason and run.redacted(answer.reason)
            if said:
                run.note(f"{RESOLVER_SAYS}{said}")
            if answer.resolution is Resolution.NEW:  # what it says otherwise is told with the verdict
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
        """Complete the entry of a message whose effect the resolver has found: copies are duplicates then.

        Only the entry that the resolver was asked about. What cannot be written, or has changed, stays as it
        is: the next copy asks again.
        """
        store, found, uuid = self.store, run.found, run.message.uuid
        if store is None or found is None or uuid is None or self.settings.resolved_duplicate == "leave":
            return
        name = self.settings.name
        try:
            await store.complete(name, uuid, found.fence, EntryOutcome.OK, owner=found.owner)
        except Exception as error:  # whatever a store raises: the word of the resolver stands
            if self.inside:
                raise
            run.note(f"its entry could not be completed: {run.text_of(error)}")
            extra = {"trigger": name, "uuid": uuid, "fence": found.fence}
            _log.warning("resolved as a duplicate, and %s", run.notes[-1], extra=extra)

    async def _take_over(self, run: Run) -> bool:
        """Become the owner of the entry that stands in the way; False to look at the message afresh."""
        if self.store is None or run.found is None or run.message.uuid is None:
            return True
        owner = self.token()
        asked_at = monotonic()
        try:
            taken = await self._become_owner(self.store, run.message.uuid, owner, run.found)
        except BaseException as error:  # as in claiming
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
                # What a batch adopts has the fence of the batch.
                "" if self.batch else f", fence {taken.fence} from {run.found.fence}",
                extra={"trigger": self.settings.name, "uuid": run.message.uuid, "fence": taken.fence},
            )
            run.finding = run.finding.taken_over(taken.fence, owner)
            if self.leases is not None:
                self.leases.hold(run, asked_at)
        return taken is not None

    def token(self) -> str:
        """Return the token under which the next claim or take-over is made."""
        return owner_token() if self.batch is None else self.batch.token

    async def _become_owner(self, store: HistoryStore, uuid: str, owner: str, found: Entry) -> Claim | None:
        name, time_to_live = self.settings.name, self.settings.history_time_to_live
        if self.batch is None:
            lease, failed = self.settings.lease, found.outcome is EntryOutcome.FAILED
            return await store.take_over(
                name,
                uuid,
                owner,
                lease,
                found.fence,
                time_to_live=time_to_live,
                expected_owner=found.owner,
                failed=failed,
            )
        adopted = await store.adopt(name, [(uuid, found.fence)], self.batch, time_to_live=time_to_live)
        return Claim(None, found.fence) if adopted[0] else None


def _is_older(message: Message, oldest: datetime) -> bool:
    """Whether a message came before, at a time of which the history may have forgotten everything."""
    again = message.redelivered or message.delivery_count > 1
    return again and message.timestamp is not None and message.timestamp < oldest
