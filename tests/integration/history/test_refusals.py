"""A server refuses something: doubtless waits if it may pass, and stops if a person has to fix it."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import psycopg
import pytest
from sqlalchemy import create_engine, event

from history import CircuitOpenError, HistoryUnavailableError, SqlHistory, open_history
from history.bridge import drive
from tests.fixtures.servers.http_server import HttpServer
from tests.fixtures.servers.redis import busy, configured, connected
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import Lane, send
from triggers import ConfigurationError, Message, ProviderUnavailableError, open_provider
from triggers.testing.redis_server import RedisServer

TRIGGER = "book-order"


def used(form: str, opened: Any, use: Callable[[Any], Awaitable[object]]) -> None:
    """Use a history or a provider, blocking or asyncio, and close it."""

    async def run(one: Any) -> None:
        try:
            await use(one)
        finally:
            await one.close()

    if form == "blocking":
        drive(run(opened))
    else:
        asyncio.run(run(opened.for_asyncio()))


def claim(form: str, url: str, uuid: str = "u1") -> None:
    used(form, open_history(url), lambda store: store.claim(TRIGGER, [uuid], "worker"))


def send_one(form: str, url: str) -> None:
    used(form, open_provider(url), lambda provider: provider.send("orders", [Message(body="x")]))


USES: dict[str, Callable[[str, str], None]] = {"history": claim, "provider": send_one}


@pytest.fixture(params=USES)
def used_as(request: pytest.FixtureRequest) -> str:
    return cast("str", request.param)


@pytest.fixture
def http_server() -> Iterator[HttpServer]:
    with HttpServer() as server:
        yield server


class TestRedisForEver:
    @pytest.mark.parametrize(
        ("account", "remedy"),
        [
            pytest.param("", "put user and password into the URL", id="no password"),
            pytest.param("shop:wrong@", "put user and password into the URL", id="wrong password"),
            pytest.param("shop:pw@", "a user with this permission", id="no permission"),
        ],
    )
    def test_an_account_that_may_not(
        self, private_redis: RedisServer, form: str, used_as: str, account: str, remedy: str
    ) -> None:
        with connected(private_redis.url) as client:
            client.execute_command("ACL", "SETUSER", "shop", "on", ">pw", "~*", "+@read", "+@connection")
            client.config_set("requirepass", "secret")
        url = private_redis.url.replace("redis://", f"redis://{account}")

        with pytest.raises(ConfigurationError, match=remedy) as caught:
            USES[used_as](form, url)

        assert caught.value.setting == used_as
        assert "secret" not in str(caught.value)

    def test_a_database_that_there_is_not(self, redis_url: str, form: str, used_as: str) -> None:
        with pytest.raises(
            ConfigurationError, match=f"{used_as}: the server has no database with the number"
        ):
            USES[used_as](form, redis_url.removesuffix("/0") + "/99")

    def test_a_database_that_is_no_number(self, redis_url: str, form: str, used_as: str) -> None:
        with pytest.raises(
            ConfigurationError, match=f"{used_as}: the database in its URL must be a number, not 'shop'"
        ):
            USES[used_as](form, redis_url.removesuffix("/0") + "/shop")

    def test_a_port_where_http_is_spoken(self, http_server: HttpServer, form: str, used_as: str) -> None:
        with pytest.raises(ConfigurationError, match=f"{used_as}: the server at this address is not Redis"):
            USES[used_as](form, f"redis://{http_server.address}/0")

    def test_a_port_where_postgresql_is(self, postgres_server: str, form: str, used_as: str) -> None:
        address = urlsplit(postgres_server)

        with pytest.raises(ConfigurationError, match=f"{used_as}: the server at .* is PostgreSQL"):
            USES[used_as](form, f"redis://{address.hostname}:{address.port}/0")

    def test_tls_where_none_is_spoken(self, redis_url: str, form: str, used_as: str) -> None:
        url = redis_url.replace("redis://", "rediss://") + "?socket_connect_timeout=0.3&socket_timeout=1.5"

        with pytest.raises(
            ConfigurationError, match=f"{used_as}: the Redis at .* does not use TLS; use redis:"
        ):
            USES[used_as](form, url)

    def test_a_consumer_ends_instead_of_waiting_for_ever(
        self, lane: Lane, private_redis: RedisServer, redis_url: str
    ) -> None:
        with connected(private_redis.url) as client:
            client.config_set("requirepass", "secret")
        send(redis_url, "orders", "a")

        running = lane.run([lane.trigger("orders", lambda _: None)], redis_url, history=private_redis.url)

        with pytest.raises(ConfigurationError, match="user and password"), running:
            eventually(lambda: not running.alive)

    def test_a_suspended_consumer_ends_as_well(
        self, lane: Lane, private_redis: RedisServer, redis_url: str
    ) -> None:
        send(redis_url, "orders", "a")
        with connected(private_redis.url) as client:
            client.execute_command("ACL", "SETUSER", "shop", "on", ">pw", "~*", "+@all")
            client.config_set("maxmemory", 1)
            history = private_redis.url.replace("redis://", "redis://shop:pw@")
            running = lane.run([lane.trigger("orders", lambda _: None)], redis_url, history=history)

            def let_it_suspend_and_forbid() -> None:
                with running:
                    eventually(lambda: running.gates[0].suspended)
                    client.execute_command("ACL", "SETUSER", "shop", "-@all")
                    eventually(lambda: not running.alive)

            with pytest.raises(ConfigurationError, match="a user with this permission"):
                let_it_suspend_and_forbid()


@contextmanager
def replica(client: Any, *, stale: str) -> Generator[None, None, None]:
    """Make a server the replica of a server that does not exist."""
    with configured(client, replica_serve_stale_data=stale):
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        yield
        client.execute_command("REPLICAOF", "NO", "ONE")


TROUBLES: dict[str, Callable[[Any], Any]] = {
    "OOM": lambda client: configured(client, maxmemory=1),
    "NOREPLICAS": lambda client: configured(client, min_replicas_to_write=1),
    "BUSY": busy,
    "READONLY": lambda client: replica(client, stale="yes"),
    "MASTERDOWN": lambda client: replica(client, stale="no"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_redis_that_cannot_at_present_is_away_and_then_back(
    private_redis: RedisServer, form: str, used_as: str, trouble: str
) -> None:
    unavailable = HistoryUnavailableError if used_as == "history" else ProviderUnavailableError
    USES[used_as](form, private_redis.url)

    with connected(private_redis.url) as client:
        with TROUBLES[trouble](client), pytest.raises(unavailable) as caught:
            USES[used_as](form, private_redis.url)

        assert not isinstance(caught.value, CircuitOpenError)
        USES[used_as](form, private_redis.url)


class TestPostgresql:
    @pytest.fixture(autouse=True)
    def roles(self, postgres_server: str) -> Iterator[None]:
        with psycopg.connect(postgres_server, autocommit=True) as admin:
            admin.execute("CREATE ROLE limited LOGIN PASSWORD 'pw'")
            admin.execute("CREATE ROLE nologin PASSWORD 'pw'")
            admin.execute("CREATE SCHEMA closed")
            yield
            admin.execute("DROP SCHEMA closed")
            admin.execute("DROP ROLE limited")
            admin.execute("DROP ROLE nologin")

    @pytest.mark.parametrize(
        ("account", "rest", "problem"),
        [
            pytest.param(
                "postgres:wrong", "/postgres", "rejected the role or its password", id="wrong password"
            ),
            pytest.param("postgres", "/postgres", "rejected the role or its password", id="no password"),
            pytest.param("ghost:pw", "/postgres", "rejected the role or its password", id="no such role"),
            pytest.param("nologin:pw", "/postgres", "rejected the role or its password", id="no login"),
            pytest.param("limited:pw", "/nowhere", "the database does not exist", id="no such database"),
            pytest.param(
                "limited:pw",
                "/postgres?options=-csearch_path%3Dclosed",
                "its role lacks a permission",
                id="no permission",
            ),
            pytest.param(
                "limited:pw",
                "/postgres?sslmode=require",
                "the TLS connection that the URL asks for",
                id="no TLS",
            ),
            *[
                pytest.param("limited:pw", f"/postgres?{option}", "its URL cannot be used", id=option)
                for option in (
                    *("nonsense=1", "connect_timeout=soon", "target_session_attrs=best"),
                    *(
                        "statement_timeout=soon",
                        "lock_timeout=-5",
                        "options=-cnonsense%3D1",
                        "options=nonsense",
                    ),
                )
            ],
        ],
    )
    def test_what_stays_so_is_a_matter_of_configuration(
        self, postgres_server: str, form: str, account: str, rest: str, problem: str
    ) -> None:
        address = urlsplit(postgres_server)

        with pytest.raises(ConfigurationError, match=f"history: .*{problem}"):
            claim(form, f"postgresql://{account}@{address.hostname}:{address.port}{rest}")

    def test_a_server_that_has_no_more_connections_is_away(self, postgres_server: str, form: str) -> None:
        with psycopg.connect(postgres_server, autocommit=True) as admin:
            admin.execute("ALTER ROLE limited CONNECTION LIMIT 0")
        address = urlsplit(postgres_server)

        with pytest.raises(HistoryUnavailableError) as caught:
            claim(form, f"postgresql://limited:pw@{address.hostname}:{address.port}/postgres")

        assert "too many connections" in str(caught.value.__cause__)

    @pytest.mark.parametrize("code", ["53100", "25006", "57014"], ids=["disk full", "read only", "cancelled"])
    def test_what_may_pass_is_away_and_opens_nothing(self, postgres_url: str, code: str) -> None:
        store = SqlHistory.from_url(postgres_url)
        drive(store.claim(TRIGGER, ["before"], "worker"))
        refuse = f"""
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END $$;
            CREATE TRIGGER refuse BEFORE INSERT ON doubtless_history EXECUTE FUNCTION refuse()
        """
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute(refuse.encode())

            for _ in range(2):
                with pytest.raises(HistoryUnavailableError) as caught:
                    drive(store.claim(TRIGGER, ["u1"], "worker"))
                assert not isinstance(caught.value, CircuitOpenError)

            admin.execute("DROP TRIGGER refuse ON doubtless_history")
        assert drive(store.claim(TRIGGER, ["u1"], "worker"))[0].found is None
        drive(store.close())


class TestSqlite:
    def test_a_folder_that_is_not_there(self, tmp_path: Path, form: str) -> None:
        with pytest.raises(ConfigurationError, match=r"its file cannot be opened .*; create its folder"):
            claim(form, f"sqlite:///{tmp_path}/nowhere/history.sqlite3")

    def test_a_file_that_may_only_be_read(self, tmp_path: Path, form: str) -> None:
        file = tmp_path / "history.sqlite3"
        claim("blocking", f"sqlite:///{file}")

        with pytest.raises(ConfigurationError, match="its file cannot be written to"):
            claim(form, f"sqlite:///file:{file}?mode=ro&uri=true", "u2")

    def test_a_file_that_is_something_else(self, tmp_path: Path, form: str) -> None:
        file = tmp_path / "history.sqlite3"
        file.write_text("some text " * 1000)

        with pytest.raises(ConfigurationError, match="its file is not a SQLite database"):
            claim(form, f"sqlite:///{file}")

    def test_a_disk_that_is_full_is_waited_for(self, tmp_path: Path) -> None:
        engine = create_engine(f"sqlite:///{tmp_path}/history.sqlite3")
        store = SqlHistory(engine, owned=True)
        drive(store.check())
        engine.dispose()
        limit: list[int] = []

        @event.listens_for(engine, "connect")
        def _(connection: Any, _record: object) -> None:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
            limit.append(pages)

        with pytest.raises(HistoryUnavailableError) as caught:
            drive(store.claim(TRIGGER, [str(number) for number in range(1000)], "worker"))

        assert limit
        assert "disk is full" in str(caught.value.__cause__)
        drive(store.close())
