"""Report duplicates: a line in the log, and the trigger's ``on_duplicate``.

Both happen after the outcome is known and before the message is acknowledged. If a process dies in between,
the duplicate is reported again. Neither can change the outcome of the message, with one exception: if
``on_duplicate`` names a destination that cannot be reached, the message is recovered, so that it is sent
there later.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from history.message import Message
from history.shell import Shell
from history.support.rendering import exception_info
from history.support.user_code import is_failure
from triggers.detection.table import Answer, Status
from triggers.pipeline.run import UNPARKED_DELAY, Run
from triggers.providers.outgoing import compose
from triggers.providers.provider import Provider, ProviderUnavailableError
from triggers.service.failures import UnawaitedError
from triggers.service.outcome import VERDICT_LOGGER, DuplicateHook
from triggers.service.settings import Settings

_log = logging.getLogger(__name__)
_verdicts = logging.getLogger(VERDICT_LOGGER)

#: Sends a whole message to a destination.
Forward = Callable[[str, Message], Awaitable[None]]

#: How many duplicates of one batch the log names.
NAMED = 3


def is_duplicate(run: Run) -> bool:
    """Whether a message is a duplicate."""
    return run.decision is not None and run.decision.status is Status.DUPLICATE


def forwarding_to(provider: Provider) -> Forward:
    """Return a function that sends to the destinations of a provider."""

    async def forward(destination: str, message: Message) -> None:
        await provider.send(destination, [compose(destination, message, uuid=message.sent_uuid)])

    return forward


async def tell_of_duplicates(
    runs: Sequence[Run], settings: Settings, shell: Shell, forward: Forward | None = None
) -> None:
    """Log the duplicates among the messages of one call in one line, and call the trigger's hook for each.

    If ``on_duplicate`` is a destination, ``forward`` sends them there; without ``forward`` they are not sent.
    """
    duplicates = [run for run in runs if is_duplicate(run)]
    if not duplicates:
        return
    if _verdicts.isEnabledFor(logging.INFO):
        _write_line(duplicates, len(runs), settings.name)
    hook = settings.on_duplicate
    if hook is None:
        return
    for run in duplicates:
        if isinstance(hook, str):
            await _send(hook, run, settings.name, forward)
        else:
            await _tell(hook, run, settings.name, shell)


def _write_line(duplicates: Sequence[Run], messages: int, trigger: str) -> None:
    extra = {"trigger": trigger, "status": Status.DUPLICATE}
    if messages == 1:
        (run,) = duplicates
        _verdicts.info("%s %s", run.named, run.reason, extra={**extra, "uuid": run.message.uuid})
        return
    named = ". ".join(f"{run.named} {run.reason}" for run in duplicates[:NAMED])
    more = f". And {len(duplicates) - NAMED} more" if len(duplicates) > NAMED else ""
    _verdicts.info(
        "%d of %d messages are duplicates: %s%s", len(duplicates), messages, named, more, extra=extra
    )


async def _tell(hook: DuplicateHook, run: Run, trigger: str, shell: Shell) -> None:
    try:
        result = hook(run.message.copied(), run.outcome())
        if result is not None and hasattr(result, "__await__"):
            if shell.blocking:
                raise UnawaitedError("on_duplicate", result)  # noqa: TRY301  (reported below, like its other errors)
            await result
    except BaseException as error:
        if not is_failure(error):
            raise
        _log.error(
            "%s: on_duplicate failed, and the message is a duplicate all the same: %s",
            run.named,
            run.text_of(error),
            exc_info=exception_info(error, redact=run.redact),
            extra={"trigger": trigger, "uuid": run.message.uuid},
        )


async def _send(destination: str, run: Run, trigger: str, forward: Forward | None) -> None:
    extra = {"trigger": trigger, "uuid": run.message.uuid}
    if forward is None:
        _log.warning(
            "%s: the duplicate is not sent to %s: only a consumer can send it",
            run.named,
            destination,
            extra=extra,
        )
        return
    try:
        await forward(destination, run.message)
    except ProviderUnavailableError as error:
        # Not acknowledged: it comes again, is a duplicate again, and is sent then.
        run.acknowledge = False
        run.patience = UNPARKED_DELAY
        if run.decision is not None:
            run.decision = replace(run.decision, answer=Answer.RECOVER_LATER)
        run.note(f"it could not be sent to {destination}: {run.text_of(error)}")
        _log.warning("%s RECOVERED: %s; delivered again later", run.named, run.notes[-1], extra=extra)
    except Exception as error:  # noqa: BLE001  (any error of a provider: it would raise it again)
        _log.error(
            "%s: the duplicate cannot be sent to %s, and is acknowledged: %s",
            run.named,
            destination,
            run.text_of(error),
            exc_info=exception_info(error, redact=run.redact),
            extra=extra,
        )
