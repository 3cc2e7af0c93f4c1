"""Runs a Patch Bay in forked children that kill themselves before their n-th write, and then to its end.

An atomic sink gets three messages: the first fails once, the second always fails, and the third is delayed.
Everything uses one database. ``python -m tests.crash.victims.patchbay_victim FILE POINT...``
"""

import os
import signal
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event, text

from triggers import Message, TransientError
from triggers.consumer import worker
from triggers.patchbay import MessageContext, PatchBay, read_patchbay, redelivery

#: The first words of statements that change data.
_WRITES = ("INSERT", "UPDATE", "DELETE", "WITH", "COMMIT")

#: Tables that do not count: a consumer reports its state once a second, and this is not about messages.
_BESIDE = ("doubtless_records",)

#: How long the last run waits for more, in seconds: the leases of the killed run end after one second.
AFTER_LEASES = 3.0


def book(message: Message, connection: Connection, context: MessageContext) -> None:
    """Write an effect and send on; fail as the message says."""
    connection.execute(text("INSERT INTO effects (uuid) VALUES (:uuid)"), {"uuid": message.uuid})
    context.send("OUT", {"of": message.uuid}, uuid=f"{message.uuid}-booked")
    fails = message.properties.get("fails")
    if isinstance(fails, int) and message.delivery_count <= fails:
        raise TransientError("not yet")


def silent(_context: MessageContext) -> None:
    """Send nothing by itself."""


def die_before(point: int) -> None:
    """Have this process kill itself before its write of this number, from 1; count them in a file."""
    writes = 0

    def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal writes
        told = statement.lstrip().upper()
        if not told.startswith(_WRITES) or any(name.upper() in told for name in _BESIDE):
            return
        writes += 1
        if writes == point:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", count)


def run(file: Path, *, idle: float) -> None:
    with PatchBay(read_patchbay(file)) as bay:
        bay.run(until_idle=idle)


def in_child(file: Path, point: int | None, *, idle: float) -> bool:
    """Run in a forked child; return whether it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            if point is not None:
                die_before(point)
            run(file, idle=idle)
        except BaseException:  # noqa: BLE001  (whatever it was: the child must not go on as a second parent)
            traceback.print_exc()
            os.abort()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        raise AssertionError(f"the child of {file} failed by itself")
    return os.WIFEXITED(status)


def main() -> None:
    """Kill one child for each file and point, then let one run to the end; print the reached points."""
    worker.RECEIVE_WAIT, redelivery.POLL_INTERVAL = timedelta(seconds=0.05), 0.05
    for told in sys.argv[1:]:
        file, _, point = told.rpartition("=")
        if not in_child(Path(file), int(point), idle=0.6):
            print(point, flush=True)  # noqa: T201  (read by the test)
        in_child(Path(file), None, idle=AFTER_LEASES)


if __name__ == "__main__":
    main()
