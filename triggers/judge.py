"""From message to decision: claim the uuid, read the table, ask the resolver, take an entry over."""

import itertools
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from history.errors import HistoryUnavailableError
from history.store import HistoryStore
from resolvers.resolution import AskedResolver
from triggers.detection import (
    RESOLUTION_WORDS,
    Count,
    Decision,
    HistoryUse,
    Word,
    classify_count,
    decide,
)
from triggers.failures import is_transient
from triggers.run import Run
from triggers.settings import Settings

#: How often a claim is made again when the entry in its way keeps changing hands.
CLAIM_ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Finds out what a message is, and leaves a run that is to execute with a claim of its own."""

    settings: Settings
    store: HistoryStore | None
    resolver: AskedResolver | None

    async def claim(self, runs: Sequence[Run]) -> None:
        """Claim every uuid that the table may look at, in one call."""
        policy = self.settings.policy
        if self.store is None or not policy.detect_duplicates:
            return
        limit = policy.max_delivery_count
        asked = [
            (run, run.message.uuid)
            for run in runs
            if run.message.uuid is not None and run.message.delivery_count <= limit
        ]
        if not asked:
            return
        try:
            claims = await self.store.claim(
                self.settings.name,
                [uuid for _, uuid in asked],
                owner_token(),
                self.settings.lease,
                time_to_live=self.settings.history_time_to_live,
            )
        except HistoryUnavailableError as error:
            for run, _ in asked:
                run.became_unreachable(error)
            return
        for (run, _), claim in zip(asked, claims, strict=True):
            run.found, run.fence = claim.found, claim.fence

    async def judge(self, run: Run) -> Decision:
        """Decide, ask the resolver where the table says so, and take over what is to run again."""
        for _ in range(CLAIM_ROUNDS):
            run.decision = decision = await self._decide(run)
            if not decision.runs or run.found is None or await self._take_over(run):
                return decision
            if run.history is HistoryUse.ON:
                await self.claim([run])
        run.notes.append("its entry kept changing hands")
        run.decision = decide(run.facts(self._count(run), Word.BROKEN), self.settings.policy)
        return run.decision

    async def _decide(self, run: Run) -> Decision:
        count, unasked = self._count(run), Word.NONE if self.resolver is None else Word.NOT_ASKED
        decision = decide(run.facts(count, unasked), self.settings.policy)
        if not decision.ask:
            return decision
        return decide(run.facts(count, await self._ask(run)), self.settings.policy)

    def _count(self, run: Run) -> Count:
        return classify_count(run.message.delivery_count, self.settings.policy.max_delivery_count)

    async def _ask(self, run: Run) -> Word:
        """Ask the resolver for the last word; what it raises is a word too."""
        assert self.resolver is not None  # noqa: S101  (the table asks only where there is one)
        message = run.message
        try:
            answer = await self.resolver.ask(message.uuid or "", self.settings.name, message, run.evidence())
        except Exception as error:  # noqa: BLE001  (the resolver is user code)
            run.error = error
            return Word.TRANSIENT if is_transient(error, self.settings.transient) else Word.BROKEN
        run.error = None
        if answer.reason:
            run.notes.append(f"resolver: {answer.reason}")
        return RESOLUTION_WORDS[answer.resolution]

    async def _take_over(self, run: Run) -> bool:
        """Become the owner of the entry that stands in the way; False to look at the message afresh."""
        if self.store is None or run.found is None or run.message.uuid is None:
            return True
        try:
            taken = await self.store.take_over(
                self.settings.name,
                run.message.uuid,
                owner_token(),
                self.settings.lease,
                run.found.fence,
                time_to_live=self.settings.history_time_to_live,
            )
        except HistoryUnavailableError as error:
            run.became_unreachable(error)
            return False
        if taken is not None:
            run.fence = taken.fence
        return taken is not None


_HOST = socket.gethostname()
_NONCE = uuid4().hex[:12]
_ATTEMPTS = itertools.count(1)


def owner_token() -> str:
    """Return a token unique to one attempt, readable as host, process and number.

    The process id is read at each call: a forked child shares the nonce and the counter, not the id.
    """
    return f"{_HOST}:{os.getpid()}:{_NONCE}:{next(_ATTEMPTS)}"
