"""Compares ``handle()`` of a new message with Powertools idempotency on the same Redis."""

from collections.abc import Callable, Iterable
from typing import cast

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.persistence.cache import CachePersistenceLayer
from aws_lambda_powertools.utilities.typing import LambdaContext

from benchmarks.bench import TIME_TO_LIVE, Bench
from benchmarks.measuring import Pass
from benchmarks.result import SPEED, Budget, Result
from history.message import Message

_WHAT = "handle() of a new message, again"


class _Context:
    """The part of a Lambda's context that Powertools reads."""

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


def measure(bench: Bench) -> Iterable[Result]:
    """Measure one message after the other. Both services do nothing."""
    idle, powertools = bench.idle_trigger("powertools"), _powertools(bench)
    passes: dict[str, Pass[Message]] = {
        "handle": lambda messages: [idle.handle(message) for message in messages],
        "powertools": lambda messages: [powertools(record={"uuid": message.uuid}) for message in messages],
    }
    times = bench.rounds().run(_WHAT, bench.fresh, passes)
    yield Result(
        what=_WHAT,
        beside="Powertools @idempotent_function",
        unit="µs",
        measured=times.of("handle") * 1e6,
        floor=times.of("powertools") * 1e6,
        ratio=times.ratio("powertools", "handle"),
        budget=Budget(2.5, SPEED, at_least=True),
    )


def _powertools(bench: Bench) -> Callable[..., None]:
    """Return a function that does nothing, protected by Powertools."""
    config = IdempotencyConfig(expires_after_seconds=TIME_TO_LIVE)
    config.register_lambda_context(cast("LambdaContext", _Context()))
    store = CachePersistenceLayer(client=bench.bare())

    def idle(record: dict[str, str]) -> None:
        del record

    protected: Callable[..., None] = idempotent_function(
        idle, data_keyword_argument="record", persistence_store=store, config=config
    )
    return protected
