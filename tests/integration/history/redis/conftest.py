"""Fixtures for the tests of a history in Redis."""

from collections.abc import Iterator

import pytest

from history.bridge import drive
from history.redis import RedisHistory


@pytest.fixture
def history(redis_url: str) -> Iterator[RedisHistory]:
    """An empty history; ``redis_url`` leads to the same."""
    history = RedisHistory.from_url(redis_url)
    yield history
    drive(history.close())
