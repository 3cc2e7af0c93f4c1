"""Every resolver that ships, and the example, against the conformance suite of resolvers."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from examples import booking_resolver
from history.message import Message, Uuid
from resolvers import (
    Evidence,
    Resolution,
    Resolved,
    Resolver,
    chain,
    http_resource_exists,
    redis_key_exists,
    sql_row_exists,
)
from resolvers.contract import ResolverContract
from tests.fixtures.servers.http_server import HttpServer
from tests.fixtures.servers.redis import connected

BY_UUID = "SELECT 1 FROM bookings WHERE uuid = :uuid"


class Contract(ResolverContract):
    """The suite with this module's two messages."""

    @pytest.fixture
    def done(self) -> Message:
        return Message(body={"trip": {"to": "Rome"}}, uuid=Uuid("done"), message_id="ID:1")

    @pytest.fixture
    def undone(self) -> Message:
        return Message(body={"trip": {"to": "Oslo"}}, uuid=Uuid("undone"), message_id="ID:2")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bookings.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(booking_resolver.TABLES)
        database.execute("INSERT INTO bookings VALUES ('done', 'Rome')")
    return path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with HttpServer() as server:
        server.statuses["/orders/done"] = 200
        yield server


class TestSqlRow(Contract):
    @pytest.fixture
    def resolver(self, file: Path) -> Resolver:
        return sql_row_exists(f"sqlite:///{file}", BY_UUID)


class TestAsyncSqlRow(Contract):
    @pytest.fixture
    async def resolver(self, file: Path) -> AsyncIterator[Resolver]:
        engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
        yield sql_row_exists(engine, BY_UUID)
        await engine.dispose()


class TestHttpResource(Contract):
    @pytest.fixture
    def resolver(self, server: HttpServer) -> Resolver:
        return http_resource_exists(f"{server.url}/orders/{{uuid}}")


class TestHttpResourceWithAClient(Contract):
    @pytest.fixture
    def resolver(self, server: HttpServer) -> Iterator[Resolver]:
        with httpx.Client() as client:
            yield http_resource_exists(f"{server.url}/orders/{{uuid}}", client=client)


class TestAsyncHttpResource(Contract):
    @pytest.fixture
    async def resolver(self, server: HttpServer) -> AsyncIterator[Resolver]:
        async with httpx.AsyncClient() as client:
            yield http_resource_exists(f"{server.url}/orders/{{uuid}}", client=client)


class TestRedisKey(Contract):
    @pytest.fixture
    def resolver(self, redis_url: str) -> Resolver:
        with connected(redis_url) as client:
            client.set("booking:done", "")
        return redis_key_exists(redis_url, "booking:{uuid}")


class TestChain(Contract):
    @pytest.fixture
    def resolver(self, file: Path, server: HttpServer) -> Resolver:
        return chain(
            http_resource_exists(f"{server.url}/orders/{{uuid}}", absent=Resolution.IN_DOUBT),
            sql_row_exists(f"sqlite:///{file}", BY_UUID),
        )


class TestTheExample(Contract):
    @pytest.fixture
    def resolver(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> Resolver:
        monkeypatch.setenv("BOOKINGS", str(file))
        return booking_resolver.already_booked

    def test_half_a_booking_is_undone_before_the_message_is_new(
        self, resolver: Resolver, file: Path, undone: Message
    ) -> None:
        assert resolver is booking_resolver.already_booked
        with closing(sqlite3.connect(file)) as database, database:
            database.executemany("INSERT INTO held_seats VALUES (?, ?)", [("undone", "1A"), ("other", "1B")])
        long_ago = Evidence(started_at=datetime(2020, 1, 1, tzinfo=UTC))

        answer = booking_resolver.already_booked("undone", "book", undone, long_ago)

        assert answer == Resolved(Resolution.NEW, "no booking; gave back 1 held seats")
        with closing(sqlite3.connect(file)) as database:
            assert database.execute("SELECT uuid FROM held_seats").fetchall() == [("other",)]

    def test_half_a_booking_that_may_still_grow_is_left_alone(
        self, resolver: Resolver, file: Path, undone: Message
    ) -> None:
        assert resolver is booking_resolver.already_booked
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("INSERT INTO held_seats VALUES ('undone', '1A')")
        just_now = Evidence(started_at=datetime.now(UTC))

        answer = booking_resolver.already_booked("undone", "book", undone, just_now)

        assert answer.resolution is Resolution.IN_DOUBT
        with closing(sqlite3.connect(file)) as database:
            assert database.execute("SELECT count(*) FROM held_seats").fetchone() == (1,)
