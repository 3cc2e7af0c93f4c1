"""What is told of duplicates: a line in the log, and the trigger's ``on_duplicate``.

Both come once the outcome is known and before the message is acknowledged, so that a process that dies in
between tells of it again. Neither can change what becomes of the message.
"""

import logging
from collections.abc import Sequence

from history.shell import Shell
from history.support.rendering import text_of
from history.support.user_code import is_failure
from triggers.detection.table import Status
from triggers.pipeline.run import Run
from triggers.service.failures import UnawaitedError
from triggers.service.outcome import DuplicateHook
from triggers.service.settings import Settings

_log = logging.getLogger(__name__)

#: How many duplicates of one batch the log names.
NAMED = 3


def is_duplicate(run: Run) -> bool:
    """Whether a message proved a duplicate."""
    return run.decision is not None and run.decision.status is Status.DUPLICATE


async def tell_of_duplicates(runs: Sequence[Run], settings: Settings, shell: Shell) -> None:
    """Log the duplicates among the messages of one call, in one line, and tell the trigger's hook of each."""
    found = [run for run in runs if is_duplicate(run)]
    if not found:
        return
    if _log.isEnabledFor(logging.INFO):
        _write_line(found, len(runs), settings.name)
    hook = settings.on_duplicate
    if hook is not None:
        for run in found:
            await _tell(hook, run, settings.name, shell)


def _write_line(found: Sequence[Run], messages: int, trigger: str) -> None:
    extra = {"trigger": trigger, "status": Status.DUPLICATE}
    if messages == 1:
        (run,) = found
        _log.info("%s: %s", run.named, run.reason, extra={**extra, "uuid": run.message.uuid})
        return
    named = ". ".join(f"{run.named}: {run.reason}" for run in found[:NAMED])
    more = f". And {len(found) - NAMED} more" if len(found) > NAMED else ""
    _log.info("%d of %d messages are duplicates: %s%s", len(found), messages, named, more, extra=extra)


async def _tell(hook: DuplicateHook, run: Run, trigger: str, shell: Shell) -> None:
    try:
        result = hook(run.message.copied(), run.outcome())
        if result is not None and hasattr(result, "__await__"):
            if shell.blocking:
                raise UnawaitedError("on_duplicate", result)  # noqa: TRY301  (told of below, as what it raises)
            await result
    except BaseException as error:
        if not is_failure(error):
            raise
        _log.error(
            "%s: on_duplicate failed, and the message is a duplicate all the same: %s",
            run.named,
            text_of(error),
            exc_info=error,
            extra={"trigger": trigger, "uuid": run.message.uuid},
        )
