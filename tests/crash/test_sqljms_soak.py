"""Processes with an atomic trigger on SQL-JMS, killed at random: exactly one effect each, and no row is left.

``DOUBTLESS_FULL=1`` makes it 50,000 effects and 20 kills.
"""

import random
from pathlib import Path

import pytest

from benchmarks.soak import Fate, Soak
from tests.fixtures.scale import sized

pytestmark = [pytest.mark.prove, pytest.mark.crash, pytest.mark.timeout(1200)]

MESSAGES = sized(400, full=52_631)
KILLS = sized(3, full=20)


def test_atomic_triggers_on_messages_in_the_same_database_execute_everything_once(
    tmp_path: Path, postgres_url: str
) -> None:
    seed = random.randrange(2**32)  # noqa: S311  (no secret)
    soak = Soak(
        folder=tmp_path,
        redis_url="",
        history=postgres_url,
        atomic=True,
        sqljms=True,
        messages=MESSAGES,
        kills=KILLS,
        seed=seed,
    )

    report = soak.run()

    assert report.mistakes == (), report
    assert report.kills == KILLS
    copies = report.fates[Fate.DUPLICATE]
    assert report.fates == {Fate.EXECUTED: MESSAGES - copies, Fate.DUPLICATE: copies}
