"""A shop on each kind of database, and triggers that book in it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.helpers.atomic_shop import Make, Shop, shop_at
from triggers import Trigger, trigger


@pytest.fixture
def shop(sql_database: str) -> Iterator[Shop]:
    with shop_at(sql_database) as shop:
        yield shop


@pytest.fixture
def made(shop: Shop) -> Iterator[Make]:
    """Return a function that makes a trigger of a service. All triggers are closed at the end."""
    triggers: list[Trigger[..., Any]] = []

    def make(service: Callable[..., Any], destination: str = "orders", **settings: Any) -> Trigger[..., Any]:
        options: dict[str, Any] = {"history": shop.url, "name": "book", "transacted": True} | settings
        triggers.append(trigger(destination, **options)(service))
        return triggers[-1]

    yield make
    for one in triggers:
        one.close()
