"""``rediss://`` refuses a server with a certificate for another host, even if the certificate is valid."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from resolvers import EffectUnavailableError, Resolution, redis_key_exists
from tests.fixtures.needed import missing
from tests.fixtures.servers.certificates import HERE, make_certificate
from tests.integration.history.test_refusals import USES
from triggers import ConfigurationError, Message
from triggers.events import Cause, RetrievalFailureEvent
from triggers.sinks import open_sink
from triggers.testing.redis_server import RedisServer, free_port

ELSEWHERE = "DNS:redis.example.com,IP:192.0.2.1"


def tell(_form: str, url: str) -> None:
    """Send one event to a sink. Sinks are only blocking."""
    sink = open_sink(url)
    try:
        sink(
            RetrievalFailureEvent(
                trigger_name="book",
                destination="orders",
                destination_index=0,
                delivery_count=1,
                exception_message="it was given up",
                cause=Cause.UNREADABLE,
            )
        )
    finally:
        sink.close()


Speak = Callable[[str, str], None]

#: Each kind of client of Redis, blocking and asyncio.
SPEAKERS = [(speak, form) for speak in USES.values() for form in ("blocking", "asyncio")] + [
    (tell, "blocking")
]

each_speaker = pytest.mark.parametrize(("speak", "form"), SPEAKERS)


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a Redis with TLS. Its certificate is for the hosts that the test names."""
    if shutil.which("redis-server") is None:
        missing("redis-server", "apt-get install redis-server")
    authority = make_certificate(tmp_path, "authority")
    shown = make_certificate(tmp_path, "server", authority=authority, hosts=cast("str", request.param))
    port = free_port()
    settings = {
        "tls-port": str(port),
        "tls-cert-file": str(shown.certificate),
        "tls-key-file": str(shown.key),
        "tls-ca-cert-file": str(authority.certificate),
        "tls-auth-clients": "no",
    }
    with RedisServer(tmp_path, **settings):
        yield f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={authority.certificate}"


@each_speaker
@pytest.mark.parametrize("url", [HERE], indirect=True)
def test_a_server_with_a_certificate_for_its_host_is_spoken_to(url: str, speak: Speak, form: str) -> None:
    speak(form, url)


@each_speaker
@pytest.mark.parametrize("url", [ELSEWHERE], indirect=True)
def test_a_certificate_for_another_host_is_refused(url: str, speak: Speak, form: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"the TLS connection failed.*certificate is not valid for '127"
    ):
        speak(form, url)


@pytest.mark.parametrize("url", [HERE], indirect=True)
def test_a_resolver_asks_a_server_with_a_certificate_for_its_host(url: str) -> None:
    asked = redis_key_exists(url, "booking:{uuid}")("one", "book", Message(body="", uuid="one"))

    assert asked.resolution is Resolution.NEW


@pytest.mark.parametrize("url", [ELSEWHERE], indirect=True)
def test_a_resolver_does_not_ask_a_server_with_a_certificate_for_another_host(url: str) -> None:
    with pytest.raises(EffectUnavailableError):
        redis_key_exists(url, "booking:{uuid}")("one", "book", Message(body="", uuid="one"))
