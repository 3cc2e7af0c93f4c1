"""What is promised, in the three levels of the design, and which of them a given trigger reaches."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from triggers.declaration.decorator import Trigger


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One level: when it holds, and what is promised."""

    level: str
    when: str
    promise: str


ATOMIC = Guarantee(
    "atomic", "history entry and effects share one SQL transaction", "exactly once, no In Doubt window"
)
FENCED = Guarantee(
    "fenced", "effects elsewhere, uuid and fence handed to a target that checks them", "exactly once"
)
IN_DOUBT = Guarantee(
    "in doubt",
    "effects elsewhere, unchecked",
    "never twice by itself; after a crash the resolver or a person decides, nothing is lost",
)

#: The levels, strongest first.
GUARANTEES = (ATOMIC, FENCED, IN_DOUBT)


@dataclass(frozen=True, slots=True)
class Reached:
    """What one trigger promises: a level, or what there is instead of one, and why."""

    promise: str
    why: str


def guarantee_of(trigger: Trigger[..., Any]) -> Reached:
    """Return what a trigger promises; never more than can be known from its settings and its service."""
    return next(_reached(trigger))


def _reached(trigger: Trigger[..., Any]) -> Iterator[Reached]:
    settings, binding = trigger.settings, trigger.binding
    if settings.acknowledge_mode == "auto":
        yield Reached("at most once", "acknowledge_mode='auto': a crash loses what was received")
    if not settings.policy.detect_duplicates:
        yield Reached("at least once", "duplicates are not detected: the service runs on every delivery")
    if not trigger.has_history:
        yield Reached("none", "no document history: only the delivery count and the resolver decide")
    if binding.resources:
        taken = " and ".join(sorted(binding.resources))
        yield Reached(ATOMIC.level, f"the service takes the {taken} of its history's transaction")
    if settings.policy.in_doubt == "execute":
        yield Reached("at least once", "in_doubt='execute': a message In Doubt runs again")
    if settings.policy.in_doubt == "acknowledge":
        yield Reached("at most once", "in_doubt='acknowledge': a message In Doubt is dropped")
    if binding.takes_delivery:
        yield Reached(
            FENCED.level, "the service takes a Delivery: if its target checks delivery.fence; else in doubt"
        )
    yield Reached(IN_DOUBT.level, f"{IN_DOUBT.promise}; {_meeting_copies(trigger)}")


def _meeting_copies(trigger: Trigger[..., Any]) -> str:
    """Say what becomes of a copy that arrives while its original runs."""
    lease = trigger.settings.lease
    if lease is not None:
        return f"a copy waits while its original runs, and {lease.total_seconds():g} s after it has died"
    if trigger.resolver is None:
        return "lease=None: a copy that arrives while its original runs is In Doubt at once"
    return "lease=None: the resolver is asked while the original runs, and where it says NEW, both run"
