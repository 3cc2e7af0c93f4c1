"""The threads that run Java, in a process that has not used Java."""

import asyncio
import subprocess
import sys
import threading
from typing import Any, cast

from tests import ROOT
from tests.fixtures.waiting import PATIENCE, eventually
from triggers.providers.jms.provider import AsyncJmsProvider, JmsDriverThread

#: A provider for asyncio that is closed before its first call.
UNUSED = """
import threading
from triggers.providers.jms.provider import JmsDriverThread

JmsDriverThread("doubtless-jms").end()
for thread in threading.enumerate():
    if thread.name == "doubtless-jms":
        thread.join()
"""


def test_a_thread_that_used_no_java_ends_in_silence() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", UNUSED], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert ended.stderr == ""


class Opening:
    """A provider that is its own receiver; its temporary queue opens when ``goes_on`` is set."""

    def __init__(self) -> None:
        self.begun, self.goes_on, self.closed = threading.Event(), threading.Event(), threading.Event()

    async def open_temporary(self, purpose: str) -> tuple[str, Any]:
        self.begun.set()
        assert self.goes_on.wait(PATIENCE)
        return purpose, self

    async def close(self) -> None:
        self.closed.set()


async def test_a_temporary_queue_that_nobody_waits_for_any_more_is_closed() -> None:
    blocking = Opening()
    provider = AsyncJmsProvider(cast("Any", blocking), JmsDriverThread("doubtless-jms"))

    opened = asyncio.create_task(provider.open_temporary("replies"))
    await asyncio.to_thread(blocking.begun.wait, PATIENCE)
    opened.cancel()
    await asyncio.gather(opened, return_exceptions=True)
    blocking.goes_on.set()

    await asyncio.to_thread(eventually, blocking.closed.is_set)
    await provider.close()
