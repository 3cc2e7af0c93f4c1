"""The resolver asks a real HTTP server for a resource. The server answers, hangs, or is away."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta

import httpx
import pytest

from history import ConfigurationError, Message, Uuid
from resolvers import EffectUnavailableError, Resolution, Resolved, http_resource_exists
from tests.fixtures.ports import closed_port
from tests.fixtures.servers.http_server import HANG, HANG_UP, HttpServer
from tests.fixtures.waiting import PATIENCE

SHORT = timedelta(milliseconds=200)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reach the loopback interface directly, whatever proxy the developer has."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer() as server:
        yield server


def message(uuid: str, *, correlation_id: str | None = None) -> Message:
    return Message(body="", uuid=Uuid(uuid), correlation_id=correlation_id)


def ask(resolver: Callable[[str, str, Message], Resolved], uuid: str = "o1") -> Resolved:
    return resolver(uuid, "book", message(uuid))


def orders(server: HttpServer) -> str:
    return f"{server.url}/orders/{{uuid}}"


@pytest.mark.parametrize(
    ("status", "resolution"),
    [
        (200, Resolution.DUPLICATE),
        (204, Resolution.DUPLICATE),
        (301, Resolution.DUPLICATE),
        (302, Resolution.DUPLICATE),
        (404, Resolution.NEW),
        (410, Resolution.NEW),
        (400, Resolution.IN_DOUBT),
        (401, Resolution.IN_DOUBT),
        (403, Resolution.IN_DOUBT),
        (405, Resolution.IN_DOUBT),
    ],
)
def test_the_status_decides_and_the_reason_tells_it(
    server: HttpServer, status: int, resolution: Resolution
) -> None:
    server.statuses["/orders/o1"] = status

    answer = ask(http_resource_exists(orders(server)))

    assert answer.resolution is resolution
    assert f"HTTP {status}" in str(answer.reason)
    assert f"{server.url}/orders/{{uuid}}" in str(answer.reason)
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_status_that_means_not_now_is_a_reason_to_try_again(server: HttpServer, status: int) -> None:
    server.statuses["/orders/o1"] = status

    with pytest.raises(EffectUnavailableError, match=f"looking for the effect of 'o1': HTTP {status}"):
        ask(http_resource_exists(orders(server)))


def test_a_server_that_hangs_is_a_reason_to_try_again(server: HttpServer) -> None:
    server.statuses["/orders/o1"] = HANG

    with pytest.raises(EffectUnavailableError, match="ReadTimeout"):
        ask(http_resource_exists(orders(server), timeout=SHORT))


def test_a_server_that_hangs_up_is_a_reason_to_try_again(server: HttpServer) -> None:
    server.statuses["/orders/o1"] = HANG_UP

    with pytest.raises(EffectUnavailableError, match="RemoteProtocolError"):
        ask(http_resource_exists(orders(server)))


def test_a_server_that_is_away_is_a_reason_to_try_again() -> None:
    with pytest.raises(EffectUnavailableError, match="ConnectError"):
        ask(http_resource_exists(f"http://127.0.0.1:{closed_port()}/orders/{{uuid}}"))


def test_a_redirect_to_a_login_page_can_be_told_from_a_resource(server: HttpServer) -> None:
    server.statuses["/orders/o1"] = 302

    answer = ask(http_resource_exists(orders(server), redirect=Resolution.IN_DOUBT))

    assert answer.resolution is Resolution.IN_DOUBT


@pytest.mark.parametrize(
    ("uuid", "path"),
    [
        ("a/b", "/orders/a%2Fb"),
        ("a?b#c", "/orders/a%3Fb%23c"),
        ("100%", "/orders/100%25"),
        ("%2e%2e", "/orders/%252e%252e"),
        ("ü x", "/orders/%C3%BC%20x"),
        ("{uuid}", "/orders/%7Buuid%7D"),
        ("...", "/orders/..."),
    ],
)
def test_an_identity_stays_one_segment_of_the_path(server: HttpServer, uuid: str, path: str) -> None:
    server.statuses[path] = 200

    assert ask(http_resource_exists(orders(server)), uuid).resolution is Resolution.DUPLICATE
    assert [asked for asked, _ in server.asked] == [path]


@pytest.mark.parametrize("uuid", [".", "..", "ü" * 16_384])
def test_an_identity_that_names_no_resource_is_in_doubt_and_not_asked_for(
    server: HttpServer, uuid: str
) -> None:
    server.statuses["/"] = server.statuses["/orders/"] = 200

    assert ask(http_resource_exists(orders(server)), uuid).resolution is Resolution.IN_DOUBT
    assert server.asked == []


def test_the_query_may_hold_the_identity(server: HttpServer) -> None:
    server.statuses["/orders?trigger=book&ref=c%261"] = 200
    resolver = http_resource_exists(f"{server.url}/orders?trigger={{trigger_name}}&ref={{correlation_id}}")

    answer = resolver("o1", "book", message("o1", correlation_id="c&1"))

    assert answer.resolution is Resolution.DUPLICATE
    assert resolver("o1", "book", message("o1")).resolution is Resolution.IN_DOUBT


def test_credentials_reach_the_server_and_no_text(server: HttpServer) -> None:
    server.statuses["/orders/o1?key=secret"] = 500
    resolver = http_resource_exists(
        f"http://agent:secret@{server.address}/orders/{{uuid}}?key=secret", headers={"X-Token": "secret"}
    )

    with pytest.raises(EffectUnavailableError) as raised:
        ask(resolver)

    assert "secret" not in str(raised.value)
    _, headers = server.asked[0]
    assert headers["X-Token"] == "secret"
    assert headers["Authorization"].startswith("Basic ")


def test_a_client_of_the_users_is_used_and_left_open(server: HttpServer) -> None:
    server.statuses["/orders/o1"] = 302
    with httpx.Client(headers={"X-Token": "t"}, follow_redirects=True) as client:
        resolver = http_resource_exists(orders(server), client=client)

        assert ask(resolver).resolution is Resolution.DUPLICATE
        assert ask(resolver, "o2").resolution is Resolution.NEW
        assert not client.is_closed
    assert {headers["X-Token"] for _, headers in server.asked} == {"t"}
    assert [path for path, _ in server.asked] == ["/orders/o1", "/orders/o2"]


def test_the_time_limit_of_the_users_client_holds(server: HttpServer) -> None:
    server.statuses["/orders/o1"] = HANG

    with httpx.Client(timeout=SHORT.total_seconds()) as client, pytest.raises(EffectUnavailableError):
        ask(http_resource_exists(orders(server), client=client))


async def test_an_asyncio_client_makes_an_asyncio_resolver(server: HttpServer) -> None:
    server.statuses.update({"/orders/o1": 200, "/orders/o3": HANG})
    async with httpx.AsyncClient(timeout=SHORT.total_seconds()) as client:
        resolver = http_resource_exists(orders(server), client=client)

        assert (await resolver("o1", "book", message("o1"))).resolution is Resolution.DUPLICATE
        assert (await resolver("o2", "book", message("o2"))).resolution is Resolution.NEW
        with pytest.raises(EffectUnavailableError):
            await resolver("o3", "book", message("o3"))


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://host/orders", "differs between messages"),
        ("https://host/{trigger_name}", "differs between messages"),
        ("https://host/orders/{uid}", "did you mean 'uuid'"),
        ("https://host/orders/{}", "cannot search by"),
        ("https://host/orders/{0}", "cannot search by"),
        ("https://host/orders/{uuid.upper}", "cannot search by"),
        ("https://host/orders/{uuid!r}", "have a format"),
        ("https://host/orders/{uuid:>9}", "have a format"),
        ("https://host/orders/{uuid", "braces do not match"),
        ("https://{uuid}.host/orders", "fixed host"),
        ("ftp://host/{uuid}", r"not http\(s\)"),
        ("/orders/{uuid}", r"not http\(s\)"),
        ("https://secret@host:port/{uuid}", r"not http\(s\)"),
    ],
)
def test_a_url_that_cannot_work_is_refused(url: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as raised:
        http_resource_exists(url)

    assert "secret" not in str(raised.value)


def python(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=PATIENCE
    ).stdout


def test_without_httpx_the_extra_is_named_when_the_resolver_is_made() -> None:
    told = python(
        "import sys; sys.modules['httpx'] = None\n"
        "from history.errors import MissingExtraError\n"
        "from resolvers import http_resource_exists\n"
        "try: http_resource_exists('https://host/{uuid}')\n"
        "except MissingExtraError as error: print(error)\n"
    )

    assert "pip install 'doubtless[http]'" in told


def test_importing_the_package_loads_no_driver() -> None:
    loaded = python(
        "import history.errors, sys; before = set(sys.modules)\n"
        "import resolvers; loaded = set(sys.modules) - before\n"
        "print(loaded & {'httpx', 'sqlalchemy', 'redis'} or 'none')"
    )

    assert loaded.strip() == "none"
