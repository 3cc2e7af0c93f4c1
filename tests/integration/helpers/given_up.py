"""A trigger that gives up all its messages, and sinks that get the events."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from history import MemoryHistory
from triggers import FatalError, Message, Outcome, Trigger, on_retrieval_failure, trigger
from triggers.sinks import Sink


def doomed(name: str = "doomed", destination: str = "orders") -> Trigger[..., None]:
    """Make a trigger that gives up every message, with its own history."""

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
    """Send events to a sink; close it at the end."""
    subscription = on_retrieval_failure(pattern, synchronous=synchronous)(sink)
    try:
        yield
    finally:
        subscription.close()
        sink.close()


def assert_it_changed_nothing(outcome: Outcome) -> None:
    """Check that the message was given up as without a sink."""
    assert (outcome.acknowledge, outcome.parked) == (True, True)
    assert outcome.event is not None
