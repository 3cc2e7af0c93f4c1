"""The processor time of a message on Apache Kafka: a consumer beside the loops of the bench's Kafka row.

``python -m benchmarks.profile.kafka`` lets them take turns. At the first and the last message of each turn it
reads the clocks of this process, of its thread that works on the messages, and of Redis. It does not count
the broker's time. Each number is the median of the rounds, so it means something even on a busy machine.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.bench import DEFAULT, Bench, open_bench
from benchmarks.costs import redis_seconds
from benchmarks.measuring import WARM_UP
from benchmarks.rows.kafka import GROUP, Topic
from benchmarks.rows.steady import Steady
from benchmarks.servers import scratch
from tests.fixtures.servers.apache_kafka_server import ApacheKafkaServer

#: Seconds by clock.
Clocks = Mapping[str, float]

#: The competitors that are compared.
_PAIRS = (("consumer", "loop"), ("consumer", "loop of a hundred"), ("batches", "loop of batches"))


@dataclass(slots=True)
class Clocked(Steady):
    """A destination that reads the clocks at its first and its last message."""

    client: Any = None
    messages: int = 0
    read: list[Clocks] = field(default_factory=list[Clocks])

    def note(self) -> None:
        """Note the start of a message."""
        Steady.note(self)
        if len(self.times) in (1, self.messages):
            self.read.append(self._clocks())

    def _clocks(self) -> Clocks:
        return {
            "this process": time.process_time(),
            "its worker": time.thread_time(),
            "Redis": redis_seconds(self.client),
        }

    @property
    def microseconds(self) -> Clocks:
        """The cost of one message, by clock."""
        first, last = self.read
        return {clock: (last[clock] - first[clock]) / (self.messages - 1) * 1e6 for clock in first}


def measure(bench: Bench, *, messages: int, rounds: int) -> Mapping[str, list[Clocks]]:
    """Let the competitors take turns. Return the cost of a message in each round."""
    measured: dict[str, list[Clocks]] = {name: [] for name in GROUP}
    with scratch() as folder, ApacheKafkaServer(folder) as kafka:
        make = partial(Clocked, client=bench.bare(), messages=messages)
        for number in bench.progress.track(range(rounds + WARM_UP)):
            for name in list(GROUP) if number % 2 else list(GROUP)[::-1]:
                steady = make()
                work = Topic(bench, f"kafka://{kafka.address}", steady, kafka=kafka)
                work.fill(messages)
                GROUP[name](work, messages)
                if number >= WARM_UP:
                    measured[name].append(steady.microseconds)
    return measured


def show(measured: Mapping[str, list[Clocks]], console: Console) -> None:
    """Print the costs of a message, and the ratios: above 1, ours costs less."""
    table = Table(title="processor time of one message on Apache Kafka, in microseconds")
    clocks = list(next(iter(measured.values()))[0])
    for column in ("", *clocks):
        table.add_column(column, justify="right" if column else "left")
    for name, rounds in measured.items():
        table.add_row(name, *(f"{median(cost[clock] for cost in rounds):.1f}" for clock in clocks))
    console.print(table)
    for ours, floor in _PAIRS:
        pairs = list(zip(measured[ours], measured[floor], strict=True))
        alone = median(other["this process"] / own["this process"] for own, other in pairs)
        both = median(_whole(other) / _whole(own) for own, other in pairs)
        console.print(f"{ours} beside {floor}: {alone:.2f}, with Redis {both:.2f}")


def _whole(cost: Clocks) -> float:
    return cost["this process"] + cost["Redis"]


def main(
    *,
    messages: Annotated[int, typer.Option(help="Messages of a turn.")] = 3000,
    rounds: Annotated[int, typer.Option(help="Rounds that count, after two that do not.")] = 5,
) -> None:
    """Measure, and print a table."""
    with (
        Progress(console=Console(stderr=True), transient=True) as progress,
        open_bench(DEFAULT, progress) as bench,
    ):
        show(measure(bench, messages=messages, rounds=rounds), Console())


if __name__ == "__main__":
    typer.run(main)
