"""The address of a SQL history is the same for the same tables, and different for others."""

from pathlib import Path

import pytest
from sqlalchemy import make_url

from history.sql.database.paths import address_of
from history.sql.history import SqlHistory

HERE = Path.cwd()


def address(url: str) -> str:
    return address_of(make_url(url))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sqlite:///shop.db", f"sqlite:///{HERE}/shop.db"),
        ("sqlite:///../x/shop.db", f"sqlite:///{HERE.parent}/x/shop.db"),
        ("sqlite:///./shop.db?timeout=3", "sqlite:///shop.db"),
        (f"sqlite:///file:{HERE}/shop.db?mode=ro&uri=true", "sqlite:///shop.db"),
        ("sqlite+aiosqlite:///shop.db", "sqlite:///shop.db"),
        (
            "postgresql+psycopg://u:p@h/d?options=-csearch_path%3Ds",
            "postgresql://u:q@h/d?options=-csearch_path%3Ds",
        ),
        ("postgresql://u@h/d?connect_timeout=3", "postgresql://u@h/d"),
        ("postgresql://u@h/d?options=-cstatement_timeout%3D5s", "postgresql://u@h/d"),
    ],
    ids=["absolute", "above", "option", "uri", "asyncio", "driver", "timeout", "setting"],
)
def test_two_urls_of_the_same_tables_have_one_address(one: str, other: str) -> None:
    assert address(one) == address(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sqlite:///shop.db", "sqlite:///x/shop.db"),
        ("postgresql://u@h/d?options=-csearch_path%3Ds", "postgresql://u@h/d"),
        ("postgresql://u@h/d?options=-csearch_path%3Ds", "postgresql://u@h/d?options=-c%20search_path%3Dt"),
    ],
    ids=["file", "schema", "schemas"],
)
def test_two_urls_of_different_tables_have_two_addresses(one: str, other: str) -> None:
    assert address(one) != address(other)


def test_two_schemas_of_one_database_are_two_histories_and_show_no_password() -> None:
    stores = [
        SqlHistory.from_url(f"postgresql://u:hunter2@h/d?options=-csearch_path%3D{name}") for name in "ab"
    ]

    addresses = [store.control.address for store in stores]

    assert len(set(addresses)) == 2
    assert "hunter2" not in "".join(addresses)
