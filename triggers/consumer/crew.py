"""The workers of one trigger: ``concurrency`` of them for each of its destinations."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from history.bridge import settled
from triggers.consumer.gate import Gate
from triggers.consumer.join_sweeper import sweeper_of
from triggers.consumer.ordering.workers import hire_ordered
from triggers.consumer.worker import Worker
from triggers.pipeline.protocol import Pipeline
from triggers.providers.provider import Provider


class Semaphore(Protocol):
    """What both kinds of semaphore can do."""

    def acquire(self) -> Awaitable[bool] | bool:
        """Wait for a turn."""
        ...

    def release(self) -> None:
        """Let another one have it."""
        ...


@dataclass(frozen=True, slots=True)
class Turns:
    """Lets so many workers deliver at once, however many there are."""

    semaphore: Semaphore

    async def __aenter__(self) -> None:
        await settled(self.semaphore.acquire())

    async def __aexit__(self, *_: object) -> None:
        self.semaphore.release()


def hire(
    name: str,
    gate: Gate,
    pipeline: Pipeline,
    *,
    provider: Provider,
    stopping: Callable[[], bool],
    pause: Callable[[float], Awaitable[None] | None],
    semaphore: Callable[[int], Semaphore],
) -> list[Worker]:
    """Return the workers of a trigger, each with a receiver of its own, named ``<name>-<trigger>-<number>``.

    Together they deliver ``concurrency`` messages at once, whatever the number of destinations.
    """
    settings = gate.trigger.settings
    if settings.ordered:
        return hire_ordered(
            name, gate, pipeline, provider=provider, stopping=stopping, pause=pause, semaphore=semaphore
        )
    several = len(settings.destinations) > 1
    sweeper = sweeper_of(gate, pipeline, stopping)
    turns: AbstractAsyncContextManager[None] = nullcontext()
    if several:
        turns = Turns(semaphore(settings.concurrency))
    places = [place for place in range(len(settings.destinations)) for _ in range(settings.concurrency)]
    return [
        Worker(
            name=f"{name}-{gate.trigger.name}-{number}",
            gate=gate,
            pipeline=pipeline.at(place) if several else pipeline,
            provider=provider,
            stopping=stopping,
            pause=pause,
            destination=settings.destinations[place],
            turns=turns,
            sweeper=sweeper,
        )
        for number, place in enumerate(places)
    ]
