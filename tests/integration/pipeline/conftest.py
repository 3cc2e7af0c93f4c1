"""A shop on each kind of database, and triggers that book in it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import create_engine, text

from tests.integration.helpers.atomic_shop import Shop
from triggers import Trigger, trigger


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/shop.sqlite3"
        engine = create_engine(url)
    else:
        url = cast("str", request.getfixturevalue("postgres_url"))
        engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE bookings (uuid TEXT NOT NULL)"))
    yield Shop(url, engine)
    engine.dispose()


@pytest.fixture
def made(shop: Shop) -> Iterator[Callable[..., Trigger[..., Any]]]:
    """Return what makes a trigger of a service; all are closed at the end."""
    triggers: list[Trigger[..., Any]] = []

    def make(service: Callable[..., Any], **settings: Any) -> Trigger[..., Any]:
        options: dict[str, Any] = {"history": shop.url, "name": "book", "transacted": True} | settings
        triggers.append(trigger("orders", **options)(service))
        return triggers[-1]

    yield make
    for one in triggers:
        one.close()
