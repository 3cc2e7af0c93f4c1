"""Triggers for ``doubtless run tests.integration.helpers.services``, watched and steered through files.

``SERVED`` names a folder. Services note there each beginning and each end. For a body "wait", a service waits
for a file named like the uuid, or "<uuid>.<process id>" for only one process. For a body "exit", it calls
``sys.exit(7)``.
"""

import asyncio
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

from resolvers.resolution import Resolution
from tests.fixtures.ledger import Ledger
from triggers import Message, trigger

FOLDER = Path(os.environ["SERVED"])
NOTES = Ledger(FOLDER / "notes")

#: For how long a run of ``leased`` counts as alive.
LEASE = timedelta(seconds=2.5)

#: The same for tests that are not about leases, so that they do not wait long.
SHORT = timedelta(seconds=1)

#: How long a booking takes, in seconds.
BOOKING = 0.3


def begin(message: Message) -> bool:
    """Note a beginning; return whether the service must wait."""
    NOTES.note("begun", message.uuid or "", str(os.getpid()))
    if message.body == "exit":
        sys.exit(7)
    return message.body == "wait"


def may_end(message: Message) -> bool:
    """Whether the file is there, or the file for only this process."""
    return any((FOLDER / name).exists() for name in (f"{message.uuid}", f"{message.uuid}.{os.getpid()}"))


def work(message: Message) -> None:
    """Do the work that the message describes."""
    if begin(message):
        while not may_end(message):
            time.sleep(0.01)
    NOTES.note("done", message.uuid or "", str(os.getpid()))


def says_new(uuid: str, trigger_name: str, message: Message) -> Resolution:
    return Resolution.NEW


blocking = trigger("blocking", name="blocking", lease=SHORT)(work)
one_at_a_time = trigger("one-at-a-time", name="one-at-a-time", prefetch=1)(work)
leased = trigger("leased", name="leased", lease=LEASE)(work)
resolved = trigger("resolved", name="resolved", lease=LEASE, resolver=says_new)(work)


def already_done(uuid: str, trigger_name: str, message: Message) -> Resolution:
    """Look for the effect, as the resolver of docs/resolvers.md does."""
    done = any(words[:2] == ("done", uuid) for words in NOTES.lines())
    return Resolution.DUPLICATE if done else Resolution.NEW


def book(message: Message) -> None:
    """Work for a while, and have the one effect at the end."""
    begin(message)
    time.sleep(BOOKING)
    NOTES.note("done", message.uuid or "", str(os.getpid()))


looked_up_soon = trigger(
    "looked-up-soon", name="looked-up-soon", resolver=already_done, prefetch=1, lease=SHORT
)(work)
hasty = trigger("hasty", name="hasty", resolver=already_done, prefetch=1, lease=None)(book)


@trigger("asyncio", name="asyncio", lease=SHORT)
async def in_event_loop(message: Message) -> None:
    """Do the work that the message describes, without blocking the event loop."""
    if begin(message):
        while not may_end(message):  # noqa: ASYNC110  (a file has no event)
            await asyncio.sleep(0.01)
    NOTES.note("done", message.uuid or "", str(os.getpid()))
