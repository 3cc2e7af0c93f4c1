"""Run a parked message after all: a person's NEW, with everything that a resolver's NEW has to respect."""

from dataclasses import replace
from typing import Any

from history.entry import EntryOutcome
from history.errors import ConfigurationError
from history.message import UNDEFINED_COUNT, Message
from history.parking import Evidence, Parked, Parking
from resolvers.resolution import Resolution, Resolved, asking
from triggers.outcome import Outcome
from triggers.trigger import Trigger


async def run_parked(trigger: Trigger[..., Any], parked: Parked, lot: Parking) -> Outcome:
    """Take a parked message through the trigger's pipeline, with a resolver that answers NEW.

    A STARTED entry is taken over under a new fence, but only the one that the message was parked with: when
    it was started again since, it is In Doubt again. A failed entry is forgotten first, for the decision is
    to run it again. The parked copy is removed once the message has run or proved a duplicate. A coroutine
    function runs on the event loop that awaits this; ``lot`` may be blocking all the same.

    Raises:
        ConfigurationError: the delivery was unreadable: there is no message to run.
    """
    if parked.message is None:
        raise ConfigurationError("PARKED_ID", f"{parked.id} was no message", "send it mended, or discard it")
    pipeline = trigger.async_pipeline() if trigger.is_async else trigger.pipeline()
    store = pipeline.judge.store
    if store is not None and parked.uuid is not None:
        entry = (await store.lookup(trigger.name, [parked.uuid]))[0]
        if entry is not None and entry.outcome is EntryOutcome.FAILED:
            await store.forget(trigger.name, parked.uuid)

    def decided(uuid: str, trigger_name: str, message: Message, evidence: Evidence) -> Resolved:  # noqa: ARG001
        if parked.evidence.fence is not None and evidence.fence not in {None, parked.evidence.fence}:
            return Resolved(Resolution.IN_DOUBT, "it was started again after it was parked")
        return Resolved(Resolution.NEW, "somebody decided to run it")

    message = parked.message.model_copy(update={"delivery_count": UNDEFINED_COUNT, "expiration": None})
    judge = replace(pipeline.judge, resolver=asking(decided))
    outcome = await replace(pipeline, judge=judge).handle(message)
    # Without a status nothing has run: no rule wanted the message, and somebody still wants it run.
    if outcome.acknowledge and not outcome.parked and outcome.status is not None:
        await lot.remove(parked)
    return outcome
