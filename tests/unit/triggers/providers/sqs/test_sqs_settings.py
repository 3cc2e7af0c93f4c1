"""The URL of the SQS provider, and the names that it makes for SQS."""

import pytest

from history.errors import ConfigurationError
from triggers.providers.sqs.settings import SqsSettings


def test_everything_but_the_region_has_a_default() -> None:
    assert SqsSettings.from_url("sqs://eu-west-1") == SqsSettings(region="eu-west-1")


def test_each_setting_is_read() -> None:
    url = "sqs://us-gov-east-1/a.fifo?visibility=60&retention=300&create=false&endpoint=http://h:1/x"

    assert SqsSettings.from_url(url) == SqsSettings(
        region="us-gov-east-1",
        queue="a.fifo",
        visibility=60,
        retention=300,
        create=False,
        endpoint="http://h:1/x",
    )


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("sqs://", "provider"),
        ("sqs:///orders", "provider"),
        ("sqs://key:secret@eu-west-1", "provider"),
        ("sqs://eu-west-1?vsibility=3", "provider"),
        ("sqs://eu-west-1?visibility=2", "visibility"),
        ("sqs://eu-west-1?visibility=43201", "visibility"),
        ("sqs://eu-west-1?retention=1.5", "retention"),
        ("sqs://eu-west-1?create=maybe", "create"),
        ("sqs://eu-west-1/a/b", "destination"),
    ],
)
def test_what_cannot_be_is_named(url: str, field: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{field}:"):
        SqsSettings.from_url(url)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "ä", "x" * 76, ".fifo"])
def test_what_is_no_queue_is_no_destination(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^destination:"):
        SqsSettings(region="r").queue_of(name)


def test_the_url_of_one_queue_is_for_it_and_its_dead_letters() -> None:
    settings = SqsSettings(region="r", queue="orders")

    assert [settings.queue_of(name) for name in ("orders", "DLQ-orders")] == ["orders", "DLQ-orders"]
    with pytest.raises(ConfigurationError, match="is not the queue"):
        settings.queue_of("others")
