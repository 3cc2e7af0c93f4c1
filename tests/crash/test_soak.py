"""Processes killed at random moments; ``benchmarks.soak`` is the same with more of everything."""

import random
from pathlib import Path

import pytest

from benchmarks.soak import Fate, Soak

pytestmark = pytest.mark.crash

MESSAGES, KILLS = 1000, 6

#: Processes with many tasks that share a receiver and their calls.
TASKS = "benchmarks.soak_tasks"


@pytest.mark.parametrize(
    ("messages", "kills", "service"),
    [
        pytest.param(300, 2, None, id="few"),
        pytest.param(600, 2, TASKS, id="few tasks"),
        pytest.param(MESSAGES, KILLS, None, id="threads", marks=pytest.mark.prove),
        pytest.param(20 * MESSAGES, 2 * KILLS, TASKS, id="tasks", marks=pytest.mark.prove),
    ],
)
def test_processes_killed_at_random_lose_nothing_and_repeat_nothing(
    tmp_path: Path, redis_url: str, messages: int, kills: int, service: str | None
) -> None:
    # pytest-randomly prints what this seed comes from.
    seed = random.randrange(2**32)  # noqa: S311  (no secret)
    soak = Soak(
        folder=tmp_path, redis_url=redis_url, messages=messages, kills=kills, seed=seed, service=service
    )

    report = soak.run()

    assert report.mistakes == (), report
    assert report.kills == kills
    assert report.fates.total() == messages
    assert report.fates[Fate.DUPLICATE] > 0


@pytest.mark.prove
def test_processes_with_atomic_triggers_killed_at_random_execute_everything_once(
    tmp_path: Path, redis_url: str, postgres_url: str
) -> None:
    seed = random.randrange(2**32)  # noqa: S311  (no secret)
    soak = Soak(
        folder=tmp_path,
        redis_url=redis_url,
        history=postgres_url,
        atomic=True,
        messages=MESSAGES,
        kills=KILLS,
        seed=seed,
    )

    report = soak.run()

    assert report.mistakes == (), report
    assert report.kills == KILLS
    copies = report.fates[Fate.DUPLICATE]
    assert report.fates == {Fate.EXECUTED: MESSAGES - copies, Fate.DUPLICATE: copies}
