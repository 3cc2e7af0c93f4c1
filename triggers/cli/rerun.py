"""Run a parked message: a person says NEW, under all conditions of a resolver's NEW.

Several people may decide on the same message concurrently. Each decision is about the entry from the time
when the message was parked. The first to change that entry, by comparing its fence, runs the message; the
others find it changed.
"""

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from history.entry import EntryOutcome
from history.message import UNDEFINED_COUNT, Message
from history.store.parking import Evidence, Parked, Parking, parked_id
from resolvers.resolution import Resolution, Resolved, asking
from triggers.cli.shared.messages import without_message
from triggers.declaration.decorator import Trigger
from triggers.detection.table import Decision, Found, HistoryUse, Word, decide
from triggers.pipeline.judge import Judge
from triggers.pipeline.run import Run
from triggers.service.outcome import Outcome

#: How the owner's token of a run begins that a person has decided on.
DECIDED = "decided:"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedJudge(Judge):
    """Judges a message that a person has decided to run: a failed entry is taken over, not a verdict.

    ``parked_fence`` is the fence of the entry with which the message was parked, if there was one.
    """

    parked_fence: int | None

    async def judge(self, run: Run) -> Decision:
        """Take a failed entry over, and go on as if there had been none; otherwise judge as usual."""
        if _has_failed(run):
            if not self._is_the_one(run):
                return self._leave(run)
            if await self._take_over(run):
                run.finding = run.finding._replace(found=None)
            elif run.history is HistoryUse.ON:
                await self.claim([run])
                if _has_failed(run):
                    return self._leave(run)
        return await Judge.judge(self, run)

    def _is_the_one(self, run: Run) -> bool:
        return run.found is not None and (self.parked_fence is None or run.found.is_of(self.parked_fence))

    def _leave(self, run: Run) -> Decision:
        """Leave a message, and its parked copy, to its later run; that copy says how it ended."""
        run.note("somebody has run it since it was parked, and it failed again: look at it again")
        facts = replace(run.facts(self._count(run), Word.NOT_ASKED), found=Found.IN_PROGRESS)
        run.decision = decide(facts, self.settings.policy)
        return run.decision

    def token(self) -> str:
        """Return a token which says that a person has decided."""
        return f"{DECIDED}{Judge.token(self)}"


def _has_failed(run: Run) -> bool:
    return run.found is not None and run.found.outcome is EntryOutcome.FAILED


async def run_parked(trigger: Trigger[..., Any], parked: Parked, lot: Parking) -> Outcome:
    """Take a parked message through the trigger's pipeline, with a resolver that answers NEW.

    A STARTED or failed entry is taken over under a new fence, but only the entry with which the message was
    parked. If it was started again since, it is In Doubt again. If it failed again, or is running elsewhere,
    it stays as it is. So of several people who run the same message concurrently, only one does. The parked
    copy is removed after the message has run or proved a duplicate. A coroutine function runs on the event
    loop that awaits this; ``lot`` may nevertheless be blocking.

    Without a document history there is nothing to compare: a second decision runs the message again.

    Raises:
        ConfigurationError: the delivery was unreadable, or is encrypted and the key is not here: no message
            can run.
    """
    if parked.message is None:
        raise without_message(parked, "PARKED_ID", f"{parked.id} was no message")
    pipeline = trigger.async_pipeline() if trigger.is_async else trigger.pipeline()
    message = parked.message.model_copy(update={"delivery_count": UNDEFINED_COUNT, "expiration": None})
    outcome = await pipeline.judged(partial(_deciding, parked.evidence)).handle(message)
    # Without a status nothing has run: no rule matched the message, and the person still wants it run.
    done = outcome.acknowledge and not outcome.parked and outcome.status is not None
    if done or (outcome.parked and not _replaces(trigger.name, message, parked)):
        await lot.remove(parked)
    return outcome


def _deciding(parked: Evidence, usual: Judge) -> DecidedJudge:
    known: dict[str, Any] = {field.name: getattr(usual, field.name) for field in fields(usual)}
    known["resolver"] = asking(_decided(parked))
    return DecidedJudge(**known, parked_fence=parked.fence)


def _replaces(trigger: str, message: Message, parked: Parked) -> bool:
    """Whether the new parked copy replaces the old one, and is not an additional one."""
    return message.uuid is not None and parked_id(trigger, message) == parked.id


def _decided(parked: Evidence) -> Any:
    """Return a resolver with a person's answer about a message that was parked with this evidence."""

    def decided(uuid: str, trigger_name: str, message: Message, evidence: Evidence) -> Resolved:  # noqa: ARG001
        known = {None, parked.fence}
        if parked.fence is not None and evidence.fence not in known:
            return Resolved(Resolution.IN_DOUBT, "it was started again after it was parked")
        if parked.fence is None and (evidence.owner or "").startswith(DECIDED):
            return Resolved(Resolution.IN_DOUBT, "somebody else has decided to run it, too")
        return Resolved(Resolution.NEW, "somebody decided to run it")

    return decided
