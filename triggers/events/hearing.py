"""Code for all kinds of events: patterns of names, and handlers that may be coroutine functions."""

import asyncio
import re
import threading
from collections.abc import Awaitable
from contextvars import copy_context

from history.shell import Shell


def wildcard(pattern: str) -> re.Pattern[str]:
    """Return a pattern that matches whole names, in which each ``*`` stands for anything; case matters."""
    # Not fnmatch: a name may contain brackets and question marks.
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


async def failure_of(handling: Awaitable[None]) -> BaseException | None:
    """Await something, and return its exception: an event loop may not survive one that leaves a task."""
    try:
        await handling
    except BaseException as error:  # noqa: BLE001  (handed to the caller)
        return error
    return None


async def finish(handling: Awaitable[None], shell: Shell) -> None:
    """Let a coroutine handler run to its end; in blocking code on a separate event loop.

    Raises:
        BaseException: whatever the handler raised.
    """
    if not shell.blocking:
        await handling
        return

    # The calling thread may have a running loop, so the handler gets another thread.
    failure: list[BaseException] = []

    def run() -> None:
        try:
            ended = asyncio.run(failure_of(handling))
        except BaseException as error:  # noqa: BLE001  (handed to the caller, which logs it or ends)
            ended = error
        if ended is not None:
            failure.append(ended)

    # Not an executor's thread: executors take no more work once the interpreter is ending.
    thread = threading.Thread(target=copy_context().run, args=(run,), name="doubtless-event")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
