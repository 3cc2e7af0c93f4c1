"""The workers of one trigger: ``concurrency`` of them for each of its destinations."""

from collections.abc import Sequence
from contextlib import nullcontext

from history.shell import Lock, Shell
from triggers.consumer.gate import Gate
from triggers.consumer.join_sweeper import sweeper_of
from triggers.consumer.ordering.workers import make_ordered_workers
from triggers.consumer.receivers.shared import SharedReceiver
from triggers.consumer.worker import Worker
from triggers.pipeline.protocol import Pipeline
from triggers.providers.provider import Provider, capabilities_of

#: From this number of tasks they share receivers and calls; with fewer, turns cost less
#: (``pipeline.sharing``).
MANY = 32


def make_workers(
    name: str, gate: Gate, pipeline: Pipeline, *, provider: Provider, shell: Shell
) -> list[Worker]:
    """Return the workers of a trigger, named ``<name>-<trigger>-<number>``, like their receivers.

    From :data:`MANY` tasks on they share one receiver for each destination, and calls to the history.
    Together they run at most ``concurrency`` messages, whatever the number of destinations.
    """
    settings = gate.trigger.settings
    if settings.ordered:
        return make_ordered_workers(name, gate, pipeline, provider=provider, shell=shell)
    several = len(settings.destinations) > 1
    sweeper = sweeper_of(gate, pipeline, shell)
    turns: Lock = shell.semaphore(settings.concurrency) if several else nullcontext()
    indexes = [index for index in range(len(settings.destinations)) for _ in range(settings.concurrency)]

    shared = shared_receivers(name, gate, provider=provider, shell=shell)
    if shared:
        pipeline = pipeline.gathering()

    def goes_on() -> bool:
        return not shell.over.is_set() and not gate.closed

    return [
        Worker(
            name=f"{name}-{gate.trigger.name}-{number}",
            gate=gate,
            # With several destinations, the next message may have to wait for its turn.
            pipeline=pipeline.at(index) if several else pipeline if shared else pipeline.turning(goes_on),
            provider=provider,
            shell=shell,
            destination=settings.destinations[index],
            shared=shared[index] if shared else None,
            turns=turns,
            sweeper=sweeper,
        )
        for number, index in enumerate(indexes)
    ]


def shared_receivers(name: str, gate: Gate, *, provider: Provider, shell: Shell) -> list[SharedReceiver]:
    """Return the receivers that a trigger's workers share, one for each destination; none if they do not."""
    settings, serving = gate.trigger.settings, capabilities_of(provider).serving_many
    if serving is None or shell.blocking or settings.batch > 1 or settings.concurrency < MANY:
        return []
    return [
        SharedReceiver(
            serving,
            destination=destination,
            subscription=settings.name,
            name=f"{name}-{gate.trigger.name}-0",
        )
        for destination in settings.destinations
    ]


def count_receivers(workers: Sequence[Worker]) -> int:
    """Return how many receivers the workers will have open."""
    return len({id(worker if worker.shared is None else worker.shared) for worker in workers})
