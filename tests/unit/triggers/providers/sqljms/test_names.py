"""A URL contains settings, and a destination's name contains its kind."""

from datetime import timedelta
from typing import Any

import pytest

from triggers import ConfigurationError, open_provider
from triggers.providers.sqljms.destinations import Destination, DestinationKind
from triggers.providers.sqljms.settings import SqlJmsSettings


@pytest.mark.parametrize(
    ("url", "lease", "rest"),
    [
        ("sqlite:///file.db", 30, "sqlite:///file.db"),
        ("sqlite:///file.db?lease=5", 5, "sqlite:///file.db"),
        ("sqlite:////tmp/file.db?lease=0.5&timeout=3", 0.5, "sqlite:////tmp/file.db?timeout=3"),
        (
            "postgresql://u:p@h/d?options=-csearch_path%3Ds&lease=7&poll_interval=2",
            7,
            "postgresql://u:p@h/d?options=-csearch_path%3Ds",
        ),
    ],
    ids=["none", "lease", "two", "postgresql"],
)
def test_settings_are_taken_out_of_the_url(url: str, lease: float, rest: str) -> None:
    settings, left = SqlJmsSettings.from_url(url)

    assert settings.lease == timedelta(seconds=lease)
    assert left == rest


@pytest.mark.parametrize("value", ["", "soon", "0", "-1", "1e400"])
def test_a_setting_that_is_no_duration_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match="lease"):
        SqlJmsSettings.from_url(f"sqlite:///file.db?lease={value}")


@pytest.mark.parametrize(
    "value", [10, None, timedelta(0), timedelta.max], ids=["number", "none", "0", "long"]
)
@pytest.mark.parametrize("setting", SqlJmsSettings.names())
def test_a_setting_that_is_no_duration_is_refused_in_the_constructor(setting: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        SqlJmsSettings(**{setting: value})

    assert refused.value.setting == setting


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("orders", Destination(DestinationKind.TOPIC, "orders", retains=True)),
        ("queue://orders", Destination(DestinationKind.QUEUE, "orders")),
        ("queue://a?b", Destination(DestinationKind.QUEUE, "a?b")),
        ("topic://orders", Destination(DestinationKind.TOPIC, "orders")),
        ("topic://orders?durable=no", Destination(DestinationKind.TOPIC, "orders", durable=False)),
        ("shop://orders", Destination(DestinationKind.TOPIC, "shop://orders", retains=True)),
    ],
    ids=["plain", "queue", "question mark", "topic", "not durable", "other scheme"],
)
def test_a_destination_says_what_it_is(told: str, expected: Destination) -> None:
    assert Destination.parse(told) == expected


@pytest.mark.parametrize(
    "told",
    [
        "queue://orders?durable=no",
        "orders?durable=no",
        "topic://orders?durabel=no",
        "topic://orders?",
        "orders\0",
        "queue://\ud800",
        "queue://" + "ü" * 501,
    ],
    ids=["queue", "plain", "typo", "empty", "nul", "half surrogate", "long"],
)
def test_a_destination_that_would_be_another_one_is_refused(told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Destination.parse(told)

    assert refused.value.setting == "destination"


@pytest.mark.parametrize("url", ["mysql://host/db", "sqlite+other:///file.db"])
def test_another_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="provider"):
        open_provider(url)
