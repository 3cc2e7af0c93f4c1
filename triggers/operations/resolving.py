"""Ask a trigger's resolver about a parked message, and change nothing."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from history.bridge import drive
from history.errors import ConfigurationError
from history.store.parking import Parked
from history.support.rendering import told_of
from resolvers.resolution import Asked, Resolved
from triggers.consumer.options import AnyTrigger
from triggers.operations.choosing import without_message


@dataclass(frozen=True, slots=True)
class ResolverAnswer:
    """A resolver's present answer: NEW, DUPLICATE or IN_DOUBT, None if it failed; and why."""

    resolution: str | None
    reason: str | None


def answer_now(trigger: AnyTrigger | None, parked: Parked) -> ResolverAnswer:
    """Ask the resolver about a parked message with the evidence that was parked with it.

    Raises:
        ConfigurationError: the resolver is missing, or the message is.
    """
    asked = _resolver_of(trigger, parked)
    if parked.message is None:
        raise without_message(parked, parked.id, "it was not a message")
    message, redact = parked.message.copied(), None if trigger is None else trigger.settings.redaction
    asking = asked.ask(parked.uuid or "", parked.trigger_name, message, parked.evidence)
    try:
        resolved = _answered(asking, waits=trigger is not None and trigger.is_async)
    except Exception as error:  # noqa: BLE001  (any error of a resolver is shown)
        return ResolverAnswer(None, told_of(error, redact))
    reason = resolved.reason
    return ResolverAnswer(resolved.resolution.value, redact(reason) if redact and reason else reason)


def _answered(asking: Coroutine[Any, Any, Resolved], *, waits: bool) -> Resolved:
    return asyncio.run(asking) if waits else drive(asking)


def _resolver_of(trigger: AnyTrigger | None, parked: Parked) -> Asked:
    name = parked.trigger_name
    if trigger is None:
        problem = f"no code of the trigger {name} is loaded, so its resolver cannot be asked"
        remedy = "start the dashboard with the module that has it: doubtless dashboard MODULE"
        raise ConfigurationError("MODULE", problem, remedy)
    if trigger.resolver is None:
        raise ConfigurationError("resolver", f"the trigger {name} has none", "give it resolver=...")
    return trigger.resolver
