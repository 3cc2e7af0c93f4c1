"""Options of Spark's handlers that would fail later, or lose rows, are refused when they are set."""

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

from triggers import ConfigurationError, trigger
from triggers.spark import foreach_batch
from triggers.spark.atomic_sink.sink import atomic_sink

REDIS, POSTGRES = "redis://127.0.0.1:6379/0", "postgresql://shop@127.0.0.1/shop"


async def awaited(first: Any, second: Any) -> None: ...


def yields(first: Any, second: Any) -> Iterator[None]:
    yield


async def yields_later(first: Any, second: Any) -> AsyncIterator[None]:
    yield


class Awaited:
    async def __call__(self, first: Any, second: Any) -> None: ...


#: A call of one of these does not run its code: rows would count as processed, but would be lost.
RUN_NOTHING = [
    awaited,
    yields,
    yields_later,
    Awaited(),
    functools.partial(awaited),
    functools.partial(yields),
]


def takes_nothing() -> None: ...


def takes_one(first: Any) -> None: ...


def takes_two(first: Any, second: Any) -> None: ...


def takes_three(first: Any, second: Any, third: Any) -> None: ...


def _sink(write: Any, **options: Any) -> Any:
    return atomic_sink("orders", name="book", uuid="uuid", history=POSTGRES, write=write, **options)


def _batches(function: Any, **options: Any) -> Any:
    return foreach_batch("orders", name="load", uuid="uuid", history=REDIS, **options)(function)


@pytest.mark.parametrize("function", RUN_NOTHING)
def test_a_function_of_which_a_call_runs_nothing_is_refused(function: Any) -> None:
    with pytest.raises(ConfigurationError) as by_sink:
        _sink(function)
    with pytest.raises(ConfigurationError) as by_batches:
        _batches(function)
    with pytest.raises(ConfigurationError) as by_option:
        _batches(takes_two, parked_to=function)

    refused = [by_sink.value.setting, by_batches.value.setting, by_option.value.setting]
    assert refused == ["write", "foreach_batch", "parked_to"]


@pytest.mark.parametrize("setting", ["history", "parking"])
@pytest.mark.parametrize(
    "url",
    ["memory://", "sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&cache=shared&uri=true"],
)
def test_a_store_that_each_executor_would_have_alone_is_refused(setting: str, url: str) -> None:
    given = cast("Any", {"history": REDIS, setting: url})

    with pytest.raises(ConfigurationError) as by_batches:
        foreach_batch("orders", name="load", uuid="uuid", **given)(takes_two)
    with pytest.raises(ConfigurationError) as by_rows:
        trigger("orders", name="book", **given)(takes_one).foreach_batch(uuid="uuid")

    assert (by_batches.value.setting, by_rows.value.setting) == (setting, setting)


@pytest.mark.parametrize("write", [None, 5, takes_nothing, takes_one, takes_three])
def test_a_writer_that_cannot_take_a_connection_and_rows_is_refused(write: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        _sink(write)

    assert refused.value.setting == "write"


async def answers_later(rows: Any, trigger_name: str) -> Any: ...


def answers_by_rows(rows: Any, trigger_name: str) -> Iterator[Any]:
    yield rows


@pytest.mark.parametrize("option", ["resolver", "on_replay"])
@pytest.mark.parametrize("resolver", [answers_later, answers_by_rows])
def test_a_resolver_of_dataframes_that_answers_with_something_else_is_refused(
    option: str, resolver: Any
) -> None:
    with pytest.raises(ConfigurationError, match="runs nothing"):
        _batches(takes_two, **{option: resolver})


def test_the_name_of_a_query_with_half_a_character_is_refused() -> None:
    with pytest.raises(ConfigurationError) as refused:
        _batches(takes_two, query="a\ud800b")

    assert refused.value.setting == "query"
