"""Whether doctor warns of a line that is not encrypted."""

import pytest

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
