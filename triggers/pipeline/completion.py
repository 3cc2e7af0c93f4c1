"""Record how runs ended: with retries, fenced, and without ever running a message again."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, Self

from history.beside.kept import beside_of
from history.entry import Fence, Settlement, State
from history.errors import HistoryUnavailableError
from history.message import Uuid
from history.store import HistoryStore
from history.store.control import Verb
from history.store.owners import owner_token
from triggers.detection.suspension import Suspension
from triggers.pipeline.finding import one_for_each
from triggers.pipeline.run import Run
from triggers.pipeline.sharing.gathered import GatheredCalls
from triggers.pipeline.sharing.turn import Turns
from triggers.service.failures import Sleep, persist
from triggers.service.settings import Settings

if TYPE_CHECKING:
    from history.sql.transaction import SqlTransaction

_log = logging.getLogger(__name__)

#: Holds the trigger for this reason in all its consumers, until a person resumes it.
HoldTrigger = Callable[[str], Awaitable[None]]


class Completion(Protocol):
    """Records how runs ended if no transaction includes both the record and their effects."""

    async def settle(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Record how the claimed runs ended; return the runs for which this failed."""
        ...

    def turning(self, turns: Turns | None) -> Self:
        """Return the same completion, which uses ``turns`` for the steps that these support."""
        ...

    def gathering(self, gathered: GatheredCalls) -> Self:
        """Return the same completion, which shares calls with other tasks if that changes nothing else."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCompletion:
    """Completes and releases the entries of runs, as their aftermath says."""

    settings: Settings
    store: HistoryStore | None
    sleep: Sleep
    turns: Turns | None = None
    gathered: GatheredCalls | None = None

    def turning(self, turns: Turns | None) -> Self:
        """Return the same completion, which uses ``turns`` for the runs that these can settle."""
        return replace(self, turns=turns)

    def gathering(self, gathered: GatheredCalls) -> Self:
        """Return the same completion, which settles one run together with the runs of other tasks."""
        return replace(self, gathered=gathered)

    async def settle(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Record how the claimed runs ended; return the runs for which this failed.

        Their entries stay STARTED, so that nobody runs the messages again, or were forgotten by a history
        that is unavailable now.
        """
        if not runs or self.store is None:
            return []
        settlements = [settlement_of(run) for run in runs]
        if self.turns is not None and await self.turns.settle(settlements):
            return []
        try:
            settled = one_for_each(await self._write(self.store, settlements), settlements)
        except Exception as error:  # noqa: BLE001  (any error of a store: the services have run)
            for run in runs:
                run.note(f"its end could not be written: {run.text_of(error)}")
            return runs
        if all(settled):
            return []
        lost = [run for run, done in zip(runs, settled, strict=True) if not done]
        return [run for run in lost if not await self._lost_fence(self.store, run)]

    async def _write(self, store: HistoryStore, settlements: Sequence[Settlement]) -> Sequence[bool]:
        try:
            if self.gathered is not None and len(settlements) == 1:
                return [await self.gathered.settle(settlements[0])]
            return await store.settle(self.settings.name, settlements)
        except HistoryUnavailableError:
            return await persist(lambda: store.settle(self.settings.name, settlements), self.sleep)

    async def _lost_fence(self, store: HistoryStore, run: Run) -> bool:
        """Leave the entry to its new owner. If the history has forgotten the entry, record the end again.

        Return False if the history became unavailable meanwhile: a recovered message could run again.
        """
        uuid = settlement_of(run).uuid
        try:
            entry = (await store.lookup(self.settings.name, [uuid]))[0]
            if entry is None:
                run.acknowledge = run.acknowledge and await self._record_anew(store, run, uuid)
                ending = "was recorded anew" if run.acknowledge else "is not recorded"
                run.note(f"the history had forgotten its claim; its end {ending}")
            else:
                successor = entry.owner or f"the owner of fence {entry.fence}"
                run.taken_by = successor
                run.note(f"{run.owner} lost the fence {run.fence} to {successor}: its end is not recorded")
                run.acknowledge = entry.state is State.COMPLETED
        except Exception as error:  # noqa: BLE001  (as above)
            run.note(f"the fence was lost, and then: {run.text_of(error)}")
            return False
        extra = {"trigger": self.settings.name, "uuid": uuid, "fence": run.fence}
        _log.error("%s", run.notes[-1], extra=extra)
        return True

    async def _record_anew(self, store: HistoryStore, run: Run, uuid: Uuid) -> bool:
        """Claim once more, only to complete; False if somebody else was faster."""
        name, outcome = self.settings.name, settlement_of(run).outcome
        owner = owner_token()
        claims = await store.claim(name, [uuid], owner, time_to_live=self.settings.history_time_to_live)
        if claims[0].found is not None:
            return False
        return (await store.settle(name, [Settlement(uuid, claims[0].fence, outcome, owner)]))[0]


def settlement_of(run: Run) -> Settlement:
    """Return the record to write for a claimed run."""
    end, finding = run.end, run.finding
    outcome = None if end is None else end.aftermath.entry
    assert run.message.uuid is not None  # noqa: S101  (only what has an identity is claimed)
    return Settlement(Uuid(run.message.uuid), Fence(finding.fence or 0), outcome, finding.owner)


def reason_to_hold(runs: Sequence[Run]) -> str | None:
    """Return why these runs suspend the trigger until a person resumes it; None if they do not.

    Hold it before the failure is recorded. After the record, the message does not run again. If the process
    died between the record and the command that holds the trigger, no consumer would know that it is held,
    and the messages behind the failed one would run.
    """
    for run in runs:
        if run.end is not None and run.end.suspension is Suspension.FATAL:
            return run.reason
    return None


async def hold_inside(transaction: "SqlTransaction", trigger: str, reason: str) -> None:
    """Give the command that holds a trigger as a part of the transaction that records the failure."""
    kept = beside_of(transaction.history)
    if kept is not None:
        transaction.resume()
        await kept.control.order(Verb.HOLD, [trigger], reason=reason)
