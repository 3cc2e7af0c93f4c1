"""Shared parts of the checks of a document history."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from importlib.util import find_spec
from typing import Any, TypeVar

from history.bridge import drive
from history.entry import Claim, Entry, EntryOutcome, State
from history.errors import MissingExtraError
from history.store import BatchOwner, HistoryStore

if find_spec("pytest") is None:
    raise MissingExtraError("the conformance suite of histories", extra="contract", package="pytest")

T = TypeVar("T")

#: The trigger for checks that need only one.
TRIGGER = "book-order"

#: How long a check waits for an expected event, in seconds; only a failing check waits so long.
PATIENCE = 60.0

#: A lease or time to live that is over soon.
SHORT = timedelta(seconds=0.3)
#: A lease or time to live that does not end during a check.
LONG = timedelta(hours=1)

ODD_NAMES = (
    "a b",
    "{orders}",
    "order`s:1/2",
    "a}{b",
    "quote\"'s",
    "über→注文",
    "%_*?[x]",
    "back\\slash",
    "x" * 300,
)
ODD_UUIDS = (
    *ODD_NAMES,
    "line\nfeed",
    "tab\t",
    " ",
    "nul\0",
    "ID:" + "9" * 10_000,
    "Ä" * 10_000,
    "🧾",
    "1",
    "01",
    "",  # no message has it: ordered triggers keep their active consumer under it
)


#: Forks two children that both believe to be process 1, as in separate namespaces.
_CLONES = """
import os
from history.store.owners import owner_token
os.getpid = lambda: 1
owner_token()
for _ in range(2):
    if os.fork() == 0:
        os.write(1, (owner_token() + chr(10)).encode())
        os._exit(0)
    os.wait()
"""


def tokens_of_clones() -> Sequence[str]:
    """Return the owner tokens of two processes that were forked from one and have the same number."""
    ended = subprocess.run([sys.executable, "-c", _CLONES], check=True, capture_output=True, text=True)
    return ended.stdout.split()


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Repeat until ``condition`` holds; fail if it does not within ``PATIENCE``."""
    deadline = time.monotonic() + PATIENCE
    while not await condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s"
        await asyncio.sleep(0.02)


async def together(coroutines: Sequence[Coroutine[Any, Any, T]], *, blocking: bool) -> Sequence[T]:
    """Run coroutines in parallel: those of a blocking store in one thread each."""
    if blocking:
        return await asyncio.gather(*(asyncio.to_thread(drive, coroutine) for coroutine in coroutines))
    return await asyncio.gather(*coroutines)


async def claim_one(store: HistoryStore, uuid: str, owner: str | BatchOwner, **terms: Any) -> Claim:
    """Claim a single uuid of ``TRIGGER``."""
    (claimed,) = await store.claim(TRIGGER, [uuid], owner, **terms)
    return claimed


async def found(store: HistoryStore, uuid: str, trigger: str = TRIGGER) -> Entry:
    """Return the entry of a uuid that must have one."""
    (entry,) = await store.lookup(trigger, [uuid])
    assert entry is not None
    return entry


async def absent(store: HistoryStore, uuid: str) -> bool:
    """Whether a uuid has no entry."""
    return await store.lookup(TRIGGER, [uuid]) == [None]


def state_of(entry: Entry | None) -> State | EntryOutcome | None:
    """Name an entry's state in one word: None, STARTED, OK or FAILED."""
    return None if entry is None else entry.outcome or entry.state
