"""The workers of one trigger: ``concurrency`` of them for each of its destinations."""

from contextlib import nullcontext

from history.shell import Lock, Shell
from triggers.consumer.gate import Gate
from triggers.consumer.join_sweeper import sweeper_of
from triggers.consumer.ordering.workers import make_ordered_workers
from triggers.consumer.worker import Worker
from triggers.pipeline.protocol import Pipeline
from triggers.providers.provider import Provider


def make_workers(
    name: str, gate: Gate, pipeline: Pipeline, *, provider: Provider, shell: Shell
) -> list[Worker]:
    """Return the workers of a trigger, each with a receiver of its own, named ``<name>-<trigger>-<number>``.

    Together they deliver ``concurrency`` messages at once, whatever the number of destinations.
    """
    settings = gate.trigger.settings
    if settings.ordered:
        return make_ordered_workers(name, gate, pipeline, provider=provider, shell=shell)
    several = len(settings.destinations) > 1
    sweeper = sweeper_of(gate, pipeline, shell)
    turns: Lock = shell.semaphore(settings.concurrency) if several else nullcontext()
    indexes = [index for index in range(len(settings.destinations)) for _ in range(settings.concurrency)]

    def goes_on() -> bool:
        return not shell.over.is_set() and not gate.closed

    return [
        Worker(
            name=f"{name}-{gate.trigger.name}-{number}",
            gate=gate,
            # Of several destinations, the next message may have to wait for its turn.
            pipeline=pipeline.at(index) if several else pipeline.turning(goes_on),
            provider=provider,
            shell=shell,
            destination=settings.destinations[index],
            turns=turns,
            sweeper=sweeper,
        )
        for number, index in enumerate(indexes)
    ]
