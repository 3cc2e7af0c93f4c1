"""Information about the present batch, for the user's function and for ``committed=``."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Concatenate, cast

from pyspark.sql import DataFrame

from history.errors import ConfigurationError
from triggers.spark.connections import history_at, patiently


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlace:
    """Where the batch ledger of a trigger is, and which run this is: plain values that may travel."""

    history: str = field(repr=False)
    trigger: str
    patience: timedelta
    run: str


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """One run of a batch, for a function with a parameter of this type.

    ``lineage`` is the id in the query's checkpoint: with a new checkpoint Spark draws another one and counts
    the batches from 0 again. So ``lineage`` and ``batch_id`` together are the name of a batch. Over Spark
    Connect it is the name of the query.

    ``attempt`` is 1 unless the batch was tried before. Each run of a batch has a number that is higher than
    those of all earlier runs. Put it into a path, and no other run writes there. So a driver that hangs, and
    wakes up late, cannot overwrite what a later run wrote.
    """

    query: str
    lineage: str
    batch_id: int
    attempt: int
    _ledger: LedgerPlace | None = field(default=None, repr=False, compare=False)

    def still_mine(self) -> bool:
        """Ask the batch ledger whether no later run of this batch has begun; one round trip.

        A later run may begin right after the answer. So this saves work, and narrows a window, but is not a
        fence. A ``BatchInfo`` that you make yourself has no ledger, and answers True.

        Raises:
            HistoryUnavailableError: the history stayed away for longer than ``patience``.
        """
        place = self._ledger
        if place is None:
            return True
        read = history_at(place.history).progress.read
        record = patiently(place.patience, read, place.trigger, self.query, self.batch_id)
        return record is not None and record.run == place.run


#: The user's function: ``(new, batch_id)``, ``(new, info)`` or ``(new, batch_id, info)``.
BatchFunction = Callable[Concatenate[DataFrame, int, ...], Any] | Callable[[DataFrame, BatchInfo], Any]


def given_info(given: BatchFunction) -> Callable[[DataFrame, BatchInfo], Any]:
    """Return a caller of the user's function: with the BatchInfo if a parameter has this annotation.

    Raises:
        ConfigurationError: the function cannot take these arguments.
    """
    function = cast("Callable[..., Any]", given)
    parameters = _parameters(function)
    asking = [parameter.name for parameter in parameters if _asks(parameter)]
    if asking and asking[0] in [parameter.name for parameter in parameters[1:2]]:
        _check(function, None, 0)
        return function
    _check(function, None, 0, **dict.fromkeys(asking))
    return lambda new, info: function(new, info.batch_id, **dict.fromkeys(asking, info))


def _parameters(function: Callable[..., Any]) -> Sequence[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError as error:  # some functions that are written in C have no signature
        raise _misfit(error) from error


def _asks(parameter: inspect.Parameter) -> bool:
    kind = parameter.annotation
    return kind is BatchInfo or (isinstance(kind, str) and kind.rpartition(".")[2] == BatchInfo.__name__)


def _check(function: Callable[..., Any], *positional: object, **named: object) -> None:
    try:
        inspect.signature(function).bind(*positional, **named)
    except TypeError as error:
        raise _misfit(error) from error


def _misfit(error: Exception) -> ConfigurationError:
    return ConfigurationError(
        "foreach_batch",
        f"its function cannot take (new, batch_id): {error}",
        "write def load(new, batch_id), or def load(new, batch: BatchInfo)",
    )
