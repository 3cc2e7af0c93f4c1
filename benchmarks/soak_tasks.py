"""One process of the soak test with many coroutines at a time, otherwise like ``soak_service``."""

import asyncio
import os
import random
import sys
from pathlib import Path

from benchmarks.soak_service import EFFECTS, LEASE, NAME
from tests.fixtures.ledger import Ledger
from triggers import AsyncConsumer, Delivery, Message, trigger

#: So many that they share a receiver and their calls.
CONCURRENCY = 64

#: The longest pause on either side of the effect, in seconds: at any time most tasks are working.
LONGEST_MOMENT = 0.1


@trigger(NAME, name=NAME, concurrency=CONCURRENCY, lease=LEASE)
async def work(message: Message, delivery: Delivery) -> None:
    """Have an effect that shows if it happens twice."""
    await asyncio.sleep(random.uniform(0, LONGEST_MOMENT))  # noqa: S311  (no secret)
    Ledger(Path(os.environ[EFFECTS])).note(delivery.uuid or "", message.message_id or "", str(os.getpid()))
    await asyncio.sleep(random.uniform(0, LONGEST_MOMENT))  # noqa: S311  (no secret)


if __name__ == "__main__":
    provider, store = sys.argv[1:]
    asyncio.run(AsyncConsumer([work], provider, history=store, parent=os.getppid()).run(signals=True))
