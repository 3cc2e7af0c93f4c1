"""URLs of Redis behind Sentinel and of Clusters; nothing is connected."""

import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio

from history import ConfigurationError, HistoryUnavailableError, RedisHistory, SqlHistory, open_history
from history.redis.connection.urls import open_client
from triggers import open_provider


def opened(url: str, *, asyncio: bool = False) -> Any:
    return open_client(url, setting="history", asyncio=asyncio, connect=1.0, answer=2.0)


@pytest.mark.parametrize("asyncio", [False, True])
def test_sentinels_and_the_master_have_accounts_of_their_own(*, asyncio: bool) -> None:
    client = opened(
        "redis+sentinel://app:p%40ss@a,b:27000,[::1]:26380/orders/3?sentinel_username=w&sentinel_password=x",
        asyncio=asyncio,
    )

    pool = client.connection_pool
    sentinels = [one.connection_pool.connection_kwargs for one in pool.sentinel_manager.sentinels]
    assert pool.service_name == "orders"
    assert [(one["host"], one["port"]) for one in sentinels] == [("a", 26379), ("b", 27000), ("::1", 26380)]
    assert {(one["username"], one["password"]) for one in sentinels} == {("w", "x")}
    master = pool.connection_kwargs
    assert (master["username"], master["password"], master["db"]) == ("app", "p@ss", 3)
    assert (master["socket_timeout"], master["socket_connect_timeout"]) == (2.0, 1.0)


@pytest.mark.parametrize("asyncio", [False, True])
def test_all_connections_are_encrypted_where_the_url_says_so(*, asyncio: bool) -> None:
    pool = opened("rediss+sentinel://a,b/orders/0?ssl_cert_reqs=none", asyncio=asyncio).connection_pool

    assert "SSL" in pool.connection_class.__name__
    assert all(
        "SSL" in one.connection_pool.connection_class.__name__ for one in pool.sentinel_manager.sentinels
    )


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("redis+sentinel://a,b", "lacks the name of the Sentinel service"),
        ("redis+sentinel://a/orders/first", "must be a number, not 'first'"),
        ("redis+sentinel://a:b/orders", "'a:b' must be an address"),
        ("redis+sentinel://a,/orders", "'' must be an address"),
        ("redis+cluster://a/1", "only database 0"),
        ("redis+cluster://", "'' must be an address"),
        ("redis+proxy://a", "unknown kind of Redis, 'proxy'"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_opened(url: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"history: .*{problem}"):
        RedisHistory.from_url(url)


@pytest.mark.parametrize("opening", [RedisHistory.from_url, open_provider])
@pytest.mark.parametrize("number", ["9" * 400, "9" * 5000, str(2**31)], ids=len)
@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("redis://a/{}", "the database"),
        ("redis+sentinel://a/orders/{}", "the database"),
        ("redis://a?db={}", "db"),
        ("unix:///a?db={}", "db"),
        ("redis://a?health_check_interval={}", "health_check_interval"),
        ("redis://a?max_connections={}", "max_connections"),
        ("redis+cluster://a?socket_read_size={}", "socket_read_size"),
    ],
)
def test_a_number_that_no_server_and_no_socket_takes_is_refused_and_named(
    opening: Callable[[str], object], number: str, url: str, part: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"{part} in its URL must be .*{2**31 - 1}"):
        opening(url.format(number))


@pytest.mark.parametrize("opening", [RedisHistory.from_url, open_provider])
@pytest.mark.parametrize("option", ["retry", "retry_on_error", "socket_type", "maint_notifications_config"])
def test_an_option_that_is_an_object_is_refused_in_a_url(
    opening: Callable[[str], object], option: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"{option} in its URL cannot be used"):
        opening(f"redis://a?{option}=3")


@pytest.mark.parametrize("url", ["postgresql://a:{}/b", "postgresql:///b?host=a&port={}"])
@pytest.mark.parametrize("port", ["0", "65536", "9" * 400], ids=len)
def test_a_port_that_no_server_has_is_refused(url: str, port: str) -> None:
    with pytest.raises(ConfigurationError, match="history: the port in its URL must be a number from 1"):
        SqlHistory.from_url(url.format(port))


@pytest.mark.parametrize(
    "option",
    ["keepalives_idle=32768", "keepalives_interval=-1", "keepalives_count=x", "tcp_user_timeout=1e9"],
)
def test_an_option_of_postgresql_that_no_socket_takes_is_refused(option: str) -> None:
    name = option.partition("=")[0]
    with pytest.raises(ConfigurationError, match=f"history: the {name} in its URL must be a number from 0"):
        SqlHistory.from_url(f"postgresql://a/b?{option}")


@pytest.mark.parametrize("opening", [RedisHistory.from_url, open_provider])
@pytest.mark.parametrize("option", ["socket_timeout", "socket_connect_timeout"])
@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e10"])
@pytest.mark.parametrize("url", ["redis://a", "redis+sentinel://a/orders", "redis+cluster://a"])
def test_a_time_that_no_socket_can_wait_is_refused(
    opening: Callable[[str], object], url: str, option: str, seconds: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        opening(f"{url}?{option}={seconds}")

    assert refused.value.problem.startswith(option)


@pytest.mark.parametrize("opening", [RedisHistory.from_url, open_provider])
@pytest.mark.parametrize(
    "url", ["redis+cluster://127.0.0.1:1,127.0.0.1:2", "redis+sentinel://127.0.0.1:1/orders"]
)
def test_a_history_and_a_provider_open_while_nothing_is_there(
    opening: Callable[[str], object], url: str
) -> None:
    assert repr(opening(url))


@pytest.mark.parametrize("asyncio", [False, True])
async def test_no_password_is_quoted_while_no_sentinel_is_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, asyncio: bool
) -> None:
    def show_everything(pool: Any) -> str:  # as redis-py before 7.4 does
        return f"<pool {pool.connection_kwargs}>"

    for pool in (redis.ConnectionPool, redis.asyncio.ConnectionPool):
        monkeypatch.setattr(pool, "__repr__", show_everything)
    caplog.set_level(logging.DEBUG)
    history = open_history("redis+sentinel://:hunter1@127.0.0.1:1/orders?sentinel_password=hunter2")
    store = history.for_asyncio() if asyncio else history

    with pytest.raises(HistoryUnavailableError) as away:
        await store.claim("book", ["a"], "worker")
    await store.close()
    await history.close()

    told = "".join(traceback.format_exception(away.value)) + caplog.text
    assert "127.0.0.1:1" in told
    assert "hunter" not in told


@pytest.mark.parametrize("kind", [RedisHistory, SqlHistory])
def test_a_url_in_the_place_of_a_client_is_refused_with_the_remedy(kind: Callable[[Any], object]) -> None:
    with pytest.raises(ConfigurationError, match=r"not a URL; use open_history\(URL\)"):
        kind("redis://127.0.0.1:1/0")
