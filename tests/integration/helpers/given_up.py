"""A trigger whose messages are all given up, and sinks that hear of it."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from history import MemoryHistory
from triggers import FatalError, Message, Outcome, Trigger, on_retrieval_failure, trigger
from triggers.sinks import Sink


def doomed(name: str = "doomed", destination: str = "orders") -> Trigger[..., None]:
    """Make a trigger that gives every message up, over a history of its own."""

    @trigger(destination, name=name, history=MemoryHistory())
    def fail(message: Message) -> None:
        raise FatalError("no such account")

    return fail


def async_doomed(name: str = "doomed", destination: str = "orders") -> Trigger[..., Any]:
    """Make the same with a coroutine function."""

    @trigger(destination, name=name, history=MemoryHistory())
    async def fail(message: Message) -> None:
        raise FatalError("no such account")

    return fail


@contextmanager
def hearing(sink: Sink, pattern: str = "doomed", *, synchronous: bool = True) -> Generator[None]:
    """Let a sink hear of events; close it at the end."""
    subscription = on_retrieval_failure(pattern, synchronous=synchronous)(sink)
    try:
        yield
    finally:
        subscription.close()
        sink.close()


def assert_it_changed_nothing(outcome: Outcome) -> None:
    """Check that the message was given up as if there were no sink."""
    assert (outcome.acknowledge, outcome.parked) == (True, True)
    assert outcome.event is not None
