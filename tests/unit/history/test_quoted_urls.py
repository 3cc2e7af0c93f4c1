"""Errors quote only the scheme and host of a URL: a password without escapes could be anywhere else in it."""

import traceback
from collections.abc import Callable
from itertools import product

import pytest

from history import ConfigurationError, open_history
from history.support.urls import guarded, origin
from triggers import open_provider
from triggers.providers.sqlremote.carriers.opening import open_carrier
from triggers.sinks.opening import open_sink

SCHEMES = (
    *("redis", "rediss", "unix", "redis+sentinel", "redis+cluster", "redis+x", "sqlite", "postgresql"),
    *("rabbitmq", "rabbitmqs", "amqp", "amqps", "jms+tcp", "jms", "https", "file", "env", "mysql", "nope"),
)
BETWEEN = ("/", "#", "?", "@", ":", "[", "]", " ", ",", "&a=", "\N{ACCOUNT OF}")
HOSTS = ("h:1/0", "h/0?table=a", "h:61616?factory=F&classpath=/nope.jar", "h:notaport/0", "h/service/x", "")


def open_a_carrier(url: str) -> object:
    return open_carrier(url, name="a", largest=1)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("opener", [open_history, open_provider, open_sink, open_a_carrier])
def test_no_error_and_no_traceback_holds_a_piece_of_a_password(
    opener: Callable[[str], object], scheme: str
) -> None:
    for between, host in product(BETWEEN, HOSTS):
        for account in ("u:", ":", "u:1"):
            url = f"{scheme}://{account}AAAsecret{between}BBBsecret{between}CCCsecret@{host}"
            try:
                opener(url)
            except Exception as error:  # noqa: BLE001  (whatever it is, it is shown)
                shown = str(error) + "".join(traceback.format_exception_only(error))
                if error.__cause__ is not None:
                    shown += str(error.__cause__)

                assert "secret" not in shown, url


@pytest.mark.parametrize("url", ["redis://:6379#x@h/0", "redis://:6379?x@h/0", "redis://:6379/x@h"])
def test_a_password_that_would_be_read_as_a_port_is_refused_before_anybody_connects(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^history: its URL cannot be read; .* write / as %2F"):
        open_history(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://u:p%2Fq@h:6379/0",
        "redis://u:p@q@h:6379/0",
        "redis://h:6379/0?username=a",
        "sqlite:///some@where.db",
        "unix:///run/redis.sock",
    ],
)
def test_what_can_be_read_is_opened(url: str) -> None:
    open_history(url)


def test_a_refused_setting_is_still_named_where_no_password_is_there() -> None:
    with pytest.raises(ConfigurationError, match="the database in its URL must be a number, not 'orders'"):
        open_history("redis://h/orders")


def test_scheme_and_host_are_what_may_be_quoted() -> None:
    assert origin("redis://u:p@h:6379/0?x=1#y") == "redis://h:6379"
    assert origin("redis://u:p/q@h:6379/0") == "redis://"
    with (
        pytest.raises(ConfigurationError, match=r"^history: its URL, redis://h, cannot be used; "),
        guarded("redis://u:hidden@h", "history"),
    ):
        raise ConfigurationError("history", "hidden is wrong", "mend it")
