"""Run links outside of a consumer: once, in batch mode, or for ever if nothing is to be applied."""

import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from history.bridge import settled
from history.support.outage import Outage
from triggers.declaration.decorator import Trigger, trigger
from triggers.providers.sqlremote.agent.agent import Agent
from triggers.providers.sqlremote.capture.changes import service_for
from triggers.providers.sqlremote.links import LINK
from triggers.providers.sqlremote.receiver import LinkReceiver
from triggers.providers.sqlremote.settings import LinkSettings

_log = logging.getLogger(__name__)

#: How many transactions are fetched in one call in batch mode.
AT_ONCE: Final = 20

#: The longest pause between two checks whether a sender must stop, in seconds.
LONGEST_NAP: Final = 0.2

#: The pause after database or carrier were unavailable, in seconds.
AWAY: Final = 5.0


async def run_once(agent: Agent, trigger: Trigger[..., Any] | None = None) -> int:
    """Read, apply and send all that is there, like SQL Remote's batch mode; return how much was applied.

    Raises:
        ProviderUnavailableError: database or carrier are unavailable, or another agent runs the link.
    """
    receiver, applied = LinkReceiver(agent), 0
    try:
        while True:
            received = await receiver.receive(AT_ONCE, timedelta(0))
            if received and trigger is not None:
                outcomes = await trigger.pipeline().deliver(receiver, received)
                applied += sum(outcome.acknowledge for outcome in outcomes)
            elif agent.due > agent.end.clock():
                return applied
    finally:
        await receiver.close()


async def run_sender(
    agent: Agent, *, stopping: Callable[[], bool], pause: Callable[[float], Awaitable[None] | None]
) -> None:
    """Send, and read reports, until ``stopping`` returns True; ``pause`` waits for seconds, or less."""
    link = agent.end.link
    outage = Outage(_log, f"link {link} does not send", f"link {link} sends again", {})
    try:
        while not stopping():
            try:
                await agent.step()
                due = (agent.due - agent.end.clock()).total_seconds()
                nap = min(max(due, 0.0), LONGEST_NAP)
                outage.end()
            except Exception as error:  # noqa: BLE001  (nobody waits for it: the link would stop unnoticed)
                nap = max(AWAY, outage.note(error))
            await settled(pause(nap))
    finally:
        await agent.close()


def applying_changes(link: str, settings: LinkSettings) -> Trigger[..., Any]:
    """Return a trigger that applies captured changes to the tables of a link."""
    made = trigger(LINK + link, name=f"apply-{link}", transacted=True, max_body_size=sys.maxsize)
    service = service_for(settings.tables, to_sender=settings.to_sender, subscription=settings.subscription)
    return made(service)


def trigger_of(link: str, triggers: Sequence[Trigger[..., Any]]) -> Trigger[..., Any] | None:
    """Return the trigger that receives from a link; None if none does."""
    return next((trigger for trigger in triggers if LINK + link in trigger.destinations), None)
