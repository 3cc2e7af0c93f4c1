"""A crash matrix runs once for each store or broker; its tests check the result."""

import secrets
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Protocol, TypeVar, cast
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from tests.crash.helpers.aftermath import Left, run_matrix
from tests.crash.helpers.deaths import Death
from tests.fixtures.needed import missing
from triggers.testing.redis_server import RedisServer

T = TypeVar("T")


class Once(Protocol):
    """Does work once in this process for each name."""

    def __call__(self, name: str, work: Callable[[], T]) -> T:
        """Return the result of the first work with this name, or raise its exception again."""
        ...


#: Returns the result of each death, for the name of a store.
Matrix = Callable[[str], dict[Death, Left]]


@pytest.fixture(scope="session")
def once() -> Once:
    """Keep results that tests with different parameters share: in random order the parameters alternate."""
    results: dict[str, object] = {}
    errors: dict[str, Exception] = {}

    def do(name: str, work: Callable[[], T]) -> T:
        if name in errors:
            raise errors[name]
        if name not in results:
            try:
                results[name] = work()
            except Exception as error:
                errors[name] = error
                raise
        return cast("T", results[name])

    return do


@pytest.fixture(scope="session")
def matrix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    """Run the matrix of a store when it is first asked for."""

    @cache
    def run(store: str) -> dict[Death, Left] | Exception:
        folder = tmp_path_factory.mktemp(store)
        history = None if store == "redis" else f"sqlite:///{folder}/history.sqlite3"
        if store == "postgresql":
            history = empty_database(request.getfixturevalue("postgres_server"))
        try:
            if store.startswith("sqljms"):
                # The history is in another database: the matrix must hold for that case too.
                return run_matrix(
                    folder, _messages(store, request, folder), f"sqlite:///{folder}/history.sqlite3"
                )
            with RedisServer(folder, appendfsync="everysec") as server:
                return run_matrix(folder, server.url, history or server.url)
        except Exception as error:  # noqa: BLE001  (raised below, in every test that asks)
            return error

    def get(store: str) -> dict[Death, Left]:
        if shutil.which("redis-server") is None:
            missing("redis-server", "apt-get install redis-server")
        left = run(store)
        if isinstance(left, Exception):
            raise left
        return left

    return get


def _messages(store: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """Return the URL of a database for the messages of SQL-JMS."""
    if store == "sqljms-sqlite":
        return f"sqlite:///{folder}/messages.sqlite3"
    return empty_database(request.getfixturevalue("postgres_server"))


def empty_database(server: str) -> str:
    name = f"doubtless_{secrets.token_hex(8)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return urlsplit(server)._replace(path=f"/{name}").geturl()
