"""The URL of the NATS provider, and the names that it makes for NATS."""

import pytest

from history.errors import ConfigurationError
from triggers.providers.brokers.trust import FirstCount
from triggers.providers.nats.settings import NatsSettings, plain


def test_everything_has_a_default() -> None:
    settings, url = NatsSettings.from_url("nats://host")

    assert settings == NatsSettings()
    assert (list(url.hosts), url.tls, url.user) == ([("host", 4222)], None, None)


def test_each_setting_is_read() -> None:
    options = (
        "durable=mine&start=new&ack_wait=7&create=false&replicas=3&max_age=60&creds=f&first_count=as_told"
    )
    settings, url = NatsSettings.from_url(f"natss://u:p@a:1,b?{options}")

    assert settings == NatsSettings(
        durable="mine",
        start="new",
        ack_wait=7,
        create=False,
        replicas=3,
        max_age=60,
        creds="f",
        first_count=FirstCount.AS_TOLD,
    )
    assert (list(url.hosts), url.tls is not None) == ([("a", 1), ("b", 4222)], True)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ("?start=last", "start"),
        ("?create=maybe", "create"),
        ("?ack_wait=1", "ack_wait"),
        ("?replicas=0", "replicas"),
        ("?max_age=-5", "max_age"),
        ("?durable=a.b", "durable"),
        ("?durable=", "durable"),
        ("?stream=x", "provider"),
        ("?cafile=x", "provider"),
        ("?sasl=external", "sasl"),
        ("/path", "provider"),
    ],
)
def test_what_cannot_be_is_named(options: str, field: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{field}:"):
        NatsSettings.from_url(f"nats://host{options}")


def test_two_names_never_become_one() -> None:
    names = ["a.b", "a_b", "a%2Eb", "a b", "ä", "a/b", "a*b", "a>b"]

    assert len({plain(name) for name in names}) == len(names)
    assert all(not set(plain(name)) & set(". */>\\ä") for name in names)


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="longer than 255"):
        plain("x" * 256)
