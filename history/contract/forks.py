"""A store that is used before a fork, and after it by the parent and its children in parallel."""

import asyncio
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from history.bridge import drive
from history.contract.common import TRIGGER, claim_one, found, state_of
from history.entry import EntryOutcome
from history.store import HistoryStore

#: How many children use the store in parallel.
CHILDREN = 3

#: How many messages each of them, and the parent, claims and completes.
MESSAGES = 25

#: How long children may take, in seconds; then children that hang are killed. A provider's child waits for
#: its messages for less time, so that the child can report what is missing.
PATIENCE = 150.0

#: A child's exit codes: it did its work, or it raised. A child that hung was killed.
DONE, RAISED = 0, 3


class ForkContract:
    """One store in several processes that were forked from one."""

    def survives_forks(self, store: HistoryStore) -> bool:  # noqa: ARG002  (for overriding methods)
        """Whether a forked child can use the store and finds its parent's entries; not one in memory."""
        return hasattr(os, "fork")

    async def test_a_parent_and_its_forked_children_use_one_store_at_once(
        self, store: HistoryStore, *, blocking: bool
    ) -> None:
        if not self.survives_forks(store):
            return
        names = [f"child-{number}" for number in range(CHILDREN)]
        handed = await store.claim(TRIGGER, names, "parent")
        await store.triggers()

        async def child(name: str, fence: int) -> None:
            await claim_and_complete(store, name)
            assert await store.complete(TRIGGER, name, fence), "what the parent claimed"

        children = [
            fork(partial(child, name, claim.fence), blocking=blocking)
            for name, claim in zip(names, handed, strict=True)
        ]
        await claim_and_complete(store, "parent")

        assert await ended(children) == [DONE] * CHILDREN
        uuids = [f"{name}-{number}" for name in (*names, "parent") for number in range(MESSAGES)]
        assert {state_of(entry) for entry in await store.lookup(TRIGGER, uuids + names)} == {EntryOutcome.OK}

    async def test_a_forked_child_that_ends_takes_nothing_from_its_parent(
        self, store: HistoryStore, *, blocking: bool
    ) -> None:
        if not self.survives_forks(store):
            return
        claimed = await claim_one(store, "u1", "parent")

        async def use_and_close() -> None:
            assert (await found(store, "u1")).owner == "parent"
            await store.close()

        assert await ended([fork(use_and_close, blocking=blocking)]) == [DONE]
        assert await store.complete(TRIGGER, "u1", claimed.fence)
        await claim_and_complete(store, "parent")


async def claim_and_complete(store: HistoryStore, name: str) -> None:
    """Claim messages, complete them, and check that this is remembered."""
    for number in range(MESSAGES):
        uuid = f"{name}-{number}"
        claimed = await claim_one(store, uuid, name)
        assert claimed.found is None, uuid
        assert await store.complete(TRIGGER, uuid, claimed.fence), uuid
        assert (await found(store, uuid)).outcome is EntryOutcome.OK, uuid


def fork(work: Callable[[], Coroutine[Any, Any, None]], *, blocking: bool) -> int:
    """Run work in a forked child, on an event loop unless ``blocking``; return its process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = RAISED
    try:
        (drive if blocking else asyncio.run)(work())
        code = DONE
    except BaseException:  # noqa: BLE001  (nothing may unwind into the copy of the test)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


async def ended(children: Sequence[int]) -> Sequence[int]:
    """Wait for children, and return their exit codes; kill children that hang."""
    deadline = time.monotonic() + PATIENCE
    return [await _ended(child, deadline) for child in children]


async def _ended(child: int, deadline: float) -> int:
    while True:
        process, status = os.waitpid(child, os.WNOHANG)  # noqa: ASYNC222  (with WNOHANG it does not wait)
        if process:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        await asyncio.sleep(0.01)
