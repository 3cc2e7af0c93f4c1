"""What code of a user's raises: a failure of it, or an end of the process or task that is let through."""

import asyncio
from collections.abc import Sequence


def is_failure(error: BaseException) -> bool:
    """Tell whether what user code raised is a failure of it; everything else is let through.

    An :class:`asyncio.CancelledError` is one where nobody has cancelled the task that runs it: the code
    awaited something that was cancelled. So is a group whose members are failures.
    """
    kind = type(error)
    if issubclass(kind, Exception):
        return True
    if issubclass(kind, BaseExceptionGroup):
        return all(is_failure(member) for member in members(error))
    return issubclass(kind, asyncio.CancelledError) and not _was_cancelled()


def _was_cancelled() -> bool:
    """Whether somebody has cancelled the task that runs."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs: nothing here can be cancelled
        return False
    return task is not None and task.cancelling() > 0


def members(group: BaseException) -> Sequence[BaseException]:
    """Return the exceptions of a group, which may be groups."""
    found: Sequence[BaseException] = vars(BaseExceptionGroup)["exceptions"].__get__(group)
    return found
