"""Whether doctor warns of a line that is not encrypted."""

from collections.abc import Callable

import pytest

from history import open_history
from triggers import open_provider
from triggers.cli.checks.findings import Level
from triggers.cli.checks.lines import of_line


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@redis.example:6379/0",
        "redis+sentinel://one.example:1,two.example:2/service/0",
        "postgresql://app:secret@db.example/shop",
        "postgresql+psycopg://app:secret@db.example/shop?sslmode=prefer",
        "postgresql://app:secret@127.0.0.1:5432,db.example:5432/shop",
        "amqp://app:secret@10.0.0.7/",
        "rabbitmq://app:secret@rabbit.example/",
        "kafka://one.example:9092",
        "nats://[2001:db8::1]:4222",
        "postgresql:///shop?host=db.example&user=app&password=secret",
    ],
)
def test_a_line_in_clear_is_warned_of(url: str) -> None:
    (finding,) = of_line("history", url)

    assert finding.level is Level.WARNING
    assert finding.remedy
    assert "secret" not in str(finding)


@pytest.mark.parametrize(
    "url",
    [
        "rediss://:secret@redis.example:6379/0",
        "rediss+cluster://a.example:1,b.example:2",
        "postgresql://app:secret@db.example/shop?sslmode=verify-full",
        "postgresql://app:secret@db.example/shop?sslmode=require",
        "postgresql:///shop?host=/var/run/postgresql",
        "redis://:secret@127.0.0.1:6379/0",
        "redis://localhost",
        "redis://[::1]:6379/0",
        "kafkas://one.example:9093",
        "natss://one.example:4222",
        "amqps://app:secret@rabbit.example/",
        "sqlite:///shop.sqlite3",
        "memory://",
        "sqs://eu-west-1",
    ],
)
def test_one_that_is_encrypted_or_leaves_no_machine_is_not(url: str) -> None:
    assert list(of_line("history", url)) == []


@pytest.mark.parametrize(
    ("opens", "url"),
    [
        (open_history, "redis://:secret@redis.example:6379/0"),
        (open_history, "postgresql://app:secret@db.example/shop"),
        (open_provider, "redis://:secret@redis.example:6379/0"),
        (open_provider, "postgresql://app:secret@db.example/shop?sslmode=prefer"),
    ],
)
def test_who_opens_it_with_a_password_is_warned_once(
    opens: Callable[[str], object],
    url: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("history.support.tls._WARNED", set[object]())

    for _ in range(2):
        opens(url)

    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "secret" not in caplog.text


@pytest.mark.parametrize("url", ["redis://redis.example:6379/0", "redis://:secret@localhost:6379/0"])
def test_who_opens_it_without_a_password_or_on_this_machine_is_not_warned(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    open_history(url)
    open_provider(url)

    assert caplog.records == []
