"""The command line, and a history that the commands read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from history.bridge import drive
from history.opening import open_history
from history.store import HistoryStore
from tests.acceptance.in_process import InProcess


@pytest.fixture
def doubtless(tmp_path: Path) -> InProcess:
    return InProcess(tmp_path)


@pytest.fixture
def store(redis_url: str) -> Iterator[HistoryStore]:
    """An empty history, in the database of ``redis_url``."""
    store = open_history(redis_url)
    yield store
    drive(store.close())
