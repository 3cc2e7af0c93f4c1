"""Checks of the backlog, for a provider that reports it."""

import asyncio
import time
from collections.abc import Callable
from uuid import uuid4

from triggers.providers.backlog import Backlog
from triggers.providers.contract.common import SOON, ContractTools, numbered, take
from triggers.providers.provider import Provider, capabilities_of

#: The pause before the next question, in seconds.
AGAIN = 0.05


class WaitingContract(ContractTools):
    """Checks of the backlog, for a provider that reports it."""

    async def test_it_says_what_waits(self, provider: Provider, another: Provider) -> None:
        telling = capabilities_of(provider).telling_backlog
        async with self.receiving(provider):
            pass
        if not self.tells_backlog:
            assert telling is None or not (await telling.backlogs([(self.destination, "s")]))[0].is_known
            return
        await provider.send(self.destination, numbered(3))

        waiting = await self._asked(another, lambda found: found.waiting == 3)

        async with self.receiving(provider) as receiver:
            taken = await take(receiver, 3)
            held = await self._asked(another, lambda found: found.waiting in {0, 3})
            await receiver.acknowledge(taken)
        done = await self._asked(another, lambda found: found.waiting == 0 and not found.held)
        assert waiting.waiting == 3
        assert not waiting.held
        assert held.held in {3, None}
        assert (done.waiting, done.held or 0) == (0, 0)

    async def test_a_place_that_is_not_there_has_no_numbers(self, provider: Provider) -> None:
        telling = capabilities_of(provider).telling_backlog
        if telling is None:
            return
        absent = f"absent-{uuid4().hex[:12]}"

        found = await telling.backlogs([(absent, "s"), (absent, "t")])

        assert [(one.destination, one.is_known) for one in found[:2]] == [(absent, False)] * 2

    async def _asked(self, provider: Provider, is_there: Callable[[Backlog], bool]) -> Backlog:
        """Ask until the answer fits, or for a while; return the last answer."""
        telling = capabilities_of(provider).telling_backlog
        assert telling is not None
        deadline = time.monotonic() + SOON
        while True:
            found = (await telling.backlogs([(self.destination, "s")]))[0]
            if is_there(found) or time.monotonic() > deadline:
                return found
            await asyncio.sleep(AGAIN)
