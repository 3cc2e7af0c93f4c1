"""The floors: the fewest commands that reach the same goal if you send them to Redis by hand."""

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.bench import TIME_TO_LIVE, Bench
from history.message import Message
from triggers import Trigger


def claim(client: Any, message: Message) -> None:
    """Note that a message is started, unless it was noted before."""
    client.set(f"bare:{message.uuid}", b"started", nx=True, ex=TIME_TO_LIVE)


def complete(client: Any, message: Message) -> None:
    """Note that a message is completed."""
    client.set(f"bare:{message.uuid}", b"completed", ex=TIME_TO_LIVE)


def claim_all(client: Any, messages: Sequence[Message]) -> None:
    """Claim in one pipeline, and so in one round trip."""
    pipeline = client.pipeline(transaction=False)
    for message in messages:
        claim(pipeline, message)
    pipeline.execute()


def complete_all(client: Any, messages: Sequence[Message]) -> None:
    """Complete in one pipeline, and so in one round trip."""
    pipeline = client.pipeline(transaction=False)
    for message in messages:
        complete(pipeline, message)
    pipeline.execute()


def seen_by(bench: Bench, idle: Trigger[[Message], None]) -> Callable[[int], Sequence[Message]]:
    """Return a function that makes messages which a trigger completed and which were also noted by hand."""

    def make(count: int) -> Sequence[Message]:
        messages = bench.fresh(count)
        idle.handle_batch(messages)
        claim_all(bench.bare(), messages)
        return messages

    return make
