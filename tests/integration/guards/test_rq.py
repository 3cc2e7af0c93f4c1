"""The recipe for RQ, with RQ's own worker and a real Redis."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.ledger import Ledger

#: As Any: they tell few types.
rq: Any = import_module("rq")
redis: Any = import_module("redis")

APPLICATION = "tests.integration.guards.hosts.rq_app"

Work = Callable[[], None]


@pytest.fixture
def effects(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    effects = Ledger(tmp_path / "effects")
    monkeypatch.setenv("EFFECTS", str(effects.file))
    monkeypatch.setenv("HISTORY", redis_url)
    sys.modules.pop(APPLICATION, None)
    return effects


def enqueue(redis_url: str, *args: Any, job: str = "book", **options: Any) -> Any:
    """Enqueue the job under one id, and work until nothing is left."""
    with redis.Redis.from_url(redis_url) as connection:
        queue = rq.Queue("orders", connection=connection)
        sent = queue.enqueue(f"{APPLICATION}.{job}", *args, job_id="one", **options)
        worker = rq.SimpleWorker([queue], connection=connection)
        worker.work(burst=True, with_scheduler=False)
        sent.refresh()
        return sent.get_status(), sent.return_value()


def test_a_job_that_comes_again_runs_once(effects: Ledger, redis_url: str) -> None:
    assert enqueue(redis_url, "1") == ("finished", "booked 1")
    assert enqueue(redis_url, "1")[0] == "finished"

    assert effects.counts() == {"1": 1}


def test_what_rq_tries_again_runs_again(effects: Ledger, redis_url: str) -> None:
    assert enqueue(redis_url, "1", fails=1, retry=rq.Retry(max=2)) == ("finished", "booked 1")

    assert effects.counts() == {"1": 2}


def test_a_job_that_returns_a_retry_runs_again(effects: Ledger, redis_url: str) -> None:
    assert enqueue(redis_url, "1", job="poll") == ("finished", "seen 1")

    assert effects.counts() == {"1": 2}


def test_a_job_that_is_repeated_runs_each_time(effects: Ledger, redis_url: str) -> None:
    assert enqueue(redis_url, "1", repeat=rq.Repeat(times=2))[0] == "finished"

    assert effects.counts() == {"1": 3}
