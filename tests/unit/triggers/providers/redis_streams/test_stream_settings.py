"""Settings of Redis Streams are checked when they are given, in code and in a URL."""

from datetime import timedelta
from typing import Any

import pytest
import redis

from triggers import ConfigurationError
from triggers.providers.redis_streams import RedisStreams, StreamSettings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("claim_idle", value) for value in (5, None, timedelta(0), timedelta(days=40_000))),
        *(("reclaim_interval", value) for value in (0.5, "1", -timedelta(seconds=1))),
        *(("maxlen", value) for value in ("5", True, 1.5, 0, 2**63)),
        *(("trim", value) for value in ("never", 7, -timedelta(days=1))),
        *(("durability", value) for value in (2, "two")),
    ],
)
def test_a_setting_of_a_wrong_kind_is_refused(name: str, value: Any) -> None:
    settings: dict[str, Any] = {name: value}

    with pytest.raises(ConfigurationError) as refused:
        StreamSettings(**settings)

    assert refused.value.setting == name


@pytest.mark.parametrize(
    ("query", "setting"),
    [("maxlen=9223372036854775808", "maxlen"), ("claim_idle=1e10", "claim_idle"), ("trim=soon", "trim")],
)
def test_so_it_is_in_a_url(query: str, setting: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        RedisStreams.from_url(f"redis://127.0.0.1?{query}")

    assert refused.value.setting == setting


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        (("redis://127.0.0.1",), "client"),
        ((None,), "client"),
        ((redis.Redis,), "client"),
        ((redis.Redis(), {"claim_idle": 5}), "settings"),
    ],
)
def test_what_is_no_client_and_no_settings_is_refused(arguments: tuple[Any, ...], setting: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        RedisStreams(*arguments)

    assert refused.value.setting == setting
