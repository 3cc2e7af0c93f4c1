"""The threads in which Java works, in a process that has used none."""

import subprocess
import sys

from tests import ROOT

#: A provider for asyncio that is closed before anything was asked of it.
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
