"""Which validated values may hold parts of their input."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    RootModel,
    TypeAdapter,
    field_validator,
    model_validator,
)
from pydantic import dataclasses as pydantic_dataclasses
from typing_extensions import TypedDict

from triggers.service.borrowing import borrows

T = TypeVar("T")


class Colour(Enum):
    RED = "red"


class Line(BaseModel):
    sku: Annotated[str, Field(max_length=9)]
    next: "Line | None" = None


class Card(BaseModel):
    kind: Literal["card"]
    type: str


class Cash(BaseModel):
    kind: Literal["cash"]


class Order(BaseModel):
    id: UUID
    at: datetime
    amount: Decimal
    colour: Colour = Colour.RED
    lines: list[Line] = []
    by_name: dict[str, tuple[int, Line]] = {}
    paid: Annotated[Card | Cash, Field(discriminator="kind")]
    tags: set[str] = set()

    @field_validator("amount")
    @classmethod
    def _positive(cls, value: Decimal) -> Decimal:
        return value

    @model_validator(mode="after")
    def _sound(self) -> "Order":
        return self


class Pair(TypedDict):
    type: str
    number: int


@dataclass
class Plain:
    number: int
    lines: list[Line]


class Box(BaseModel, Generic[T]):
    held: T


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: str


class Seeing(BaseModel):
    lines: list[int]

    @field_validator("lines", mode="before")
    @classmethod
    def _seen(cls, value: Any) -> Any:
        return value


class SeeingAll(BaseModel):
    id: str

    @model_validator(mode="before")
    @classmethod
    def _seen(cls, value: Any) -> Any:
        return value


class Made(BaseModel):
    id: str

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)


@pydantic_dataclasses.dataclass(config=ConfigDict(extra="allow"))
class ExtraPlain:
    id: str


@pytest.mark.parametrize(
    "hint",
    [int, str, Colour, Line, Order, Pair, Plain, list[Order], dict[str, int], Box[int], RootModel[list[int]]],
)
def test_what_is_made_anew_shares_nothing(hint: Any) -> None:
    assert not borrows(TypeAdapter(hint))


@pytest.mark.parametrize(
    "hint",
    [
        Any,
        object,
        dict,
        list,
        list[Any],
        dict[str, dict],  # type: ignore[type-arg]
        JsonValue,
        Mapping[str, Any],
        Iterable[int],
        Box[Any],
        Box[dict[str, Any]],
        RootModel[Any],
        list[Box[Any]],
        Order | dict[str, Any],
        Extra,
        ExtraPlain,
        Seeing,
        SeeingAll,
        Made,
    ],
)
def test_what_may_share_something_is_known_or_taken_to(hint: Any) -> None:
    assert borrows(TypeAdapter(hint))
