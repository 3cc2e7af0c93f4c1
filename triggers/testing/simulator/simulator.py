"""The object that the fixture ``simulator`` gives to a test."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from history.message import Message
from triggers.testing.simulator.effects import Effects
from triggers.testing.simulator.exactly_once import exactly_once
from triggers.testing.simulator.report import Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Simulator:
    """Runs triggers through everything that can go wrong; ``seed`` is the seed of random choices."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def effects(self, *, replies_lost: bool = False) -> Effects:
        """Return a target of effects; with ``replies_lost`` it may fail after an effect has happened."""
        return Effects(replies_lost=replies_lost)

    def exactly_once(self, trigger: Any, messages: Sequence[Message], **options: Any) -> Report:
        """Do the same as :func:`triggers.testing.exactly_once`, with the seed of the session."""
        arguments: dict[str, Any] = {"seed": self.seed, **options}
        return exactly_once(trigger, messages, **arguments)

    def exactly_once_batch(
        self, function: Any, rows: "Sequence[Mapping[str, Any]] | DataFrame", **options: Any
    ) -> Report:
        """Do the same as :func:`triggers.testing.exactly_once_batch`, with the seed of the session."""
        from triggers.testing.simulator.batches.exactly_once_batch import exactly_once_batch  # noqa: PLC0415  (needs Spark)

        arguments: dict[str, Any] = {"seed": self.seed, **options}
        return exactly_once_batch(function, rows, **arguments)
