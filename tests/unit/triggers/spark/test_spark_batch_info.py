"""A function can find out which batch it gets."""

from typing import Annotated, Any, Optional

import pytest

from history.errors import ConfigurationError
from triggers.spark import BatchInfo
from triggers.spark.batch_info import given_info

BatchInformation = int

INFO = BatchInfo(query="orders", lineage="a-checkpoint", batch_id=7, attempt=2)


def by_id(new: Any, batch_id: int) -> Any:
    return new, batch_id


def by_info(new: Any, batch: BatchInfo) -> Any:
    return new, batch


def by_both(new: Any, batch_id: int, *, batch: BatchInfo) -> Any:
    return new, batch_id, batch


def by_text(new: Any, batch: "BatchInfo") -> Any:
    return new, batch


def by_optional(new: Any, batch: BatchInfo | None) -> Any:
    return new, batch


def by_optional_text(new: Any, batch: "BatchInfo | None") -> Any:
    return new, batch


def by_half_a_text(new: Any, batch: Optional["BatchInfo"]) -> Any:
    return new, batch


def by_annotated(new: Any, batch: Annotated[BatchInfo, "the batch"]) -> Any:
    return new, batch


def by_default(new: Any, batch_id: int, batch: BatchInfo | None = None) -> Any:
    return new, batch_id, batch


def by_another_type(new: Any, batch: "BatchInformation") -> Any:
    return new, batch


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (by_optional, ("rows", INFO)),
        (by_optional_text, ("rows", INFO)),
        (by_half_a_text, ("rows", INFO)),
        (by_annotated, ("rows", INFO)),
        (by_default, ("rows", 7, INFO)),
        (by_another_type, ("rows", 7)),
        (by_id, ("rows", 7)),
        (by_info, ("rows", INFO)),
        (by_both, ("rows", 7, INFO)),
        (by_text, ("rows", INFO)),
    ],
)
def test_a_parameter_with_its_type_is_filled(function: Any, given: Any) -> None:
    assert given_info(function)("rows", INFO) == given  # type: ignore[arg-type]


def takes_none() -> None: ...


def takes_rows(new: Any) -> None: ...


def takes_more(new: Any, batch_id: int, more: str) -> None: ...


@pytest.mark.parametrize("function", [takes_none, takes_rows, takes_more, max])
def test_a_function_that_cannot_take_its_arguments_is_refused(function: Any) -> None:
    with pytest.raises(ConfigurationError, match="cannot take"):
        given_info(function)
