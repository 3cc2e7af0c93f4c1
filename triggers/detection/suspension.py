"""The third table: what suspends a trigger, who resumes it, and what that costs. Pure and complete.

:data:`TERMS` is the table, which ``docs/how-to/suspend-and-resume.md`` shows; :func:`terms_of` finds the row
that fits. Consumers of every provider follow it (``triggers.consumer``). Sources:
the webMethods trigger's *Suspend on error*, *Suspend and retry later* and *Suspend and recover*.
"""

from dataclasses import dataclass
from enum import StrEnum


class Suspension(StrEnum):
    """Why a trigger is suspended. A later kind of this list outranks an earlier one."""

    HISTORY = "history"
    RESOURCE = "resource"
    COMMAND = "command"
    FATAL = "fatal"

    def outranks(self, other: "Suspension") -> bool:
        """Whether this kind replaces the other kind."""
        return _RANKS.index(self) > _RANKS.index(other)


_RANKS = list(Suspension)


class Waker(StrEnum):
    """The parties that must agree before a trigger receives again."""

    HISTORY = "its history answers"
    MONITOR = "its `monitor` returns True"
    PERSON = "a person resumes it"


class Reach(StrEnum):
    """Which consumers of the trigger are suspended."""

    HERE = "only this consumer"
    RUNNING = "all running consumers"
    ALL = "all consumers, and consumers that start later"


class MessageFate(StrEnum):
    """The fate of the message that suspended the trigger."""

    PARKED = "acknowledged and parked"
    AGAIN = "given back, and NEW at its next delivery"
    REJECTED = "rolled back, and rejected at its next delivery"
    NONE = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """One row of the table. None in a condition means any.

    ``wakers`` must all agree; a person's command resumes every kind. ``deliveries`` is how many deliveries
    one suspension costs the message that caused it. A suspended trigger receives nothing, so its waiting time
    costs no deliveries.
    """

    kind: Suspension
    cause: str
    monitor: bool | None = None
    transacted: bool | None = None
    wakers: tuple[Waker, ...]
    fate: MessageFate
    deliveries: int = 1
    reach: Reach = Reach.HERE

    @property
    def needs_person(self) -> bool:
        """Whether only a person can resume the trigger."""
        return Waker.PERSON in self.wakers

    def overtakes(self, *, ordered: bool) -> bool:
        """Whether another consumer may meanwhile run messages that come after the failed one."""
        return self.reach is Reach.HERE and not ordered


_OUTAGE = "the history does not answer"
_TRANSIENT = (
    'transient failure: `on_retry_failure="suspend"` after all retries, '
    '`on_rollback="suspend_and_recover"`, or a resolver that cannot decide now'
)
_FATAL = (
    '`suspend_on_error=True`: fatal failure, or failure after all retries with `on_retry_failure="throw"`'
)

TERMS: tuple[Terms, ...] = (
    Terms(
        kind=Suspension.HISTORY, cause=_OUTAGE, monitor=False, wakers=(Waker.HISTORY,), fate=MessageFate.AGAIN
    ),
    Terms(
        kind=Suspension.HISTORY,
        cause=_OUTAGE,
        monitor=True,
        wakers=(Waker.HISTORY, Waker.MONITOR),
        fate=MessageFate.AGAIN,
    ),
    Terms(
        kind=Suspension.RESOURCE,
        cause=_TRANSIENT,
        monitor=True,
        wakers=(Waker.HISTORY, Waker.MONITOR),
        fate=MessageFate.AGAIN,
    ),
    # The end of a pause proves nothing: each try costs a delivery, and the message has max_delivery_count.
    Terms(
        kind=Suspension.RESOURCE,
        cause=_TRANSIENT,
        monitor=False,
        wakers=(Waker.PERSON,),
        fate=MessageFate.AGAIN,
    ),
    Terms(
        kind=Suspension.COMMAND,
        cause="`doubtless suspend`, the dashboard, or `consumer.suspend()`",
        wakers=(Waker.PERSON,),
        fate=MessageFate.NONE,
        deliveries=0,
        reach=Reach.RUNNING,
    ),
    Terms(
        kind=Suspension.FATAL,
        cause=_FATAL,
        transacted=False,
        wakers=(Waker.PERSON,),
        fate=MessageFate.PARKED,
        deliveries=0,
        reach=Reach.ALL,
    ),
    Terms(
        kind=Suspension.FATAL,
        cause=_FATAL,
        transacted=True,
        wakers=(Waker.PERSON,),
        fate=MessageFate.REJECTED,
        deliveries=1,
        reach=Reach.ALL,
    ),
)


def terms_of(suspension: Suspension, *, monitor: bool, transacted: bool) -> Terms:
    """Return the row of a suspension, for a trigger with or without a monitor, transacted or not."""
    return next(
        terms
        for terms in TERMS
        if terms.kind is suspension
        and terms.monitor in {None, monitor}
        and terms.transacted in {None, transacted}
    )
