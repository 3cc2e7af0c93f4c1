"""The second table: what a service's end means for the entry, the provider and the next delivery.

:data:`AFTERMATHS` is the table; :func:`afterwards` finds the first line that fits. Like the first table,
:mod:`triggers.detection.table`, it is pure.
"""

from dataclasses import dataclass
from functools import cache

from history.entry import EntryOutcome
from triggers.detection.causes import Cause
from triggers.detection.suspension import Suspension
from triggers.detection.table import Answer, FailurePolicy, Known, Policy


class Ending(Known):
    """How a service ended. If the process died, the service did not end: its entry stays STARTED."""

    SUCCESS = "success"
    FATAL = "fatal"
    TRANSIENT = "transient"  # or no retries left, if the trigger is plain
    STOPPED = "failed transiently, and its consumer stops before the next try"
    LEFT = "failed, and its framework runs it again"
    LOST = "stopped: its lease was lost to another owner"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Aftermath:
    """The meaning of a service's end. ``entry`` None releases it; ``next`` is the next delivery's verdict.

    ``cause`` is the cause of the event, if there is an event. ``lost`` means that the entry now belongs to
    another owner, and is left unchanged.

    Each instance is in :data:`AFTERMATHS`, or is :data:`LEFT_TO_ITS_OWNER`, and equals only itself.
    """

    endings: frozenset[Ending]
    transacted: bool | None
    history: bool | None = None
    on_retry_failure: FailurePolicy | None = None
    entry: EntryOutcome | None = None
    answer: Answer = Answer.ACKNOWLEDGE
    park: bool = False
    cause: Cause | None = None
    suspension: Suspension | None = None
    lost: bool = False
    next: str

    @property
    def event(self) -> bool:
        """Whether the retrieval failure event is raised."""
        return self.cause is not None

    @property
    def suspend(self) -> bool:
        """Whether the trigger is suspended, with any settings."""
        return self.suspension is not None


_SUCCESS = frozenset({Ending.SUCCESS})
_FATAL = frozenset({Ending.FATAL})
_TRANSIENTLY = frozenset({Ending.TRANSIENT})
_FAILURES = _FATAL | _TRANSIENTLY
_AGAIN_AND_AGAIN = "runs again, until max_delivery_count is passed: then the event"

#: The lines are tried in this order.
AFTERMATHS: tuple[Aftermath, ...] = (
    Aftermath(endings=_SUCCESS, transacted=None, entry=EntryOutcome.OK, next="DUPLICATE"),
    Aftermath(
        endings=_FATAL,
        transacted=False,
        entry=EntryOutcome.FAILED,
        park=True,
        cause=Cause.SERVICE_FAILED,
        next="DUPLICATE",
    ),
    Aftermath(
        endings=_TRANSIENTLY,
        transacted=False,
        on_retry_failure="throw",
        entry=EntryOutcome.FAILED,
        park=True,
        cause=Cause.RETRIES_USED_UP,
        next="DUPLICATE",
    ),
    Aftermath(
        endings=_TRANSIENTLY,
        transacted=False,
        on_retry_failure="suspend",
        answer=Answer.RECOVER,
        suspension=Suspension.RESOURCE,
        next="NEW",
    ),
    Aftermath(
        endings=_TRANSIENTLY,
        transacted=True,
        history=False,
        on_retry_failure="suspend",
        answer=Answer.RECOVER,
        suspension=Suspension.RESOURCE,
        next=_AGAIN_AND_AGAIN,
    ),
    Aftermath(
        endings=_FAILURES, transacted=True, history=False, answer=Answer.RECOVER, next=_AGAIN_AND_AGAIN
    ),
    Aftermath(
        endings=_TRANSIENTLY,
        transacted=True,
        on_retry_failure="suspend",
        answer=Answer.RECOVER,
        suspension=Suspension.RESOURCE,
        next="NEW",
    ),
    Aftermath(endings=_TRANSIENTLY, transacted=True, answer=Answer.RECOVER, next="NEW"),
    Aftermath(
        endings=_FATAL,
        transacted=True,
        entry=EntryOutcome.FAILED,
        answer=Answer.RECOVER,
        next="rejected, with the event",
    ),
)


#: After a run that found out that its entry was taken over: its new owner has the message.
LEFT_TO_ITS_OWNER = Aftermath(
    endings=frozenset({Ending.LOST}),
    transacted=None,
    lost=True,
    answer=Answer.RECOVER,
    next="as its owner leaves it",
)


#: After a run that should be repeated, but its consumer stops or disables the trigger first.
STOPPED_BETWEEN_TRIES = Aftermath(
    endings=frozenset({Ending.STOPPED}), transacted=None, answer=Answer.RECOVER, next="NEW"
)


#: After a failed run that its framework, for example Celery, will repeat.
LEFT_TO_ITS_HOST = Aftermath(
    endings=frozenset({Ending.LEFT}), transacted=None, answer=Answer.RECOVER, next="NEW"
)


@cache
def afterwards(ending: Ending, policy: Policy, *, history: bool) -> Aftermath:
    """Return what a service's end means for the entry, the provider and the next delivery."""
    return next(
        aftermath
        for aftermath in (*AFTERMATHS, STOPPED_BETWEEN_TRIES, LEFT_TO_ITS_HOST, LEFT_TO_ITS_OWNER)
        if ending in aftermath.endings
        and aftermath.transacted in {None, policy.transacted}
        and aftermath.history in {None, history}
        and aftermath.on_retry_failure in {None, policy.on_retry_failure}
    )


def suspension_after(ending: Ending, aftermath: Aftermath, policy: Policy) -> Suspension | None:
    """Return how a service's end suspends its trigger; None if it does not.

    ``suspend_on_error`` applies to each end that gives a message up, or after which it would run for ever.
    """
    given_up = ending is Ending.FATAL or aftermath.entry is EntryOutcome.FAILED
    return Suspension.FATAL if given_up and policy.suspend_on_error else aftermath.suspension
