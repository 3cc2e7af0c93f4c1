"""How the run of a service ended, and what the decision table orders after it."""

from functools import cache
from typing import Any, NamedTuple

from triggers.detection.aftermath import Aftermath, Ending, afterwards, suspension_after
from triggers.detection.suspension import Suspension
from triggers.detection.table import Policy


class End(NamedTuple):
    """How a service ended; made by :func:`succeeded` and :func:`failed`, and never changed.

    ``result`` is the value that the service returned, ``error`` the exception that it raised. ``suspension``
    is the kind of suspension, if the run suspends the trigger.
    """

    ending: Ending
    aftermath: Aftermath
    result: Any = None
    error: BaseException | None = None
    suspension: Suspension | None = None


def succeeded(result: Any, policy: Policy, *, recorded: bool) -> End:
    """Return the end of a run that returned; ``recorded`` means that it has an entry."""
    end = _success(policy, recorded)
    return end if result is None else End(end.ending, end.aftermath, result)


# Most services return nothing, so this end is made only once.
@cache
def _success(policy: Policy, recorded: bool) -> End:  # noqa: FBT001
    return End(Ending.SUCCESS, afterwards(Ending.SUCCESS, policy, history=recorded))


def failed(
    ending: Ending,
    error: BaseException,
    policy: Policy,
    *,
    recorded: bool,
    suspension: Suspension | None = None,
) -> End:
    """Return the end of a run that failed or was undone. ``suspension`` overrides the policy."""
    aftermath = afterwards(ending, policy, history=recorded)
    suspension = suspension or suspension_after(ending, aftermath, policy)
    return End(ending, aftermath, None, error, suspension)
