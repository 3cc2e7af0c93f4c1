"""How the run of a service ended, and what the decision table says of that."""

from functools import cache
from typing import Any, NamedTuple

from triggers.detection.aftermath import Aftermath, Ending, afterwards
from triggers.detection.table import Policy


class End(NamedTuple):
    """How a service ended; made by :func:`succeeded` and :func:`failed`, and never written to.

    ``result`` is whatever the service returned, ``error`` whatever it raised. ``suspends`` says that the
    trigger is to be suspended although the table does not say so.
    """

    ending: Ending
    aftermath: Aftermath
    result: Any = None
    error: BaseException | None = None
    suspends: bool = False


def succeeded(result: Any, policy: Policy, *, recorded: bool) -> End:
    """Return the end of a run that returned; ``recorded`` says that it has an entry."""
    end = _success(policy, recorded)
    return end if result is None else End(end.ending, end.aftermath, result)


# Most services return nothing, and then nothing is made anew.
@cache
def _success(policy: Policy, recorded: bool) -> End:  # noqa: FBT001
    return End(Ending.SUCCESS, afterwards(Ending.SUCCESS, policy, history=recorded))


def failed(
    ending: Ending, error: BaseException, policy: Policy, *, recorded: bool, suspends: bool = False
) -> End:
    """Return the end of a run that failed, or whose effects were undone."""
    return End(ending, afterwards(ending, policy, history=recorded), None, error, suspends)
